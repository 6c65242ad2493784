"""The causes that logs tell in words, read from `serving/data/diagnoses`."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal, cast

from serving.diagnosis.finding import Confidence, Severity

Phase = Literal["any", "starting", "serving"]
_TEXTS = ("id", "title", "cause", "remedy", "source")


@dataclass(frozen=True)
class Cause:
    """One cause and how it is recognised; patterns see one line without its log prefix.

    - `match`: any of them makes a line count. `unless_line`: none of them may fit the same line.
    - `near`: one of them must stand in the lines before or behind it; `unless_near`: none may.
    - `requires`, `unless`: looked for in the whole log.
    - `phase`: `starting` for lines of a server that never came up.
    - `consequence`: told only where nothing else is found. `fallback`: an error that no other entry knows.
    - `yields_to`: ids of causes that explain it.
    - `words`: stands for a group that a line does not have.
    - `advice`: the computation that adds numbers to the remedy, or empty.
    """

    id: str
    subject: str
    title: str
    match: tuple[re.Pattern[str], ...]
    cause: str
    remedy: str
    source: str
    near: tuple[re.Pattern[str], ...] = ()
    unless_near: tuple[re.Pattern[str], ...] = ()
    unless_line: tuple[re.Pattern[str], ...] = ()
    requires: tuple[re.Pattern[str], ...] = ()
    unless: tuple[re.Pattern[str], ...] = ()
    phase: Phase = "any"
    confidence: Confidence = "certain"
    severity: Severity = "error"
    consequence: bool = False
    fallback: bool = False
    yields_to: frozenset[str] = frozenset()
    advice: str = ""
    words: Mapping[str, str] = field(default_factory=dict[str, str])


@cache
def log_causes() -> tuple[Cause, ...]:
    """Every cause, in the order of its files; raises ValueError where the data contradicts itself."""
    causes: list[Cause] = []
    folder = resources.files("serving") / "data" / "diagnoses"
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        subject = str(document["subject"])
        causes += [_cause(subject, row) for row in cast("list[dict[str, Any]]", document.get("cause", []))]
    known = {cause.id for cause in causes}
    if len(known) != len(causes):
        raise ValueError("two causes have one id")
    for cause in causes:
        if unknown := cause.yields_to - known:
            raise ValueError(f"{cause.id} yields to {', '.join(sorted(unknown))}, which nothing describes")
    return tuple(causes)


def _cause(subject: str, row: dict[str, Any]) -> Cause:
    if missing := [name for name in _TEXTS if not row.get(name)]:
        raise ValueError(f"{row.get('id', 'a cause')} lacks {', '.join(missing)}")
    patterns = {
        name: tuple(re.compile(text) for text in row.pop(name, ()))
        for name in ("match", "near", "unless_near", "unless_line", "requires", "unless")
    }
    yields_to = frozenset(row.pop("yields_to", ()))
    return Cause(subject=subject, yields_to=yields_to, **patterns, **row)
