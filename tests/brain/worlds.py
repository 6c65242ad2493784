"""What the tests ask the brain: situations drawn at random, and a history that has seen a week."""

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from infra.brain.history import History
from infra.brain.policy import DelayValue, Mode, Policy
from infra.brain.situation import Situation, SlotNow, SlotState
from infra.timetable import Timetable, parse_entry

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)  # a Wednesday


def timetable(*entries: str, zone: str = "UTC") -> Timetable:
    parsed = tuple(entry for entry in map(parse_entry, entries) if entry)
    assert len(parsed) == len(entries)
    return Timetable(parsed, ZoneInfo(zone))


def slot(state: SlotState = SlotState.AWAKE, name: str = "od", **fields) -> SlotNow:
    fields.setdefault("since", NOW - timedelta(hours=5))
    fields.setdefault("usd_per_hour", 63.0)
    return SlotNow(name, state, **fields)


def situation(*slots: SlotNow, **fields) -> Situation:
    fields.setdefault("last_activity", NOW - timedelta(hours=4))
    return Situation(fields.pop("now", NOW), slots, **fields)


@cache
def office_history() -> History:
    """Ten days of 200 requests every ten minutes from 9 to 17 o'clock, until NOW less four hours of quiet."""
    history = History()
    at = NOW - timedelta(days=10)
    while at < NOW:
        busy = 9 <= at.hour < 17 and at < NOW - timedelta(hours=4)
        at += timedelta(minutes=10)
        history.observe(at, 200 if busy else 0)
    return history


_moments = st.none() | st.integers(-48 * 60, 48 * 60).map(lambda minutes: NOW + timedelta(minutes=minutes))
_counts = st.none() | st.integers(0, 40)
slots = st.lists(
    st.builds(
        SlotNow,
        st.just("slot"),
        st.sampled_from(SlotState),
        since=_moments,
        running=_counts,
        waiting=_counts,
        usd_per_hour=st.none() | st.floats(0, 200),
        prepaid=st.booleans(),
        starts_at=_moments,
        ends_at=_moments,
        interruption_at=st.none() | _moments,
        refused_until=_moments,
    ),
    max_size=4,
).map(lambda found: tuple(SlotNow(**{**_fields(one), "name": f"slot{index}"}) for index, one in enumerate(found)))
situations = st.builds(
    Situation,
    st.just(NOW),
    slots,
    last_activity=_moments,
    wake_requests=st.integers(0, 3),
    hold_until=_moments,
    held_by=st.sampled_from(["", "ann"]),
    awake_until=_moments,
    spent_usd=st.none() | st.floats(0, 5000),
    expires_at=_moments,
    wake_s=st.floats(0, 7200),
    drain_s=st.floats(0, 7200),
)
policies = st.builds(
    Policy,
    mode=st.sampled_from(Mode),
    idle_s=st.floats(0, 20000),
    value=st.builds(DelayValue, usd=st.none() | st.floats(0, 100), times_own_cost=st.floats(0, 100)),
    minimum_idle_s=st.floats(0, 2000),
    minimum_uptime_s=st.floats(0, 20000),
    timetable=st.sampled_from([timetable(), timetable("mon-fri 08:00-19:00"), timetable("daily 22:00-02:00")]),
    wake_ahead=st.booleans(),
    monthly_budget_usd=st.none() | st.floats(0, 5000),
    min_replicas=st.integers(0, 4),
    max_replicas=st.integers(0, 4),
)
histories = st.sampled_from(["empty", "begun", "office"]).map(
    lambda kind: {"empty": History(), "begun": _begun(), "office": office_history()}[kind]
)


def _fields(one: SlotNow) -> dict:
    return {name: getattr(one, name) for name in SlotNow.__slots__}


def _begun() -> History:
    history = History()
    history.observe(NOW - timedelta(minutes=30), 3)
    history.observe(NOW, 0)
    return history
