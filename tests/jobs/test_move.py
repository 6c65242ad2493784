"""Moving between candidates: off a machine that is taken, back to a better one; killed anywhere and run again."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra.jobs.block_window import BlockWindow
from infra.jobs.capacity import LaunchFailure
from infra.jobs.move import MoveRequest, move, preferred_again
from infra.jobs.observation import DeploymentView, InstanceView, Observation, PodView, SlotView
from infra.jobs.progress import Report, Step
from infra.jobs.state import StateKind, state_of
from infra.jobs.wake import wake
from infra.outputs import Slot, StackOutputs
from infra.sandbox.cloud.spot_interruptions import interrupt
from serving.errors import ConfigurationError, JobError
from tests.jobs.test_kill import Killed, Killer, fragile
from tests.jobs.world import NAMESPACE, World

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def patient(world: World) -> StackOutputs:
    """The outputs with a patience that no stalled thread uses up on the fast clock."""
    return replace(world.outputs, slots=tuple(replace(slot, patience_s=20_000) for slot in world.outputs.slots))


def run(world: World, **request: Any) -> Report:
    return move(patient(world), world.clients, world.clock, request=MoveRequest(**request))


@pytest.fixture(autouse=True)
def no_notices(world: World) -> Iterator[None]:
    yield
    world.capacity.notices.clear()


def test_a_spot_notice_is_seen_and_left_in_time(world: World) -> None:
    wake(patient(world), world.clients, world.clock)
    [taken] = world.live_instances()
    world.kubernetes.simulate_requests(NAMESPACE, 1, 3000.0)
    assert interrupt(None) == [taken]
    seen = world.observe()
    assert [(slot.name, one.instance_id, one.notice) for slot, one in seen.notices] == [
        ("spot-a", taken, "marked-for-termination")
    ]
    assert f"EC2 takes spot instance {taken} back (marked-for-termination)" in state_of(seen).why
    told: list[Step] = []
    world.refuse(purchase="spot")
    report = move(patient(world), world.clients, world.clock, told.append)
    assert report.slot == "ondemand-a"
    assert report.sentence.startswith("moved to ondemand-a: p5en.48xlarge (on-demand) in us-east-2a, at $63.30 an hour")
    drained = [step for step in told if step.stage == "drain"]
    assert drained[0].text.startswith(f"moving from spot-a to ondemand-a: EC2 takes spot instance {taken} back")
    assert max(step.remaining_s or 0.0 for step in drained) <= 100.0
    assert (drained[-1].at - drained[0].at).total_seconds() < 600.0
    assert world.desired() == {"spot-a": 0, "ondemand-a": 1, "ondemand-b": 0}
    assert len(world.live_instances()) == 1
    assert world.annotation("vllm-a", "moving") == ""


@pytest.mark.sandbox
def test_back_to_the_preferred_and_home_again_where_it_refuses(world: World) -> None:
    wake(patient(world), world.clients, world.clock)
    with pytest.raises(JobError, match="spot-a is the most preferred candidate; nothing was changed. Name another"):
        run(world)
    with pytest.raises(ConfigurationError, match="accepted: spot-a, ondemand-a, ondemand-b"):
        run(world, to="spot-z")
    assert run(world, to="ondemand-b", reason="the zone is better").slot == "ondemand-b"
    assert world.desired() == {"spot-a": 0, "ondemand-a": 0, "ondemand-b": 1}
    world.refuse(purchase="spot", code="MaxSpotInstanceCountExceeded")
    report = run(world)
    assert (report.slot, [one.slot for one in report.refusals]) == ("ondemand-b", ["spot-a"])
    assert report.sentence.startswith("back on ondemand-b")
    assert state_of(world.observe()).kind is StateKind.AWAKE


def test_what_sleeps_is_not_moved(world: World) -> None:
    with pytest.raises(JobError, match="the stack is asleep.*`dormouse wake --slot ondemand-b` starts it"):
        run(world, to="ondemand-b")


def test_requests_that_do_not_end_keep_the_stack_where_it_is(world: World) -> None:
    wake(patient(world), world.clients, world.clock)
    world.kubernetes.simulate_requests(NAMESPACE, 2, 4000.0)
    with pytest.raises(JobError, match="2 requests are still running"):
        run(world, to="ondemand-b", drain_timeout_s=20.0)
    assert state_of(world.observe()).kind is StateKind.AWAKE
    assert world.annotation("vllm-a", "moving") == ""


@pytest.mark.sandbox
# note, annotate, relabel, annotate, scale, lower, annotate, raise, annotate, scale, annotate, take the note off.
@pytest.mark.parametrize(
    "points", [(6,), pytest.param((1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12), marks=pytest.mark.sandbox)]
)
def test_killed_before_a_change_and_run_again(world: World, points: tuple[int, ...]) -> None:
    """There and back, killed at another change each time; the run after it finishes the same move."""
    slots = ["spot-a", "ondemand-b"]
    wake(patient(world), world.clients, world.clock)
    for at in points:
        target = slots[1]
        before = world.launched_ever()
        with pytest.raises(Killed):
            move(patient(world), fragile(world, Killer(at, False)), world.clock, request=MoveRequest(to=target))
        assert len(world.live_instances()) <= 1
        # Killed before the note was written, nothing tells the next run where to.
        report = run(world, to=target if at == 1 else None)
        assert report.slot == target, (at, report)
        assert state_of(world.observe()).kind is StateKind.AWAKE
        assert world.launched_ever() - before == 1
        assert {name for name, desired in world.desired().items() if desired} == {target}
        assert world.annotation("vllm-a", "moving") + world.annotation("vllm-b", "moving") == ""
        slots.reverse()


def seen(stayed: timedelta, *better: SlotView, here: str = "on-demand") -> Observation:
    node = InstanceView("i-1", "running", here, "us-east-2b", NOW - stayed, "node-1", node_ready=True)
    present = SlotView(_slot("here", here), "ACTIVE", 1, (node,))
    pods = (PodView("vllm-b-1", "ready", node_name="node-1"),)
    deployments = (
        DeploymentView("vllm-a", "us-east-2a", 0, ()),
        DeploymentView("vllm-b", "us-east-2b", 1, pods),
    )
    return Observation(NOW, (*better, present, SlotView(_slot("worse", "spot"), "ACTIVE", 0)), deployments, ())


def _slot(name: str, purchase: str) -> Slot:
    zone = "b" if name == "here" else "a"
    return Slot(
        name,
        purchase,
        "p5en.48xlarge",
        f"us-east-2{zone}",
        "use2-az1",
        f"gpu-{name}",
        f"vllm-{zone}",
        f"vol-{zone}",
        600,
    )


BETTER = SlotView(_slot("better", "spot"), "ACTIVE", 0)


def test_a_better_candidate_is_worth_a_try_after_a_while() -> None:
    day = timedelta(days=1)
    found = preferred_again(seen(day, BETTER))
    assert found is not None
    assert found[0].name == "better"
    assert found[1] == (
        "better is preferred to here, which has served for 24 h 00 min, and nothing speaks against it now"
    )
    assert preferred_again(seen(timedelta(hours=5), BETTER)) is None
    assert preferred_again(seen(timedelta(hours=5), BETTER), minimum_stay_s=3600) is not None
    assert preferred_again(seen(day)) is None


def test_a_block_that_has_begun_is_used_at_once() -> None:
    window = BlockWindow("cr-1", "active", NOW - timedelta(hours=1), NOW + timedelta(days=1), NOW + timedelta(days=1))
    block = SlotView(_slot("block", "capacity-block"), "ACTIVE", 0, block=window)
    found = preferred_again(seen(timedelta(minutes=20), block))
    assert found is not None
    assert found[0].name == "block"
    ending = replace(window, usable_until=NOW + timedelta(hours=1))
    assert preferred_again(seen(timedelta(days=1), replace(block, block=ending))) is None
    ahead = replace(window, state="scheduled", usable_from=NOW + timedelta(minutes=1))
    assert preferred_again(seen(timedelta(days=1), replace(block, block=ahead))) is None


@pytest.mark.parametrize(
    "better",
    [
        replace(BETTER, status="DEGRADED"),
        replace(BETTER, issues=("AsgInstanceLaunchFailures: no capacity",)),
        replace(BETTER, failures=(LaunchFailure("1", NOW - timedelta(minutes=30), "UnfulfillableCapacity"),)),
        SlotView(_slot("block", "capacity-block"), "ACTIVE", 0, block=None),
    ],
)
def test_what_speaks_against_a_better_candidate(better: SlotView) -> None:
    assert preferred_again(seen(timedelta(days=1), better)) is None
    with suppress(IndexError):
        old = replace(better.failures[0], at=NOW - timedelta(hours=3))
        assert preferred_again(seen(timedelta(days=1), replace(better, failures=(old,)))) is not None
