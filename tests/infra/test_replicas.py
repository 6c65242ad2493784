"""Replicas and machines of a replica: what the plan says and costs, what the outputs hold, what a block must hold."""

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra.cost_plan import plan_cost
from infra.environment import Environment, load
from infra.naming import slot_names
from infra.outputs import Slot, StackOutputs
from infra.plan import plan_environment
from infra.plan_text import cost_lines, fit_lines
from infra.preflight.reservations import Reservation, VerdictKind, judge_reservation
from serving.errors import ConfigurationError

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def environment(**changes: Any) -> Environment:
    values: dict[str, Any] = {
        "region": "us-east-2",
        "owner": "team@example.com",
        "instanceType": "p5en.48xlarge",
        "apiKeySecret": {"secure": ""},
        "capacity": [{"purchase": "on-demand", "zone": "use2-az1"}, {"purchase": "on-demand", "zone": "use2-az2"}],
    }
    return load("dev", values | changes, NOW.date())


def test_every_machine_has_a_volume_in_every_zone_and_its_price() -> None:
    one, many = environment(), environment(replicas=3, nodesPerReplica=2)
    single, plan = (plan_cost(each, slot_names(each.candidates, {})) for each in (one, many))
    price = single.machines[0].usd_per_hour
    assert price is not None
    assert plan.machines[0].usd_per_hour == 2 * price
    volumes = {item.name: item for item in plan.asleep if "weight volume" in item.name}
    assert {name.split(":")[0] for name in volumes} == {"12 weight volumes in 2 zones"}
    for item, alone in zip(volumes.values(), [i for i in single.asleep if "weight volume" in i.name], strict=True):
        assert item.quantity == 6 * alone.quantity
    always = [each.always_on_usd(each.machines[0]) for each in (single, plan)]
    asleep = [each.asleep_usd_per_month for each in (single, plan)]
    assert None not in (*always, *asleep)
    assert always[1] - asleep[1] == pytest.approx(6 * (always[0] - asleep[0]))  # type: ignore[operator]
    assert "a month of all 3" in cost_lines(many, plan)[0]


def test_the_plan_of_a_replica_over_two_machines_names_its_layout() -> None:
    two = environment(nodesPerReplica=2, instanceType="p5.48xlarge")
    head = fit_lines(two, plan_environment(two))[0]
    assert head == "Kimi K2.5 (595.1 GB) fits on 2 × p5.48xlarge (16 × H100) as one, PP2 × TP8, 2 nodes. Per GPU:"


def outputs(*slots: Slot) -> StackOutputs:
    needed = [field for field in dataclasses.fields(StackOutputs) if field.default is dataclasses.MISSING]
    plain = {field.name: 1 if field.type is int else "x" for field in needed}
    return StackOutputs(**{**plain, "slots": slots, "replicas": len(slots)})  # type: ignore[arg-type]


FIRST = Slot("spot", "spot", "p5", "a", "az1", "group", "vllm", "vol-1", 900)
SECOND = dataclasses.replace(
    FIRST, name="spot-r1", replica=1, nodes=2, worker_deployment_names=("vllm-node1",), worker_volume_ids=("vol-2",)
)


def test_outputs_come_back_as_they_were_and_older_ones_are_one_lane() -> None:
    both = outputs(FIRST, SECOND)
    assert StackOutputs.from_mapping(both.to_mapping()) == both
    older = outputs(FIRST).to_mapping()
    del older["replicas"]
    for key in ("replica", "nodes", "workerDeploymentNames", "workerVolumeIds"):
        del older["slots"][0][key]
    assert StackOutputs.from_mapping(older) == outputs(FIRST)


def test_a_lane_is_its_own_slots_alone() -> None:
    both = outputs(FIRST, SECOND)
    assert both.lanes == (0, 1)
    assert both.lane(1).slots == (SECOND,)
    assert SECOND.deployment_names == ("vllm", "vllm-node1")
    assert SECOND.volume_ids == ("vol-1", "vol-2")
    with pytest.raises(ConfigurationError, match="replica: got 2; accepted: 0, 1"):
        both.lane(2)


@pytest.mark.parametrize(("nodes", "kind"), [(2, VerdictKind.USABLE), (3, VerdictKind.TOO_SMALL)])
def test_a_block_with_too_few_instances_is_refused_whenever_it_starts(nodes: int, kind: VerdictKind) -> None:
    block = Reservation(
        "cr-1", "active", "capacity-block", "p5", "a", "az1", NOW - timedelta(hours=1), NOW + timedelta(days=1), 2, 2
    )
    for state, expected in (("active", kind), ("scheduled", kind if nodes == 3 else VerdictKind.NOT_STARTED)):
        verdict = judge_reservation(
            dataclasses.replace(block, state=state),
            reservation_id="cr-1", instance_type="p5", zone="a", now=NOW, nodes=nodes,
        )  # fmt: skip
        assert verdict.kind is expected
    if nodes == 3:
        assert verdict.stops
        assert "holds 2 instances, and one replica takes 3 machines at once" in verdict.words
