"""Root causes in a log: vLLM's own, Kubernetes' events, the driver's messages, whatever somebody pasted together."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from serving.diagnosis.advice import Circumstances, advise
from serving.diagnosis.catalogue import Cause, log_causes
from serving.diagnosis.finding import Evidence, Finding

# A traceback of vLLM's engine is some ninety lines long; what names the step stands inside it.
_NEAR_LINES = 120
_SHOWN = 300
_STARTED = re.compile(r"Application startup complete|Uvicorn running on")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PREFIXES = (
    # kubectl logs --timestamps, journalctl, docker compose, then vLLM's process and its own level, time and place.
    re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] )?"),
    re.compile(r"^[A-Z][a-z]{2} +\d+ [\d:]{8} \S+ [\w@.-]+\[\d+\]: "),
    re.compile(r"^[\w.-]+ +\| "),
    re.compile(r"^\((?:[\w.-]+ )?pid=\d+(?:, ip=[\d.]+)?\) "),
    re.compile(r"^\([A-Za-z]\w*(?: \w+)* pid=\d+\) "),
    re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):? \d\d-\d\d [\d:.]+ \[[^\]]+\] ?"),
    re.compile(r"^\[rank\d+\]:(?:\[?[A-Z]?[\d: .-]*\]?)? ?"),
)
_ARGUMENTS = re.compile(r"non-default args: (\{.*)")
_CAPACITY = re.compile(r"has a total capacity of ([\d.]+) GiB|Free memory on device \([\d.]+/([\d.]+) GiB\)")


@dataclass(frozen=True)
class Log:
    """A log's lines without colours and prefixes; numbering starts at 1."""

    lines: tuple[str, ...]

    @cached_property
    def started_at(self) -> int | None:
        """The line at which the server was up, or None."""
        return next((number for number, line in enumerate(self.lines, 1) if _STARTED.search(line)), None)

    @cached_property
    def whole(self) -> str:
        """All of it."""
        return "\n".join(self.lines)

    @cached_property
    def arguments(self) -> Mapping[str, Any]:
        """What vLLM lists as the arguments it was given; empty where the log has none or it is cut."""
        for line in self.lines:
            if (found := _ARGUMENTS.search(line)) is not None:
                try:
                    value: object = ast.literal_eval(found[1])
                except (ValueError, SyntaxError):
                    return {}
                return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        return {}

    @cached_property
    def gpu_gib(self) -> float | None:
        """What CUDA says that one GPU holds, or None."""
        found = _CAPACITY.search(self.whole)
        return float(found[1] or found[2]) if found else None

    def near(self, number: int) -> Iterator[str]:
        """The lines around one."""
        yield from self.lines[max(0, number - 1 - _NEAR_LINES) : number + 10]


def read_log(text: str) -> Log:
    """A log out of its text."""
    return Log(tuple(_plain(line) for line in text.splitlines()))


def diagnose_log(text: str) -> tuple[Finding, ...]:
    """Every root cause in a log, errors first, in the order in which they show; empty for a healthy one."""
    log = read_log(text)
    found: dict[tuple[str, str], tuple[int, Cause, Finding]] = {}
    for cause in log_causes():
        if cause.fallback or not _applies(cause, log):
            continue
        for number, match in _matches(cause, log):
            key = (cause.id, _sentence(cause, cause.cause, match))
            if key in found:
                first, _, finding = found[key]
                found[key] = (first, cause, replace(finding, repeats=finding.repeats + 1))
            else:
                found[key] = (number, cause, _finding(cause, log, number, match))
    kept = _root_causes(list(found.values()))
    if not any(finding.severity == "error" for _, cause, finding in kept if not cause.consequence):
        kept += _unknown_errors(log, found={number for number, _, _ in found.values()})
        if any(cause.fallback for _, cause, _ in kept):
            kept = [one for one in kept if not one[1].consequence]
    kept.sort(key=lambda one: (one[2].severity == "warning", one[0]))
    return tuple(finding for _, _, finding in kept)


def _applies(cause: Cause, log: Log) -> bool:
    if cause.phase == "starting" and log.started_at is not None:
        return False
    if any(pattern.search(log.whole) for pattern in cause.unless):
        return False
    return not cause.requires or any(pattern.search(log.whole) for pattern in cause.requires)


def _matches(cause: Cause, log: Log) -> Iterator[tuple[int, re.Match[str]]]:
    for number, line in enumerate(log.lines, 1):
        if line.lstrip().startswith("raise "):
            # A traceback shows the statement and then, at its end, the error itself.
            continue
        match = next((m for pattern in cause.match if (m := pattern.search(line)) is not None), None)
        if match is None or any(pattern.search(line) for pattern in cause.unless_line):
            continue
        around = list(log.near(number)) if cause.near or cause.unless_near else []
        if cause.near and not any(pattern.search(one) for pattern in cause.near for one in around):
            continue
        if any(pattern.search(one) for pattern in cause.unless_near for one in around):
            continue
        yield number, match


def _root_causes(found: list[tuple[int, Cause, Finding]]) -> list[tuple[int, Cause, Finding]]:
    """Without what another finding explains."""
    ids = {cause.id for _, cause, _ in found}
    kept = [one for one in found if not one[1].yields_to & ids]
    real = any(not cause.consequence and cause.severity == "error" for _, cause, _ in kept)
    return [one for one in kept if not (real and one[1].consequence)]


def _unknown_errors(log: Log, found: set[int]) -> list[tuple[int, Cause, Finding]]:
    """The last line of the first traceback that no entry knows."""
    for cause in log_causes():
        if not cause.fallback:
            continue
        for number, match in _matches(cause, log):
            if number not in found:
                return [(number, cause, _finding(cause, log, number, match))]
    return []


def _finding(cause: Cause, log: Log, number: int, match: re.Match[str]) -> Finding:
    line = log.lines[number - 1].strip()
    remedy = _sentence(cause, cause.remedy, match)
    told = Circumstances(_groups(match), log.arguments, log.gpu_gib)
    if cause.advice and (more := advise(cause.advice, told)):
        remedy = f"{remedy} {more}"
    return Finding(
        cause_id=cause.id,
        title=cause.title,
        cause=_sentence(cause, cause.cause, match),
        remedy=remedy,
        evidence=Evidence(f"line {number}", line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"),
        confidence=cause.confidence,
        severity=cause.severity,
    )


def _groups(match: re.Match[str]) -> dict[str, str]:
    return {name: value.strip().rstrip(".,") for name, value in match.groupdict().items() if value is not None}


def _sentence(cause: Cause, text: str, match: re.Match[str]) -> str:
    """A sentence of the data with the pattern's groups in it; what did not show becomes the cause's general word."""
    return text.format_map(_Groups({**cause.words, **_groups(match)}))


class _Groups(dict[str, str]):
    def __missing__(self, name: str) -> str:
        # A pattern may name one thing in two places, which it calls `name` and `name2`.
        return self.get(f"{name}2", "what it names")


def _plain(line: str) -> str:
    line = _ANSI.sub("", line).rstrip()
    changed = True
    while changed:
        changed = False
        for prefix in _PREFIXES:
            shorter = prefix.sub("", line, count=1)
            if shorter != line:
                line, changed = shorter, True
    return line
