"""How hard a server is loaded: a list of levels, each a number of callers or a rate of requests, within bounds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from serving.errors import ConfigurationError, Fault

LevelKind = Literal["concurrency", "rate"]

DEFAULT_CONCURRENCIES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
# A level's figures rest on at least so many requests; percentiles of fewer say nothing.
LEAST_REQUESTS = 8
_REQUESTS_PER_CALLER = 4
_RATE_LEVEL_S = 30.0


@dataclass(frozen=True)
class Level:
    """One level.

    - `kind`, `value`: so many callers who each wait for their answer, or so many requests a second whatever comes back.
    - `requests`: how many are sent.
    """

    kind: LevelKind
    value: float
    requests: int

    @property
    def label(self) -> str:
        """The value as a person writes it: `16`, `0.5`."""
        return f"{self.value:g}"

    def __str__(self) -> str:
        """In words: `16 at once`, `0.5 requests/s`."""
        return f"{self.label} at once" if self.kind == "concurrency" else f"{self.label} requests/s"


@dataclass(frozen=True)
class Sweep:
    """The levels to run, lowest first, and those that the bound on requests leaves out."""

    levels: tuple[Level, ...]
    left_out: tuple[Level, ...]


def plan_sweep(kind: LevelKind, values: Sequence[float], requests: int | None, max_requests: int) -> Sweep:
    """Levels for `values`, each of `requests` requests, within `max_requests` together.

    - `requests`: None is four a caller, or half a minute at the rate, and at least 8.

    Raises ConfigurationError where not even the lowest level is within the bound.
    """
    levels = [
        Level(kind, value, requests if requests is not None else _usual(kind, value)) for value in sorted(set(values))
    ]
    kept: list[Level] = []
    total = 0
    for level in levels:
        if total + level.requests > max_requests:
            break
        kept.append(level)
        total += level.requests
    if not kept:
        accepted = f"{levels[0].requests} or more, which the lowest level takes, or fewer --requests"
        raise ConfigurationError([Fault("--max-requests", str(max_requests), accepted)], "the command line")
    return Sweep(tuple(kept), tuple(levels[len(kept) :]))


def values_of(text: str, key: str, faults: list[Fault], *, whole: bool) -> tuple[float, ...]:
    """Read `1,2,4`; an entry that is no number above 0 becomes a fault of `key`."""
    values: list[float] = []
    for word in text.split(","):
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value <= 0 or (whole and value != int(value)):
            accepted = "whole numbers above 0, as 1,4,16" if whole else "numbers above 0, as 0.5,1,2"
            faults.append(Fault(key, text, accepted))
            return ()
        values.append(value)
    return tuple(values)


def _usual(kind: LevelKind, value: float) -> int:
    wanted = value * (_REQUESTS_PER_CALLER if kind == "concurrency" else _RATE_LEVEL_S)
    return max(LEAST_REQUESTS, math.ceil(wanted))
