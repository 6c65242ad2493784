"""The replay: equal to exhaustive search and to a timer written down anew, quick, and better than timers when learned."""

import csv
import itertools
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.brain.policy import Mode, Policy
from infra.brain.simulate.clairvoyant import clairvoyant_ticks, least_cost
from infra.brain.simulate.comparison import learned
from infra.brain.simulate.replay import replay, replay_all
from infra.brain.simulate.traffic import Traffic, read_traffic
from infra.cli.main import main

START = datetime(2026, 3, 2, tzinfo=UTC)
TRACES = Path(__file__).parents[3] / "shared" / "traces" / "client_requests.csv"
counts = st.lists(st.sampled_from([0.0, 0.0, 1.0, 30.0]), min_size=1, max_size=40)


def by_hand(requests, wake, limit):
    """A fixed timer of `limit` buckets, as one would write it on a napkin: paid buckets and delayed requests."""
    awake, left, idle, paid, delayed = True, 0, 0, 0, 0.0
    for count in requests:
        if count and not awake and not left:
            left = wake
        paid += awake or left > 0
        idle = 0 if count else idle + 1
        if left:
            delayed += count
            left -= 1
            awake = left == 0
        if awake and idle >= limit:
            awake = False
    return paid, delayed


@settings(deadline=None)
@given(counts, st.integers(1, 3), st.integers(1, 5))
def test_a_timer_does_what_a_timer_does(requests, wake, limit) -> None:
    traffic = Traffic("it", START, 600, tuple(requests))
    policy = Policy(mode=Mode.TIMER, idle_s=limit * 600.0)
    if sum(requests[:1]):  # what counts as idle before the first request is the machine's own start
        outcome = replay(traffic, policy, wake_s=wake * 600.0)
        assert (outcome.awake_ticks, outcome.delayed) == by_hand(requests, wake, limit)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from([0.0, 1.0, 4.0]), max_size=8), st.integers(1, 2), st.sampled_from([0.0, 0.3, 1.0, 50.0])
)
def test_the_bound_is_what_trying_everything_finds(requests, wake, worth) -> None:
    def cost(plan) -> tuple[float, int, float]:
        awake, left, paid, delayed = True, 0, 0, 0.0
        for count, wish in zip(requests, plan, strict=True):
            if awake and not wish:
                awake = False
            if not awake and not left and (count or wish):
                left = wake
            paid += awake or left > 0
            delayed += 0 if awake else count
            if left:
                left -= 1
                awake = left == 0
        return paid + worth * delayed

    # A plan wishes for each bucket that it be awake; the first is awake whatever it wishes.
    plans = [(True, *rest) for rest in itertools.product([True, False], repeat=max(0, len(requests) - 1))]
    best = min(cost(plan[: len(requests)]) for plan in plans)
    paid, delayed = least_cost(requests, wake, worth)
    assert paid + worth * delayed == pytest.approx(best)


@given(counts, st.integers(1, 4))
def test_who_foresees_all_and_delays_nobody_pays_the_clairvoyants_price(requests, wake) -> None:
    begun = [1.0, *requests, 1.0]
    paid, delayed = least_cost(begun, wake, 1e6)
    assert (paid, delayed) == (clairvoyant_ticks(begun, wake), 0)


def office_minutes(days: int) -> Traffic:
    minutes = (minute for _ in range(days) for minute in range(1440))
    return Traffic("office", START, 60, tuple(5.0 if 540 <= it < 1020 and it % 13 < 6 else 0.0 for it in minutes))


def test_two_weeks_of_minutes_take_less_than_a_second() -> None:
    traffic = office_minutes(14)
    took: list[float] = []
    while not took or (took[-1] >= 1.0 and len(took) < 3):  # a busy machine gets another try
        begun = time.process_time()
        outcome = replay(traffic, Policy())
        took.append(time.process_time() - begun)
    assert min(took) < 1.0
    assert outcome.awake_ticks < 14 * 1440 / 2
    # The first mornings are surprises; then it is awake before they come.
    assert outcome.delayed / traffic.total < 0.02
    assert {spell.why for spell in outcome.spells} >= {"start", "requested", "expected"}


def test_nothing_depends_on_the_future() -> None:
    whole = office_minutes(4)
    cut = Traffic("cut", START, 60, whole.requests[: 3 * 1440])
    changed = Traffic("changed", START, 60, (*cut.requests, *([9.0] * 1440)))
    ends = [spell.end for spell in replay(changed, Policy()).spells if spell.end <= 3 * 1440]
    assert ends == [spell.end for spell in replay(whole, Policy()).spells if spell.end <= 3 * 1440]


@pytest.mark.skipif(
    not TRACES.exists(), reason="the traces are not part of the repository; docs/sleeping.md says where"
)
def test_on_real_traffic_it_lies_below_the_timers() -> None:
    """Two services of the thirteen keep this quick; the whole is benchmarks/sleep_policy.py."""
    services = [one for one in read_traffic(TRACES) if one.name in ("m-mid-15", "m-mid-49")]
    timer = Policy(mode=Mode.TIMER, idle_s=3600)
    paid = [[0.0, 0.0], [0.0, 0.0]]
    for service in services:
        for sums, outcome in zip(paid, replay_all(service, [timer, learned(4)]), strict=True):
            sums[0] += outcome.awake_ticks / clairvoyant_ticks(service.requests, 2)
            sums[1] += outcome.delayed / service.total
    assert paid[1][0] < paid[0][0]
    assert paid[1][1] < 0.7 * paid[0][1]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_every_form_of_traffic_is_read(tmp_path) -> None:
    stamps = written(
        tmp_path / "stamps.csv", "timestamp\n2026-03-02T00:00:30Z\n2026-03-02T00:00:40Z\n2026-03-02T00:02:01Z\n"
    )
    assert read_traffic(stamps)[0].requests == (2, 0, 1)
    rows = "".join(f"{1000 * 60 + 60 * step},{value}\n" for step, value in enumerate((5, 8, 2, 2)))
    counter = written(tmp_path / "counter.csv", f"timestamp,vllm:request_success_total\n{rows}")
    assert read_traffic(counter)[0].requests == (3, 2, 0)  # vLLM began anew in the second minute
    rates = written(tmp_path / "rates.csv", "window_start_s,a,b\n0,0.5,0\n600,0,0\n1200,0.01,0\n")
    assert [(one.name, one.requests) for one in read_traffic(rates)] == [("a", (300, 0, 6))]
    hourly = written(tmp_path / "hourly.csv", "timestamp,requests\n0,60\n3600,0\n7200,6\n")
    assert (read_traffic(hourly)[0].bucket_s, read_traffic(hourly)[0].requests[:7]) == (600, (10,) * 6 + (0,))
    values = [[60, "1"], [120, "4"], [180, "4"]]
    answer = {"data": {"result": [{"metric": {"model_name": "kimi"}, "values": values}]}}
    assert read_traffic(written(tmp_path / "it.json", json.dumps(answer)))[0].requests == (3, 0)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("timestamp,n\n0,1\n60,x\n", [], "line 3: got 60,x; accepted: a time and numbers of 0 or more"),
        ("timestamp,n\n60,1\n0,1\n", [], "line 3 is not later than the line before"),
        ("timestamp,n\n0,0\n60,0\n", [], "no request at all"),
        ("0,1\n60,1\n", [], "a first line of values"),
        ("{}", [], "JSON that is no range query"),
        (
            "timestamp,n\n0,1\n60,1\n",
            ["--policy", "lazy"],
            "accepted: thrifty, balanced, eager, timer:MINUTES or always",
        ),
        ("timestamp,n\n0,1\n60,1\n", ["--value", "1"], "--usd-per-hour: got nothing"),
        ("timestamp,n\n0,1\n60,1\n", ["--service", "x"], "--service: got x; accepted: one of: n"),
    ],
)
def test_wrong_usage_is_said_in_words(tmp_path, capsys, text, options, said) -> None:
    assert main(["simulate", "--traffic", str(written(tmp_path / "it.csv", text)), *options]) == 2
    assert said in capsys.readouterr().err


def test_the_command_compares_and_draws(tmp_path, capsys) -> None:
    path, page = tmp_path / "it.csv", tmp_path / "page.html"
    traffic = office_minutes(5)
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["window_start_s", "office"])
        sums = (sum(traffic.requests[at : at + 10]) for at in range(0, 5 * 1440, 10))
        lines.writerows((600 * index, value / 600) for index, value in enumerate(sums))
    base = ["simulate", "--traffic", str(path)]
    assert main([*base, "--policy", "timer:60", "--usd-per-hour", "63.296", "--html", str(page), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    by_name = {row["name"]: row for row in told["policies"]}
    assert by_name["always on"]["awakeHours"] == 120
    assert by_name["timer:60"] == {**by_name["timer 60 min"], "name": "timer:60", "kind": "chosen"}
    assert by_name["clairvoyant"]["costOverClairvoyant"] == 1
    assert main([*base, "--value", "0.05", "--usd-per-hour", "63.296"]) == 0
    assert "$0.05 a request (asked)" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    for word in ("<script", "http:", "https:", "src=", "@import"):
        assert word not in text
    start = text.index('<svg viewBox="0 0 1080 420"')
    drawing = ET.fromstring(text[start : text.index("</svg>", start) + 6])
    assert len(drawing.findall("circle[@class='dot timer']")) == len([k for k in by_name if k.startswith("timer ")])
