"""Waking over real sockets: candidates in order, refusals in AWS's words, never two nodes."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from infra.jobs import candidate
from infra.jobs.progress import Report, Step
from infra.jobs.state import StateKind, WakingStage, state_of
from infra.jobs.wake import WakeRequest, wake
from infra.sandbox.cloud import CapacityBlock, CapacityRule
from serving.errors import CapacityError, ConfigurationError, JobError
from tests.jobs.world import World


def run(world: World, **request: Any) -> Report:
    return wake(world.outputs, world.clients, world.clock, request=WakeRequest(**request))


def test_the_first_candidate_serves_and_waking_again_changes_nothing(world: World) -> None:
    told: list[Step] = []
    report = wake(world.outputs, world.clients, world.clock, told.append)

    assert report.state == "awake"
    assert report.slot == "spot-a"
    assert report.sentence.startswith("awake on spot-a after ")
    assert "at an unknown price" in report.sentence
    assert world.desired() == {"spot-a": 1, "ondemand-a": 0, "ondemand-b": 0}
    assert world.replicas() == {"vllm-a": 1, "vllm-b": 0}
    pod = world.ready_pod()
    assert pod["metadata"]["labels"]["dormouse.dev/zone"] == "us-east-2a"
    state = state_of(world.observe())
    assert (state.kind, state.slot) == (StateKind.AWAKE, "spot-a")
    assert state.why == f"pod {pod['metadata']['name']} serves in us-east-2a; 0 requests running, 0 waiting"
    assert world.annotation("vllm-a") == "awake"
    assert world.annotation("vllm-a", "reason") == "woken on slot spot-a"
    stages = list(dict.fromkeys(step.stage for step in told))
    assert stages == ["capacity", "node", "scheduling", "loading", "ready", "done"]
    estimates = [step.remaining_s for step in told if step.stage == "loading" and step.remaining_s]
    assert estimates
    assert all(0 < one <= 120 for one in estimates)

    before, changed_at = world.launched_ever(), world.annotation("vllm-a", "changed-at")
    again = run(world)
    assert (again.state, again.changed, again.slot) == ("awake", False, "spot-a")
    assert again.sentence.startswith("already awake: pod vllm-a-")
    assert world.launched_ever() == before
    assert world.annotation("vllm-a", "changed-at") == changed_at


def test_the_next_zone_serves_where_the_first_refuses(world: World) -> None:
    world.refuse(zone="us-east-2a")
    before = world.launched_ever()
    report = run(world)
    assert report.slot == "ondemand-b"
    assert [one.slot for one in report.refusals] == ["spot-a", "ondemand-a"]
    spot, on_demand = report.refusals
    assert "UnfulfillableCapacity" in spot.words
    assert spot.after_s >= 200
    assert "We currently do not have sufficient p5en.48xlarge capacity in the Availability Zone" in on_demand.words
    assert (on_demand.kind, on_demand.after_s >= 150) == ("capacity", True)
    assert world.launched_ever() - before == 1
    assert world.desired() == {"spot-a": 0, "ondemand-a": 0, "ondemand-b": 1}
    assert world.replicas() == {"vllm-a": 0, "vllm-b": 1}
    assert (world.annotation("vllm-a"), world.annotation("vllm-b")) == ("asleep", "awake")
    assert world.annotation("vllm-a", "reason").startswith("ondemand-a: Could not launch On-Demand Instances.")
    assert "$63.30 an hour" in report.sentence


def test_a_refusal_that_ends_within_the_patience_is_waited_for(world: World) -> None:
    world.refuse(zone="us-east-2a")
    for rule in world.capacity.rules.values():
        rule.attempts = 2
    report = run(world)
    assert (report.slot, report.refusals) == ("spot-a", ())
    assert any("EC2 refuses so far" in step.text for step in report.steps)


def test_all_refuse_and_everything_is_back_at_0(world: World) -> None:
    world.refuse(code="InsufficientInstanceCapacity")
    with pytest.raises(CapacityError) as raised:
        run(world)
    message = str(raised.value)
    for slot in ("spot-a", "ondemand-a", "ondemand-b"):
        assert f"  - {slot}: Could not launch" in message
    assert "There is no Spot capacity available that matches your request" in message
    assert "every node group is back at 0 and nothing is paid for" in message
    assert "try again later" in message
    assert set(world.desired().values()) == {0}
    assert set(world.replicas().values()) == {0}
    assert world.live_instances() == []
    assert state_of(world.observe()).kind is StateKind.ASLEEP


def test_a_quota_is_not_waited_for(world: World) -> None:
    world.refuse(purchase="spot", code="MaxSpotInstanceCountExceeded")
    world.refuse(zone="us-east-2a", purchase="on-demand", code="VcpuLimitExceeded")
    report = run(world)
    assert report.slot == "ondemand-b"
    assert [one.kind for one in report.refusals] == ["quota", "quota"]
    assert sum(one.after_s for one in report.refusals) < 350


def test_an_old_refusal_is_not_held_against_a_new_wake(world: World) -> None:
    world.refuse(purchase="spot", code="MaxSpotInstanceCountExceeded")
    with pytest.raises(CapacityError):
        run(world, slot="spot-a")
    world.capacity.rules.clear()
    report = run(world, slot="spot-a")
    assert (report.slot, report.refusals) == ("spot-a", ())


def test_an_instance_whose_node_never_joins_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate, "NODE_JOIN_S", 300.0)
    world.capacity.add(CapacityRule("never-joins", purchase="spot"))
    report = run(world)
    assert report.slot == "ondemand-a"
    assert report.refusals[0].kind == "node"
    assert "its node never became Ready" in report.refusals[0].words
    assert len(world.live_instances()) == 1


def test_a_capacity_block_that_has_not_begun_is_not_even_asked(world: World) -> None:
    now = world.clock.now()
    block = CapacityBlock(
        "cr-0123456789abcdef0", "p5en.48xlarge", "us-east-2a", now + timedelta(days=2), now + timedelta(days=3)
    )
    world.capacity.blocks[block.reservation_id] = block
    spot, on_demand, _ = world.outputs.slots
    outputs = replace(
        world.outputs,
        slots=(
            replace(spot, purchase="capacity-block", reservation_id=block.reservation_id),
            replace(on_demand, purchase="capacity-block", reservation_id="cr-0fedcba9876543210"),
        ),
    )
    before = world.launched_ever()
    with pytest.raises(CapacityError) as raised:
        wake(outputs, world.clients, world.clock)
    message = str(raised.value)
    assert f"capacity block {block.reservation_id} starts at {block.start:%Y-%m-%d %H:%M} UTC, in " in message
    assert "capacity block cr-0fedcba9876543210 does not exist in this account and region" in message
    assert world.launched_ever() == before
    world.capacity.blocks.clear()


def test_one_slot_alone(world: World) -> None:
    world.refuse(zone="us-east-2b")
    with pytest.raises(CapacityError) as raised:
        run(world, slot="ondemand-b")
    assert "spot-a" not in str(raised.value)
    assert run(world, slot="ondemand-a").slot == "ondemand-a"
    with pytest.raises(JobError, match="awake on ondemand-a, and never runs on two slots at once"):
        run(world, slot="spot-a")
    with pytest.raises(ConfigurationError, match="accepted: spot-a, ondemand-a, ondemand-b"):
        run(world, slot="spot-z")


def test_a_node_that_was_asked_for_by_hand_is_taken(world: World) -> None:
    world.set_desired("ondemand-b", 1)
    world.wait("instance", world.live_instances)
    before = world.launched_ever()
    state = state_of(world.observe())
    assert state.kind is StateKind.INCONSISTENT
    assert "the node of ondemand-b is paid for, but no pod is wanted" in state.why
    report = run(world)
    assert report.slot == "ondemand-b"
    assert world.launched_ever() == before
    assert report.notes == ("going on with ondemand-b, which an earlier job has asked for",)


def test_a_pod_that_was_wanted_by_hand_decides_the_zone(world: World) -> None:
    world.scale("vllm-b", 1)
    world.wait("pod", lambda: world.observe().pods)
    assert state_of(world.observe()).kind is StateKind.INCONSISTENT
    assert run(world).slot == "ondemand-b"


def test_a_pod_that_lost_its_node_is_no_sign_of_being_awake(world: World) -> None:
    run(world)
    world.set_desired("spot-a", 0)
    world.wait("no instance", lambda: not world.live_instances())
    state = state_of(world.observe())
    assert state.kind is StateKind.INCONSISTENT
    before = world.launched_ever()
    report = run(world)
    assert (report.changed, report.slot, world.launched_ever() - before) == (True, "spot-a", 1)


def test_two_slots_by_hand_become_one(world: World) -> None:
    world.set_desired("spot-a", 1)
    world.set_desired("ondemand-b", 1)
    world.wait("two instances", lambda: len(world.live_instances()) == 2)
    state = state_of(world.observe())
    assert (state.kind, "more than one node is paid for: spot-a and ondemand-b" in state.why) == (
        StateKind.INCONSISTENT,
        True,
    )
    assert run(world).slot == "spot-a"
    assert len(world.live_instances()) == 1
    assert world.desired() == {"spot-a": 1, "ondemand-a": 0, "ondemand-b": 0}


def test_a_node_that_is_taken_back_while_loading_costs_the_candidate_only(world: World) -> None:
    def take_back(step: Step) -> None:
        if step.stage in ("scheduling", "loading") and not world.capacity.rules:
            world.refuse(purchase="spot")
            world.ec2.terminate_instances(InstanceIds=world.live_instances())

    report = wake(world.outputs, world.clients, world.clock, take_back)
    assert report.slot == "ondemand-a"
    assert report.refusals[0].words == "the node was taken back before the model was ready"
    assert len(world.live_instances()) == 1


def test_a_slot_that_is_lowered_meanwhile_ends_the_wake(world: World) -> None:
    world.refuse()

    def stop_by_budget(_step: Step) -> None:
        world.wait("node group is idle", lambda: world.status("spot-a") == "ACTIVE")
        world.set_desired("spot-a", 0)

    with pytest.raises(JobError, match="somebody set gpu-spot-a back to 0 nodes"):
        wake(world.outputs, world.clients, world.clock, _once(stop_by_budget, "waiting for one"))
    assert world.desired()["ondemand-a"] == 0


def test_two_wakes_at_once_make_one_node(world: World) -> None:
    before = world.launched_ever()
    reports: list[Report] = []
    told: list[Step] = []
    threads = [
        threading.Thread(target=lambda: reports.append(wake(world.outputs, world.connect(), world.clock, told.append)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    most = 0
    while any(thread.is_alive() for thread in threads):
        most = max(most, len(world.live_instances()))
        time.sleep(0.02)
    assert [report.slot for report in reports] == ["spot-a", "spot-a"]
    assert sorted(report.changed for report in reports) == [False, True]
    assert (most, world.launched_ever() - before) == (1, 1)
    assert any("wake is already running" in step.text for step in told)


def test_a_follower_of_a_failed_wake_fails_with_its_words(world: World) -> None:
    world.refuse(code="MaxSpotInstanceCountExceeded")
    errors: list[Exception] = []

    def follow() -> None:
        try:
            wake(world.outputs, world.connect(), world.clock)
        except JobError as error:
            errors.append(error)

    follower = threading.Thread(target=follow)

    def start(_step: Step) -> None:
        follower.start()
        time.sleep(0.3)

    with pytest.raises(CapacityError):
        wake(world.outputs, world.clients, world.clock, _once(start))
    follower.join(timeout=20)
    assert "which was followed, failed: no candidate could give a GPU node" in str(errors[0])


def test_time_is_up(world: World) -> None:
    world.refuse()
    with pytest.raises(JobError, match="time is up and no node of spot-a is Ready"):
        run(world, timeout_s=60.0)


def test_a_loading_pod_shows_its_estimate(world: World) -> None:
    seen: list[Any] = []

    def look(step: Step) -> None:
        if step.stage == "loading":
            seen.append(state_of(world.observe()))

    wake(world.outputs, world.clients, world.clock, look)
    loading = [state for state in seen if state.stage is WakingStage.LOADING]
    assert loading
    assert loading[0].slot == "spot-a"
    assert "of about 2 min" in loading[0].why
    assert str(loading[0]) == "waking (loading)"


def _once(act: Callable[[Step], None], beginning: str = "") -> Callable[[Step], None]:
    """Progress that acts at the first step whose text begins so."""
    done: list[Step] = []

    def progress(step: Step) -> None:
        if not done and step.text.startswith(beginning):
            done.append(step)
            act(step)

    return progress
