"""Throughput as money: the arithmetic by hand, what the plan says of it, and what the stack does about it."""

import json
from typing import Any

import pytest

from components import ModelServer
from infra.cli.main import main
from infra.cost_plan import plan_cost
from infra.loading_plan import plan_loading
from infra.naming import slot_names
from infra.throughput_plan import ThroughputPlan, plan_throughput
from infra.throughput_text import throughput_lines
from tests.components.test_model_server import arguments
from tests.infra.test_environment import ROOT, environment, faults
from tests.infra.test_plan import stack_file
from tests.support.recording import record

LOW = {"weightsThroughputAsleepMibps": "125"}
WEIGHTS_BYTES = 595_148_192_736
MIB = 2**20


def plan(**changes: Any) -> ThroughputPlan:
    made = environment(**changes)
    return plan_throughput(made, plan_loading(made))


def test_the_arithmetic_is_the_one_done_by_hand() -> None:
    low = plan(**LOW)
    # The dev stack: two zones, spot at $26.5714 first, 55 hours a week awake; 875 MiB/s at 4 and 1,000 IOPS at 0.5 cents.
    extra = 875 * 0.04 + 1000 * 0.005
    awake_hours = 55 * 730 / 168
    assert (low.volumes, low.raised, low.asleep_iops) == (2, 1, 3000)
    assert low.extra_usd_per_month == pytest.approx(extra)
    assert low.always_usd_per_month == pytest.approx(2 * extra)
    assert low.changing_usd_per_month == pytest.approx(extra * awake_hours / 730)
    assert low.saved_s == pytest.approx(WEIGHTS_BYTES / MIB * (1 / 125 - 1 / 1000), rel=0.01)
    assert low.saved_usd_per_wake == pytest.approx(26.5714 * low.saved_s / 3600)
    assert low.late_wakes_per_month == 0
    assert low.net_usd_per_month == pytest.approx(2 * extra - extra * awake_hours / 730)
    assert low.affordable_late_wakes == pytest.approx(low.net_usd_per_month / low.saved_usd_per_wake)
    assert low.pays is True


def test_what_sleeps_is_billed_at_the_low_rate_and_what_wakes_at_the_high_one() -> None:
    high, low = environment(), environment(**LOW)
    names = slot_names(high.candidates, {})
    always, changing = plan_cost(high, names), plan_cost(low, names)
    assert always.asleep_usd_per_month - changing.asleep_usd_per_month == pytest.approx(80.0)
    assert [item.name for item in changing.asleep][-1] == "weight volumes in 2 zones: 650 GiB"
    saved = [each.month_usd(each.machines[1]) for each in (always, changing)]
    assert saved[0] - saved[1] == pytest.approx(plan(**LOW).saving_usd_per_month)
    assert low.storage.billed_mib_per_s == low.storage.billed_iops == 0
    assert low.storage.throughput_mib_per_s == 1000


def test_more_wakes_than_ebs_lets_raise_cost_more_than_it_saves_and_the_plan_says_so() -> None:
    busy = plan(wakesPerMonth="120", **LOW)
    assert busy.late_wakes_per_month == pytest.approx(120 - 2 * 730 / 24)
    assert busy.net_usd_per_month == pytest.approx(
        busy.saving_usd_per_month - busy.late_wakes_per_month * busy.saved_usd_per_wake
    )
    assert busy.pays is False
    (verdict,) = [line for line in throughput_lines(busy) if "more than it saves" in line]
    assert verdict == (
        f"  It costs ${-busy.net_usd_per_month:,.2f} a month more than it saves, since 59 of 120 wakes a month are more "
        "than EBS lets raise: leave weightsThroughputAsleepMibps out."
    )
    assert "weightsThroughputAsleepMibps stays unset" in throughput_lines(plan(wakesPerMonth="120"))[-1]


def test_nothing_is_changed_unless_told_and_the_plan_says_what_it_would_bring() -> None:
    unset = plan()
    assert (unset.set, unset.asleep_mib_per_s) == (False, 125)
    lines = throughput_lines(unset)
    assert lines[0] == (
        "Throughput as money: 2 weight volumes at 1,000 MiB/s and 4,000 IOPS, against 125 MiB/s and 3,000:"
    )
    assert lines[-1] == (
        "  It saves up to $66.90 a month; it is not set, and weightsThroughputAsleepMibps: 125 would do it."
    )
    page = (ROOT / "docs" / "weights.md").read_text(encoding="utf-8")
    assert "\n".join(lines[:4]) in page, "the page shows what the plan prints"
    assert throughput_lines(plan(weightsThroughputMibps="125"))[0].endswith("there is nothing to save.")
    copied = throughput_lines(plan(weightsS3Copy="true", loadingPath="s3-streamer"))
    assert "s3-streamer does not read the volume" in copied[1]
    assert copied[-1] == "  Lower weightsThroughputMibps instead, which saves $80.00 a month."
    north = plan(region="eu-north-1", capacity=[{"purchase": "spot", "zone": "eun1-az1"}])
    assert (north.pays, north.to_mapping()["netUsdPerMonth"]) == (None, None)
    assert throughput_lines(north)[-1].startswith("  Whether it pays is unknown, for want of a price")


def test_a_rate_above_the_awake_one_is_refused() -> None:
    assert faults(weightsThroughputAsleepMibps="2000") == [
        "dormouse:weightsThroughputAsleepMibps: got 2000; accepted: at most weightsThroughputMibps, 1000; left out it is that"
    ]


def test_the_command_shows_it(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(stack_file(tmp_path, **LOW))
    assert main(["plan", path]) == 0
    shown = capsys.readouterr().out
    assert "  It saves up to $66.90 a month (weightsThroughputAsleepMibps: 125)." in shown
    assert "weight volumes raised while awake           $0.055 an hour, counted above" in shown
    assert main(["plan", path, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["throughput"]["savingUsdPerMonth"], found["throughput"]["pays"]) == (66.9, True)
    assert found["cost"]["asleepUsdPerMonth"] == pytest.approx(240.63)


def test_pulumi_leaves_the_speed_to_the_jobs_only_where_they_change_it() -> None:
    def ignored(**changes: Any) -> set[tuple[str, ...]]:
        made = record(lambda: ModelServer("server", arguments(volume_throughput_mib_per_s=1000, **changes)) and None)
        return {one.ignore_changes for one in made.of("Volume")}

    assert ignored() == {()}
    assert ignored(volume_asleep_mib_per_s=1000) == {()}
    assert ignored(volume_asleep_mib_per_s=125) == {("throughput", "iops")}
