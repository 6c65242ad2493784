"""`decide()`: what never happens, whatever the world looks like, and what comes before what."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings

from infra.brain.circumstances import Action
from infra.brain.decision import decide
from infra.brain.history import History
from infra.brain.policy import Mode, Policy
from infra.brain.situation import SlotState
from tests.brain.worlds import NOW, histories, office_history, policies, situation, situations, slot, timetable

HOUR = timedelta(hours=1)
TIMER = Policy(mode=Mode.TIMER, idle_s=1800)
KNOWS_NOTHING = History()


@settings(max_examples=150, deadline=None)
@given(situations, policies, histories)
def test_what_holds_in_every_world(it, policy, history) -> None:
    """Total and explained; nothing in use or unread is put to sleep; money gone wakes nothing; two brains agree."""
    decision = decide(it, policy, history)
    assert decision.reason
    assert decision.rule
    assert decision.next_look > it.now
    named = {one.name: one for one in it.slots}
    target = named[decision.target] if decision.target else None
    ends = decision.action is Action.SLEEP or (
        decision.action is Action.SCALE and target is not None and target.state is SlotState.AWAKE
    )
    if ends:
        assert target is not None
        serves = target.state in (SlotState.AWAKE, SlotState.DRAINING)
        assert not serves or target.requests == 0
        assert serves or decision.rule in ("budget", "expired")
    if decision.action is Action.DRAIN:
        assert target is not None
        assert target.state is SlotState.AWAKE
    begins = target is not None and decision.action in (Action.WAKE, Action.MOVE, Action.SCALE) and not ends
    if begins:
        assert target.state in (SlotState.ASLEEP, SlotState.DRAINING)
        assert it.expires_at is None or it.now < it.expires_at
        assert it.hold_until is None or it.now >= it.hold_until
        if policy.monthly_budget_usd is not None and not target.prepaid:
            assert it.spent_usd is not None
            assert it.spent_usd + target.usd_per_hour * it.wake_s / 3600 < policy.monthly_budget_usd
    if decision.action is Action.STAY and it.wake_requests:
        # Nobody who asks is left without either an answer or something on its way.
        assert any(one.state is not SlotState.ASLEEP for one in it.slots)
    again = History.from_json(history.to_json())
    other = History.from_json(history.to_json())
    assert decide(it, policy, again) == decide(it, policy, other)


AWAKE, ASLEEP, LOADING, DRAINING = SlotState.AWAKE, SlotState.ASLEEP, SlotState.LOADING, SlotState.DRAINING
GONE = {"monthly_budget_usd": 1000.0}
CASES = [
    ("idle beyond the timer", situation(slot()), TIMER, "sleep", "timer"),
    ("idle less", situation(slot(), last_activity=NOW - timedelta(minutes=29)), TIMER, "stay", "timer"),
    ("a request runs", situation(slot(running=1)), TIMER, "stay", "busy"),
    ("unread metrics", situation(slot(running=None, unknown_reason="timeout")), TIMER, "alarm", "unknown-requests"),
    ("unread state", situation(slot(SlotState.UNKNOWN)), TIMER, "alarm", "unknown-state"),
    ("loading", situation(slot(LOADING)), TIMER, "stay", "coming"),
    ("drained", situation(slot(DRAINING)), TIMER, "sleep", "drained"),
    ("draining", situation(slot(DRAINING, running=2, since=NOW)), TIMER, "stay", "draining"),
    ("draining too long", situation(slot(DRAINING, running=2)), TIMER, "alarm", "draining"),
    ("called back", situation(slot(DRAINING, running=2), wake_requests=1), TIMER, "wake", "called-back"),
    ("asked for", situation(slot(ASLEEP), wake_requests=1), TIMER, "wake", "requested"),
    ("not asked for", situation(slot(ASLEEP)), TIMER, "stay", "asleep"),
    ("no capacity", situation(slot(ASLEEP, refused_until=NOW + HOUR), wake_requests=1), TIMER, "refuse", "no-capacity"),
    ("held asleep", situation(slot(ASLEEP), wake_requests=1, hold_until=NOW + HOUR), TIMER, "refuse", "held"),
    ("held awake", situation(slot(), hold_until=NOW + HOUR, held_by="ann"), TIMER, "stay", "held"),
    ("wanted by a person", situation(slot(), awake_until=NOW + HOUR), TIMER, "stay", "pinned"),
    ("prepaid", situation(slot(prepaid=True)), TIMER, "stay", "paid-block"),
    ("prepaid asleep", situation(slot(ASLEEP, prepaid=True)), TIMER, "wake", "paid-block"),
    ("just up", situation(slot(since=NOW)), replace(TIMER, minimum_uptime_s=900), "stay", "uptime"),
    ("budget, idle", situation(slot(), spent_usd=1000.0), replace(TIMER, **GONE), "sleep", "budget"),
    ("budget, in use", situation(slot(running=1), spent_usd=1000.0), replace(TIMER, **GONE), "drain", "budget"),
    ("budget, unread", situation(slot(running=None), spent_usd=1000.0), replace(TIMER, **GONE), "drain", "budget"),
    ("budget nearly", situation(slot(running=1), spent_usd=995.0), replace(TIMER, **GONE), "drain", "budget"),
    ("budget, loading", situation(slot(LOADING), spent_usd=1000.0), replace(TIMER, **GONE), "sleep", "budget"),
    ("budget, asked", situation(slot(ASLEEP), wake_requests=2, spent_usd=1e3), replace(TIMER, **GONE), "refuse", "budget"),
    ("budget, state unread", situation(slot(SlotState.UNKNOWN), wake_requests=1, spent_usd=1e3), replace(TIMER, **GONE),
     "alarm", "unknown-state"),
    ("budget, a block drains", situation(slot(DRAINING, prepaid=True), spent_usd=1e3), replace(TIMER, **GONE), "sleep",
     "drained"),
    ("too little for a wake", situation(slot(ASLEEP), wake_requests=2, spent_usd=980.0), replace(TIMER, **GONE),
     "refuse", "budget"),
    ("money unread", situation(slot(ASLEEP), wake_requests=1, spent_usd=None), replace(TIMER, **GONE), "refuse",
     "unknown-money"),
    ("budget beats a hold", situation(slot(), spent_usd=1e3, hold_until=NOW + HOUR), replace(TIMER, **GONE), "sleep",
     "budget"),
    ("expired", situation(slot(prepaid=True), expires_at=NOW), TIMER, "sleep", "expired"),
    ("spot notice", situation(slot(running=3, interruption_at=NOW + HOUR / 30), slot(ASLEEP, "b")), TIMER, "move",
     "spot-notice"),
    ("spot notice, no other", situation(slot(running=3, interruption_at=NOW + HOUR / 30)), TIMER, "drain", "spot-notice"),
    ("block ends", situation(slot(prepaid=True, running=1, ends_at=NOW + HOUR / 6)), TIMER, "drain", "block-end"),
    ("block ends, moving", situation(slot(prepaid=True, running=1, ends_at=NOW + HOUR / 2), slot(LOADING, "b")), TIMER,
     "stay", "coming"),
    ("timetable", situation(slot(ASLEEP)), replace(TIMER, timetable=timetable("wed 11:00-13:00")), "wake", "timetable"),
    ("before it opens", situation(slot(ASLEEP)), replace(TIMER, timetable=timetable("wed 12:20-13:00")), "wake",
     "timetable"),
    ("not so early", situation(slot(ASLEEP)), replace(TIMER, timetable=timetable("wed 12:21-13:00")), "stay", "asleep"),
    ("no wake for less than it costs", situation(slot()), replace(TIMER, timetable=timetable("wed 12:35-13:00")), "stay",
     "break-even"),
    ("many wait", situation(slot(running=9, waiting=9), slot(ASLEEP, "b", replica=1)), replace(TIMER, max_replicas=2), "scale",
     "scale-up"),
    ("many wait, one replica", situation(slot(running=9, waiting=9), slot(ASLEEP, "b")), replace(TIMER, max_replicas=2),
     "stay", "busy"),
    ("one too many", situation(slot(running=1), slot(name="b")), replace(TIMER, max_replicas=2), "scale", "scale-down"),
    ("nothing there", situation(), TIMER, "stay", "asleep"),
]  # fmt: skip


@pytest.mark.parametrize(("it", "policy", "action", "rule"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_what_comes_first(it, policy, action, rule) -> None:
    decision = decide(it, policy, KNOWS_NOTHING)
    assert (decision.action.value, decision.rule) == (action, rule), decision.reason


def test_the_reason_tells_the_numbers() -> None:
    policy = replace(TIMER, **GONE)
    said = decide(situation(slot(running=1), spent_usd=995.0), policy, KNOWS_NOTHING).reason
    spent = "$995.00 spent this month and $11.55 to end what runs reach the budget of $1,000.00"
    assert said == f"{spent}; 1 request on od end first"
    learned = decide(situation(slot()), Policy(), office_history()).reason
    assert "requests; at 4 times a request's own cost staying awake is expected to cost $" in learned


def test_two_idle_replicas_go_one_by_one_and_none_comes_back() -> None:
    policy = replace(TIMER, min_replicas=2, max_replicas=2)
    first = decide(situation(slot(), slot(name="b")), policy, KNOWS_NOTHING)
    assert (first.action, first.target) == (Action.SLEEP, "b")
    for state in (SlotState.STOPPING, SlotState.ASLEEP):
        then = decide(situation(slot(), slot(state, "b")), policy, KNOWS_NOTHING)
        assert (then.action, then.target) == (Action.SLEEP, "od")


def test_what_was_learned_wakes_before_nine_and_sleeps_after_five() -> None:
    history = History.from_json(office_history().to_json())
    at = NOW
    seen: dict[str, list[str]] = {"wake": [], "sleep": []}
    slots = (slot(ASLEEP),)
    last = NOW - 4 * HOUR
    for _ in range(3 * 144):
        busy = 9 <= at.hour < 17
        at += timedelta(minutes=10)
        history.observe(at, 200 if busy else 0)
        last = at if busy else last
        decision = decide(situation(*slots, now=at, last_activity=last), Policy(), history)
        if decision.action in (Action.WAKE, Action.SLEEP):
            seen[decision.action.value].append(f"{at:%d %H:%M}")
            slots = (slot(AWAKE if decision.action is Action.WAKE else ASLEEP, since=at),)
    # The morning of the fourth was quiet, so the fifth is not trusted at once.
    assert seen["wake"][-2:] == ["06 08:40", "07 08:40"]
    assert all(moment[3:5] in ("17", "18") for moment in seen["sleep"][-3:])
