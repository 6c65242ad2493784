"""The policy as it is exported by the program and read by whoever runs the brain: JSON with stable keys."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from infra.brain.policy import PRESETS, DelayValue, Mode, Policy
from infra.timetable import ACCEPTED, Timetable, TimetableEntry, parse_entry
from serving.errors import ConfigurationError, Fault

_WHERE = "the stack's exported policy"


def policy_text(
    *,
    idle_minutes: int,
    timetable: Timetable,
    monthly_budget_usd: float | None,
    expires_at: str | None,
    mode: str = Mode.LEARNED,
    delayed_request_worth: str = "balanced",
) -> str:
    """The policy of an environment's cost settings; `delayed_request_worth` is a preset's name or dollars as text."""
    return json.dumps(
        {
            "mode": str(mode),
            "idleMinutes": idle_minutes,
            "delayedRequestWorth": delayed_request_worth,
            "timeZone": timetable.zone.key,
            "timetable": [_entry_text(entry) for entry in timetable.entries],
            "monthlyBudgetUsd": monthly_budget_usd,
            "expiresAt": expires_at,
        }
    )


def read_policy(text: str | None, replicas: int = 1) -> tuple[Policy, datetime | None]:
    """The policy and the environment's end; a stack that exports none gets the defaults.

    Raises ConfigurationError with every fault.
    """
    try:
        document: object = json.loads(text or "{}")
    except ValueError as error:
        raise ConfigurationError([Fault("policy", str(error), "the JSON that `pulumi up` exports")], _WHERE) from error
    given = cast("Mapping[str, Any]", document if isinstance(document, dict) else {})
    faults: list[Fault] = []
    mode = str(given.get("mode", Mode.LEARNED))
    if mode not in tuple(Mode):
        faults.append(Fault("policy.mode", mode, ", ".join(Mode)))
    budget = given.get("monthlyBudgetUsd")
    policy = Policy(
        mode=Mode(mode) if mode in tuple(Mode) else Mode.LEARNED,
        idle_s=60.0 * _number(given.get("idleMinutes", 30), "policy.idleMinutes", faults),
        value=_worth(str(given.get("delayedRequestWorth", "balanced")), faults),
        timetable=_timetable(given, faults),
        monthly_budget_usd=None if budget is None else _number(budget, "policy.monthlyBudgetUsd", faults),
        max_replicas=replicas,
    )
    expires = _instant(given.get("expiresAt"), faults)
    if faults:
        raise ConfigurationError(faults, _WHERE)
    return policy, expires


def worth_fault(text: str) -> str | None:
    """What is wrong with what a delayed request is worth, as the end of `accepted: …`; None where nothing is."""
    faults: list[Fault] = []
    _worth(text, faults)
    return faults[0].accepted if faults else None


def _worth(text: str, faults: list[Fault]) -> DelayValue:
    if text in PRESETS:
        return DelayValue(times_own_cost=PRESETS[text])
    try:
        usd = float(text)
    except ValueError:
        usd = -1.0
    if not 0 < usd < 1e6:
        accepted = f"{', '.join(PRESETS)}, or US dollars above 0 such as 0.05"
        faults.append(Fault("policy.delayedRequestWorth", text, accepted))
        return DelayValue()
    return DelayValue(usd=usd)


def _timetable(given: Mapping[str, Any], faults: list[Fault]) -> Timetable:
    name = str(given.get("timeZone", "UTC"))
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        faults.append(Fault("policy.timeZone", name, "an IANA time zone, such as Europe/Berlin"))
        zone = ZoneInfo("UTC")
    entries: list[TimetableEntry] = []
    raw = given.get("timetable", [])
    for text in cast("list[object]", raw) if isinstance(raw, list) else []:
        entry = parse_entry(str(text))
        if entry is None:
            faults.append(Fault("policy.timetable", str(text), ACCEPTED))
        else:
            entries.append(entry)
    return Timetable(tuple(entries), zone)


def _entry_text(entry: TimetableEntry) -> str:
    """An entry as `parse_entry` reads it; the days of one entry follow each other, over the week's end too."""
    names = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
    days = "daily" if len(entry.days) == len(names) else names[entry.days[0]]
    if 1 < len(entry.days) < len(names):
        days = f"{names[entry.days[0]]}-{names[entry.days[-1]]}"
    start, end = divmod(entry.start_minute, 60), divmod(entry.end_minute % (24 * 60), 60)
    last = "24:00" if entry.end_minute == 24 * 60 else f"{end[0]:02d}:{end[1]:02d}"
    return f"{days} {start[0]:02d}:{start[1]:02d}-{last}"


def _number(value: object, key: str, faults: list[Fault]) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        faults.append(Fault(key, repr(value), "a number above 0"))
        return 1.0
    return float(value)


def _instant(value: object, faults: list[Fault]) -> datetime | None:
    if value is None:
        return None
    try:
        read = datetime.fromisoformat(str(value))
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        faults.append(Fault("policy.expiresAt", str(value), "an ISO time with its offset"))
        return None
    return read
