"""When a Capacity Block can be used, and how wake, hibernate and status follow it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.jobs.block_window import SCALE_DOWN_LEAD, block_window, missing_block, shortest_use_s
from infra.jobs.hibernate import HibernateRequest, hibernate
from infra.jobs.move import move
from infra.jobs.observe import observe
from infra.jobs.progress import Step
from infra.jobs.state import state_of
from infra.jobs.wake import wake
from infra.outputs import StackOutputs
from infra.preflight.reservations import Reservation
from infra.sandbox.cloud import CapacityBlock
from serving.errors import CapacityError, JobError
from tests.jobs.world import BLOCK_ID, INSTANCE_TYPE, World

NOW = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)


def reservation(start: datetime, end: datetime | None, state: str = "active") -> Reservation:
    return Reservation(
        BLOCK_ID, state, "capacity-block", INSTANCE_TYPE, "us-east-2a", "use2-az1", start, end, total=1, free=1
    )


def test_the_window_ends_before_eks_lowers_the_group() -> None:
    window = block_window(reservation(NOW, NOW + timedelta(days=1)), drain_s=600)
    # 40 minutes before the end EKS lowers the group; 10 for the requests, 5 for the pod and its volume.
    assert window.usable_until == NOW + timedelta(hours=23, minutes=5)
    assert (window.is_open(NOW), window.is_over(NOW)) == (True, False)
    assert window.words(NOW) == (
        f"capacity block {BLOCK_ID} ends at 2026-12-02 11:30 UTC; usable until 2026-12-02 10:35, for 23 h 05 min; "
        "`dormouse block extend` shows whether it can be made longer"
    )
    late = NOW + timedelta(hours=23, minutes=5)
    assert (window.is_open(late), window.is_over(late)) == (False, True)
    assert window.words(late).endswith("it is time to drain: `dormouse move`")


def test_before_the_start_and_after_the_end() -> None:
    ahead = block_window(reservation(NOW + timedelta(hours=3), NOW + timedelta(days=1), "scheduled"), 600)
    assert not ahead.is_open(NOW)
    assert not ahead.is_over(NOW)
    assert ahead.words(NOW) == f"capacity block {BLOCK_ID} starts at 2026-12-01 14:30 UTC, in 3 h 00 min"
    gone = missing_block(BLOCK_ID)
    assert gone.is_over(NOW)
    assert gone.words(NOW) == f"capacity block {BLOCK_ID} does not exist in this account and region"
    expired = block_window(reservation(NOW - timedelta(days=2), NOW - timedelta(days=1), "expired"), 600)
    assert expired.words(NOW) == f"capacity block {BLOCK_ID} is expired; it ended at 2026-11-30 11:30 UTC"


def test_a_start_that_serves_for_less_than_it_takes_is_not_worth_it() -> None:
    window = block_window(reservation(NOW, NOW + timedelta(hours=2)), drain_s=600)
    assert shortest_use_s(720) == 2040
    assert window.too_short(NOW, 720) == ""
    words = window.too_short(NOW + timedelta(minutes=35), 720)
    assert "has to be drained from 12:35 on: 30 min are left, and a start is worth it from 34 min on" in words


@given(
    hours=st.integers(1, 24 * 182),
    drain_s=st.floats(0, 7200),
    into_s=st.floats(-86400, 86400 * 200),
    load_s=st.floats(1, 7200),
)
def test_whatever_is_started_has_time_to_drain(hours: int, drain_s: float, into_s: float, load_s: float) -> None:
    """Where a start is let through, requests get their whole drain before EKS lowers the group."""
    end = NOW + timedelta(hours=hours)
    window = block_window(reservation(NOW, end), drain_s)
    at = NOW + timedelta(seconds=into_s)
    assert not (window.is_open(at) and window.is_over(at))
    if window.is_open(at) and not window.too_short(at, load_s):
        served = at + timedelta(seconds=load_s)
        assert served + timedelta(seconds=drain_s) < end - SCALE_DOWN_LEAD


def in_a_block(world: World, left: timedelta, begins: timedelta = timedelta(days=-1)) -> StackOutputs:
    """The world's outputs with spot-a told to be a Capacity Block that ends `left` from now."""
    now = world.clock.now()
    world.capacity.blocks[BLOCK_ID] = CapacityBlock(BLOCK_ID, INSTANCE_TYPE, "us-east-2a", now + begins, now + left)
    first, *rest = world.outputs.slots
    slots = (replace(first, purchase="capacity-block", reservation_id=BLOCK_ID), *rest[-1:])
    # A patience that no stalled thread uses up on the fast clock.
    return replace(world.outputs, slots=tuple(replace(slot, patience_s=20_000) for slot in slots))


def test_wake_leaves_a_block_that_ends_too_soon(world: World) -> None:
    outputs = in_a_block(world, timedelta(minutes=65))
    first = replace(outputs, slots=outputs.slots[:1])
    before = world.launched_ever()
    with pytest.raises(CapacityError) as raised:
        wake(first, world.clients, world.clock)
    assert "are left, and a start is worth it from 14 min on" in str(raised.value)
    assert "dormouse block extend" in str(raised.value)
    assert world.launched_ever() == before


def test_a_prepaid_block_is_not_hibernated_to_save_money(world: World) -> None:
    outputs = in_a_block(world, timedelta(days=2))
    assert wake(outputs, world.clients, world.clock).slot == "spot-a"
    with pytest.raises(JobError, match=r"runs on a Capacity Block, which is prepaid for another 4\d h.*--prepaid"):
        hibernate(outputs, world.clients, world.clock)
    assert len(world.live_instances()) == 1
    dry = hibernate(outputs, world.clients, world.clock, request=HibernateRequest(dry_run=True))
    assert dry.steps[0].text.startswith("refuse, because spot-a runs on a Capacity Block")
    assert hibernate(outputs, world.clients, world.clock, request=HibernateRequest(prepaid=True)).state == "asleep"
    assert world.live_instances() == []


@pytest.mark.sandbox
def test_a_block_is_left_before_its_end_and_then_slept(world: World) -> None:
    outputs = in_a_block(world, timedelta(days=2))
    wake(outputs, world.clients, world.clock)
    block = world.capacity.blocks[BLOCK_ID]
    block.end = world.clock.now() + timedelta(minutes=54)
    state = state_of(observe(outputs, world.clients, world.clock))
    assert state.kind == "awake"
    assert state.why.endswith("it is time to drain: `dormouse move`")
    told: list[Step] = []
    report = move(outputs, world.clients, world.clock, told.append)
    assert report.slot == "ondemand-b"
    freed = next(step for step in told if step.stage == "capacity")
    # Everything is off the block before EKS lowers its group and EC2 takes the machine.
    assert freed.at < block.end - SCALE_DOWN_LEAD
    assert [one.state for one in world.observe().volumes if one.volume_id == outputs.slots[0].volume_id] == [
        "available"
    ]
    assert hibernate(outputs, world.clients, world.clock).state == "asleep"
    block.end = world.clock.now() - timedelta(minutes=1)
    with pytest.raises(CapacityError, match=f"capacity block {BLOCK_ID} is expired; it ended at"):
        wake(replace(outputs, slots=outputs.slots[:1]), world.clients, world.clock)


def test_a_window_is_part_of_what_is_seen(world: World) -> None:
    outputs = in_a_block(world, timedelta(days=2))
    block = observe(outputs, world.clients, world.clock).slot("spot-a").block
    assert block is not None
    assert (block.reservation_id, block.state, block.instances) == (BLOCK_ID, "active", 1)
    assert world.observe().slot("spot-a").block is None
