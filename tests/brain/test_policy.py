"""The timetable over midnight, daylight-saving changes and exceptions."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.brain.policy import Policy
from tests.brain.worlds import timetable

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("entries", "at", "opens"),
    [
        (["mon-fri 08:00-19:00"], "2026-03-04 12:00", "2026-03-04 12:00"),
        (["mon-fri 08:00-19:00"], "2026-03-06 19:00", "2026-03-09 08:00"),
        (["fri 22:00-02:00"], "2026-03-07 01:59", "2026-03-07 01:59"),  # over midnight
        (["fri 22:00-02:00"], "2026-03-07 02:00", "2026-03-13 22:00"),
        (["mon-fri 08:00-19:00"], "2026-03-27 20:00", "2026-03-30 08:00"),  # summer time begins between
        (["mon-fri 08:00-19:00"], "2026-10-23 20:00", "2026-10-26 08:00"),  # and ends
    ],
)
def test_it_opens_by_the_wall_clock(entries, at, opens) -> None:
    policy = Policy(timetable=timetable(*entries, zone="Europe/Berlin"))
    moment = datetime.fromisoformat(at).replace(tzinfo=BERLIN).astimezone(UTC)
    found = policy.opens_at(moment)
    assert found is not None
    assert f"{found.astimezone(BERLIN):%Y-%m-%d %H:%M}" == opens


@pytest.mark.parametrize(("day", "hours"), [("2026-03-28", 23), ("2026-10-24", 25), ("2026-06-01", 24)])
def test_noon_to_noon_lasts_as_long_as_the_night_of_the_change_does(day, hours) -> None:
    policy = Policy(timetable=timetable("daily 12:00-11:59", zone="Europe/Berlin"))
    start = datetime.fromisoformat(f"{day} 12:00").replace(tzinfo=BERLIN).astimezone(UTC)
    noon = start + timedelta(hours=hours)
    assert policy.opens_at(noon - timedelta(seconds=30)) == noon
    assert policy.opens_at(noon - timedelta(seconds=90)) == noon - timedelta(seconds=90)


def test_an_exception_replaces_the_hours_of_its_day() -> None:
    days = {date(2026, 3, 4): (), date(2026, 3, 7): ((600, 660),)}
    policy = Policy(timetable=timetable("mon-fri 08:00-19:00"), exceptions=days)
    assert policy.opens_at(datetime(2026, 3, 4, 9, tzinfo=UTC)) == datetime(2026, 3, 5, 8, tzinfo=UTC)
    assert policy.opens_at(datetime(2026, 3, 6, 20, tzinfo=UTC)) == datetime(2026, 3, 7, 10, tzinfo=UTC)
    assert policy.closes_at(datetime(2026, 3, 7, 10, tzinfo=UTC)) == datetime(2026, 3, 7, 11, tzinfo=UTC)


@given(st.integers(0, 366 * 24 * 60))
def test_open_is_what_the_local_clock_says(minutes) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    local = at.astimezone(BERLIN)
    said = Policy(timetable=timetable("mon-fri 08:00-19:00", zone="Europe/Berlin")).opens_at(at) == at
    assert said == (local.weekday() < 5 and 8 <= local.hour < 19)
