"""What the figures mean: the knee, whether the promised latencies hold, what a million tokens costs. Pure and total."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from infra.load.levels import Level
from infra.load.measured import LATENCY_NAMES, LevelResult

KNEE_GAIN = 0.5
"""The power of the load with which throughput has to grow for more load to pay."""


@dataclass(frozen=True)
class Promise:
    """One promised latency: `name` as in LATENCIES, at most `limit_ms` at percentile `rank`."""

    name: str
    limit_ms: float
    rank: int

    def __str__(self) -> str:
        """In words: `p95 time to first token ≤ 2,000 ms`."""
        return f"p{self.rank} {LATENCY_NAMES[self.name]} ≤ {self.limit_ms:,.0f} ms"


@dataclass(frozen=True)
class Verdict:
    """Whether the promises hold.

    - `kept`: None without promises. `at`: the level that counts.
    - `holds_up_to`: the highest level up to which every level keeps them; None where the lowest does not.
    - `misses`: what is broken at `at`, in words.
    """

    kept: bool | None
    at: Level | None
    holds_up_to: Level | None
    misses: tuple[str, ...]


@dataclass(frozen=True)
class Cost:
    """Dollars for a million tokens at one level: of the answers alone, and of prompts and answers together."""

    level: Level
    usd_per_million_output: float
    usd_per_million_total: float


def knee(results: Sequence[LevelResult]) -> LevelResult | None:
    """The level from which more load no longer pays; None where the highest still pays, or too few were measured.

    Between two levels throughput grows with load to some power: 1 while there is room, 0 when the server is full. The
    knee is the lowest level from which no higher one grows with a power of 0.5 or more, in output tokens a second; one
    level that came out badly by chance makes none.
    """
    measured = [one for one in results if one.figures is not None and one.figures.output_tokens_per_s > 0]
    for index, before in enumerate(measured[:-1]):
        if max(_gain(before, after) for after in measured[index + 1 :]) < KNEE_GAIN:
            return before
    return None


def misses(result: LevelResult, promises: Sequence[Promise]) -> tuple[str, ...]:
    """What a level breaks, in words; a request that failed breaks every promise."""
    figures = result.figures
    if figures is None:
        return (f"{result.level}: no result, {result.cut}",)
    found = [f"{figures.failed} of {figures.completed + figures.failed} requests failed"] if figures.failed else []
    for promise in promises:
        seen_ms = figures.latency_ms[promise.name][promise.rank]
        if seen_ms > promise.limit_ms:
            found.append(f"{promise}: {seen_ms:,.0f} ms")
    return tuple(found)


def judge(results: Sequence[LevelResult], promises: Sequence[Promise], at: float | None = None) -> Verdict:
    """Hold the results against the promises.

    - `at`: the level whose figures count; None is the highest that was asked for. One that was not measured is a miss.
    """
    if not promises or not results:
        return Verdict(None, None, None, ())
    up_to: Level | None = None
    for one in results:
        if misses(one, promises):
            break
        up_to = one.level
    counted = next((one for one in results if one.level.value == at), None) if at is not None else results[-1]
    if counted is None:
        return Verdict(False, None, up_to, (f"{at:g} was not measured",))
    broken = misses(counted, promises)
    return Verdict(not broken, counted.level, up_to, broken)


def costs(results: Sequence[LevelResult], usd_per_hour: float) -> tuple[Cost, ...]:
    """What a million tokens costs at each level that gave a result, with the machine busy at that level all the time."""
    return tuple(
        Cost(
            one.level,
            usd_per_hour / 3600 / one.figures.output_tokens_per_s * 1e6,
            usd_per_hour / 3600 / one.figures.total_tokens_per_s * 1e6,
        )
        for one in results
        if one.figures is not None and one.figures.output_tokens_per_s > 0 and one.figures.total_tokens_per_s > 0
    )


def _gain(before: LevelResult, after: LevelResult) -> float:
    assert before.figures is not None
    assert after.figures is not None
    grown = math.log(after.level.value / before.level.value)
    return math.log(after.figures.output_tokens_per_s / before.figures.output_tokens_per_s) / grown
