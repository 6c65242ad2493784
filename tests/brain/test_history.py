"""The history: small, whole after a restart, blind to the future, careful with what it has not seen."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from infra.brain.history import MAXIMUM_BYTES, History
from infra.brain.learner import Forecast, forecast, judge_forecast
from tests.brain.worlds import NOW, office_history


def test_it_stays_below_its_limit_whatever_comes() -> None:
    history = History("Europe/Berlin")
    for step in range(4 * 1008):
        history.observe(NOW + timedelta(minutes=10 * step), (step * 7919 % 1013) / 3 if step % 7 else 0)
    assert len(history.to_json().encode()) < MAXIMUM_BYTES


def test_it_goes_on_from_its_json_as_if_it_had_never_stopped() -> None:
    one, other = (History.from_json(office_history().to_json()) for _ in range(2))
    for step in range(1, 60):
        at = NOW + timedelta(minutes=step)
        one.observe(at, step % 3)
        other.observe(at, step % 3)
        other = History.from_json(other.to_json())
    assert forecast(other).chances == pytest.approx(forecast(one).chances, abs=1e-4)
    assert forecast(other).requests == pytest.approx(forecast(one).requests, rel=1e-3)


@pytest.mark.parametrize("broken", ["", "[]", "{}", '{"version":2}', '{"version":1,"zone":"Mars/Base"}'])
def test_what_is_no_history_is_refused_in_words(broken) -> None:
    with pytest.raises(ValueError, match="not a traffic history"):
        History.from_json(broken)
    whole = json.loads(office_history().to_json())
    with pytest.raises(ValueError, match="day_busy is not a list of 144"):
        History.from_json(json.dumps({**whole, "day_busy": [1]}))


def test_minutes_and_ten_minutes_teach_the_same() -> None:
    fine, coarse = History(), History()
    start = datetime(2026, 3, 2, tzinfo=UTC)
    for step in range(1, 300):
        coarse.observe(start + timedelta(minutes=10 * step), 10 if step % 5 == 0 else 0)
        for minute in range(9, -1, -1):
            at = start + timedelta(minutes=10 * step - minute)
            fine.observe(at, 1 if step % 5 == 0 else 0)
    assert fine.to_json() == coarse.to_json()


def test_what_nobody_saw_teaches_nothing() -> None:
    history = History.from_json(office_history().to_json())
    before = dict(vars(history))
    for step in range(1, 7):
        history.observe(NOW + timedelta(minutes=10 * step), None)
    history.observe(NOW + timedelta(days=2), None)
    for key in ("day_trials", "gap", "totals", "weights", "level"):
        assert vars(history)[key] == before[key], key


def test_it_expects_the_morning_and_not_the_night() -> None:
    history = History.from_json(office_history().to_json())
    for step in range(1, 6 * 14):
        history.observe(NOW + timedelta(minutes=10 * step), 0)
    at_two = forecast(history)  # 01:50 on Thursday: the eight hours to 09:50
    assert max(at_two.chances[:36]) < 0.1
    assert at_two.chances[43] > 5 * at_two.chances[30]


@pytest.mark.parametrize(
    ("chances", "worth", "stays", "wakes"),
    [
        ([1.0] + [0.0] * 9, 1.0, True, False),  # it comes now: to stay costs what it would cost anyway
        ([0.0] * 10, 9.0, False, False),
        ([0.0, 0.0, 1.0] + [0.0] * 7, 1.0, True, True),  # a wake takes two buckets: it is just in time
        ([0.0] * 9 + [1.0], 1.0, False, False),  # there is time to sleep first
        ([0.1] + [0.0] * 9, 0.01, False, False),  # too little, and too unlikely
    ],
)
def test_the_cheapest_way(chances, worth, stays, wakes) -> None:
    judged = judge_forecast(Forecast(tuple(chances), (10.0,) * len(chances)), 1200, worth)
    assert (judged.stays, judged.wakes) == (stays, wakes), judged
