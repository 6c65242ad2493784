"""The brain at work on the simulated stack: it looks, decides by `decide()`, and acts with the jobs people call."""

import json
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from infra.brain.memory import Memory, memory_text, recall, spend
from infra.brain.policy_text import policy_text, read_policy
from infra.brain.runner import Look, look
from infra.brain.wishes import AWAKE_UNTIL, HOLD_UNTIL, WAKE_REQUESTED, note, read_wishes
from infra.cli.main import main
from infra.jobs.hibernate import hibernate
from infra.jobs.kubernetes_api import NotFound
from infra.jobs.wake import wake
from infra.timetable import Timetable, parse_entry
from serving.errors import ConfigurationError
from tests.jobs.world import World

NEVER_OPEN: dict[str, Any] = {"timeZone": "UTC", "mode": "timer", "idleMinutes": 30}


@pytest.fixture(autouse=True)
def forgotten(world: World) -> None:
    """Nothing is remembered or wished for when a test begins."""
    path = f"/api/v1/namespaces/{world.outputs.namespace}/configmaps"
    for name in ("dormouse-brain", "dormouse-wishes"):
        with suppress(NotFound):
            world.connect().kubernetes.delete(f"{path}/{name}")


def at_work(world: World, act: bool = True, **policy: Any) -> Look:
    slots = tuple(replace(slot, usd_per_hour=60.0) for slot in world.outputs.slots)
    outputs = replace(world.outputs, slots=slots, policy=json.dumps({**NEVER_OPEN, **policy}))
    return look(outputs, world.connect(), world.clock, act=act)


def wish(world: World, key: str, hours: float = 0) -> None:
    moment = (world.clock.now() + timedelta(hours=hours)).isoformat()
    note(world.connect().kubernetes, world.outputs.namespace, {key: moment})


def acted(seen: Look) -> tuple[str, str]:
    assert seen.decision is not None, seen.outcome
    return str(seen.decision.action), seen.decision.rule


@pytest.mark.sandbox
def test_a_request_wakes_and_an_idle_time_puts_to_sleep(world: World) -> None:
    assert acted(at_work(world)) == ("stay", "asleep")
    wish(world, WAKE_REQUESTED)
    seen = at_work(world)
    assert acted(seen) == ("wake", "requested")
    assert seen.outcome.startswith("awake on ")
    # The same wish does not wake it again.
    assert acted(at_work(world)) == ("stay", "timer")
    world.clock.sleep(1900)
    seen = at_work(world)
    assert acted(seen)[0] == "sleep"
    assert seen.outcome.startswith("asleep after ")
    assert acted(at_work(world)) == ("stay", "asleep")
    kept = recall(world.connect().kubernetes, world.outputs.namespace, "UTC").memory
    assert kept.spent_usd > 0
    assert read_wishes(world.connect().kubernetes, world.outputs.namespace).decision.startswith("stay: ")


def test_a_dry_run_changes_nothing(world: World) -> None:
    wish(world, WAKE_REQUESTED)
    seen = at_work(world, act=False)
    assert (acted(seen), seen.outcome) == (("wake", "requested"), "nothing was changed")
    assert not any(world.desired().values())
    assert recall(world.connect().kubernetes, world.outputs.namespace, "UTC").version is None


def test_a_hold_is_a_person_s_word(world: World) -> None:
    wish(world, HOLD_UNTIL, 2)
    wish(world, WAKE_REQUESTED)
    assert acted(at_work(world)) == ("refuse", "held")
    assert not any(world.desired().values())
    note(world.connect().kubernetes, world.outputs.namespace, {HOLD_UNTIL: None, WAKE_REQUESTED: None})
    wish(world, AWAKE_UNTIL, 2)
    assert acted(at_work(world, act=False)) == ("wake", "pinned")


@pytest.mark.sandbox
def test_no_candidate_is_asked_again_at_once(world: World) -> None:
    world.refuse()
    wish(world, WAKE_REQUESTED)
    first = at_work(world)
    assert first.failed
    assert acted(first) == ("wake", "requested")
    assert first.decision is not None
    second = at_work(world, act=False)
    assert second.decision is not None
    assert second.decision.target != first.decision.target


def test_another_job_is_left_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from infra.brain import runner

    seen = world.observe()
    from infra.jobs.observation import OperationView

    busy = replace(seen, operation=OperationView("wake", "ana@laptop", seen.at))
    monkeypatch.setattr(runner, "observe", lambda *_: busy)
    told = at_work(world)
    assert told.decision is None
    assert told.outcome == "ana@laptop is at work on wake; it is left to it"


def test_money_is_counted_between_looks_and_begins_anew_each_month(world: World) -> None:
    now = world.clock.now()
    running = [(now - timedelta(hours=5), 60.0)]
    first = spend(Memory(looked_at=now - timedelta(hours=1), month=f"{now:%Y-%m}", spent_usd=100.0), now, running)
    assert first.spent_usd == pytest.approx(160.0)
    # A machine that came after the last look counts from its start.
    late = spend(Memory(now - timedelta(hours=1), f"{now:%Y-%m}"), now, [(now - timedelta(minutes=30), 60.0)])
    assert late.spent_usd == pytest.approx(30.0)
    assert spend(Memory(now - timedelta(days=40), "2020-01", 900.0), now, []).spent_usd == 0
    unknown = spend(Memory(now - timedelta(hours=1), f"{now:%Y-%m}"), now, [(now - timedelta(hours=5), None)])
    assert (unknown.spent_usd, unknown.unpriced) == (0.0, True)


@pytest.mark.sandbox
def test_the_budget_sleeps_and_refuses(world: World) -> None:
    wake(world.outputs, world.connect(), world.clock)
    kubernetes = world.connect().kubernetes
    at_work(world)
    kept = recall(kubernetes, world.outputs.namespace, "UTC")
    spent = memory_text(replace(kept.memory, spent_usd=5000.0))
    path = f"/api/v1/namespaces/{world.outputs.namespace}/configmaps/dormouse-brain"
    kubernetes.patch(path, {"data": {"memory": spent}})
    seen = at_work(world, monthlyBudgetUsd=4000)
    assert acted(seen)[1] == "budget"
    assert acted(seen)[0] in ("sleep", "drain")
    wish(world, WAKE_REQUESTED)
    assert acted(at_work(world, monthlyBudgetUsd=4000)) == ("refuse", "budget")


@pytest.mark.sandbox
def test_a_killed_look_is_gone_on_with(world: World) -> None:
    """A wake that ran out of its time in one look is finished by the next."""
    outputs = replace(world.outputs, policy=json.dumps(NEVER_OPEN))
    wish(world, WAKE_REQUESTED)
    first = look(outputs, world.connect(), world.clock, budget_s=30)
    assert first.failed
    assert "time is up" in first.outcome
    for _ in range(40):
        seen = look(outputs, world.connect(), world.clock)
        if any(pod.phase == "ready" for pod in world.observe().pods):
            break
        world.clock.sleep(60)
    assert sum(world.desired().values()) == 1
    assert seen.at
    hibernate(world.outputs, world.connect(), world.clock)


def test_the_exported_policy_comes_back() -> None:
    entries = [parse_entry(text) for text in ("mon-fri 08:00-19:00", "sat 22:00-02:00", "daily 12:00-24:00")]
    from zoneinfo import ZoneInfo

    timetable = Timetable(tuple(entry for entry in entries if entry), ZoneInfo("Europe/Berlin"))
    text = policy_text(
        idle_minutes=45, timetable=timetable, monthly_budget_usd=20000.0, expires_at="2027-01-31T18:00:00+01:00",
        mode="timer", delayed_request_worth="0.05",
    )  # fmt: skip
    policy, expires = read_policy(text, 3)
    assert (policy.timetable, policy.idle_s, policy.max_replicas) == (timetable, 2700.0, 3)
    assert (policy.value.usd, policy.monthly_budget_usd, str(policy.mode)) == (0.05, 20000.0, "timer")
    assert expires is not None
    assert expires.isoformat() == "2027-01-31T18:00:00+01:00"
    assert read_policy(None)[0].idle_s == 1800


def test_every_fault_of_a_policy_is_named() -> None:
    wrong = {"mode": "never", "idleMinutes": "x", "timeZone": "Mars", "timetable": ["x"], "delayedRequestWorth": "-1",
             "expiresAt": "soon"}  # fmt: skip
    with pytest.raises(ConfigurationError) as caught:
        read_policy(json.dumps(wrong))
    assert len(caught.value.faults) == 6


def test_the_commands(world: World, capsys: pytest.CaptureFixture[str], tmp_path: Any, monkeypatch: Any) -> None:
    outputs = replace(world.outputs, policy=json.dumps(NEVER_OPEN))
    file = tmp_path / "outputs.json"
    file.write_text(outputs.to_json())
    for name, value in (
        ("DORMOUSE_OUTPUTS", str(file)), ("AWS_ENDPOINT_URL", world.cloud.endpoint_url),
        ("AWS_ACCESS_KEY_ID", "testing"), ("AWS_SECRET_ACCESS_KEY", "testing"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("infra.jobs.discovery.SystemClock", lambda: world.clock)
    assert main(["hold", "--for", "2h"]) == 0
    assert "held as it is until" in capsys.readouterr().out
    assert main(["brain", "run", "--once", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rule"] == "held"
    assert main(["hold", "--release"]) == 0
    assert main(["hold", "--for", "soon"]) == 2
    assert "accepted: minutes, hours or days up to 31 days" in capsys.readouterr().err
    assert main(["brain", "run", "--once", "--dry-run"]) == 0
    assert "stay: " in capsys.readouterr().out
