"""Which zones keep a weight volume, and what a copy in S3 costs and allows."""

from typing import Any

import pytest

from infra.cost_plan import plan_cost
from tests.infra.test_environment import environment, faults


def test_every_zone_keeps_a_volume_unless_told_otherwise() -> None:
    dev = environment()
    assert dev.weights.zones == ("use2-az1", "use2-az2")
    assert environment(weightsZones="[]").weights == dev.weights
    assert (dev.streaming_zones, dev.weights.s3_copy, dev.storage.volumes) == ((), False, 2)


def test_a_copy_in_s3_is_paid_for_and_saves_the_other_zone_s_volume() -> None:
    both = environment(weightsS3Copy="true")
    one = environment(weightsS3Copy="true", weightsZones='["use2-az1"]', loadingPath="volume-prefetch")
    assert (one.weights.zones, one.streaming_zones) == (("use2-az1",), ("use2-az2",))
    assert (one.storage.volumes, one.storage.s3_copy) == (1, True)
    items = {item.name: item.usd_per_month for item in plan_cost(one, ["a", "b", "c"]).asleep}
    assert items["copy of the weights in S3: 595 GB"] == pytest.approx(595.1 * 0.023, abs=0.01)
    assert items["weight volume: 650 GiB"] == 52.0
    saved = plan_cost(both, ["a", "b", "c"]).asleep_usd_per_month, plan_cost(one, ["a", "b", "c"]).asleep_usd_per_month
    assert saved[0] is not None
    assert saved[1] is not None
    assert saved[0] - saved[1] == pytest.approx(52 + 35 + 5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"weightsZones": ["use2-az1"]},
            "got use2-az1, which leaves use2-az2 without weights; accepted: use2-az2 as well (with weightsSource snap-…",
        ),
        (
            {"weightsZones": ["use2-az3"], "weightsS3Copy": True},
            "weightsZones[0]: got use2-az3; accepted: zones of capacity, written as there: use2-az1, use2-az2",
        ),
        (
            {"weightsZones": ["use2-az1"], "weightsS3Copy": True, "extraArgs": ["--load-format=safetensors"]},
            "extraArgs: got --load-format; accepted: none of them while use2-az2 has no weight volume",
        ),
    ],
)
def test_what_leaves_a_zone_without_weights_is_refused_with_what_works(changes: dict[str, Any], said: str) -> None:
    (fault,) = faults(**changes)
    assert said in fault
