"""The checks that code performs: their words are data as well, so that the troubleshooting page shows every one."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, cast

from serving.diagnosis.finding import Confidence, Evidence, Finding, Severity

_SHOWN = 300


@dataclass(frozen=True)
class Check:
    """One check's words; `cause` and `remedy` hold {names} that the check fills in."""

    id: str
    subject: str
    title: str
    cause: str
    remedy: str
    source: str
    severity: Severity = "error"
    confidence: Confidence = "certain"

    def finding(self, place: str, text: str, **words: object) -> Finding:
        """The finding at one place; raises KeyError where a word is missing."""
        shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        return Finding(
            cause_id=self.id,
            title=self.title,
            cause=self.cause.format(**words),
            remedy=self.remedy.format(**words),
            evidence=Evidence(place, shown),
            confidence=self.confidence,
            severity=self.severity,
        )


@cache
def checks() -> dict[str, Check]:
    """Every check by its id, in the order of its files."""
    found: dict[str, Check] = {}
    folder = resources.files("serving") / "data" / "checks"
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        for row in cast("list[dict[str, Any]]", document["check"]):
            check = Check(subject=str(document["subject"]), **row)
            found[check.id] = check
    return found


def found(check_id: str, place: str, text: str, **words: object) -> Finding:
    """The finding of the check `check_id`."""
    return checks()[check_id].finding(place, text, **words)
