"""A sweep: level after level within its bounds, the server's metrics read meanwhile."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from infra.clock import Clock
from infra.load.bench import Traffic, run_bench
from infra.load.levels import Sweep
from infra.load.measured import LevelResult
from infra.load.watch import MetricsWatch, Pages

Told = Callable[[str, float | None], None]
"""Called with a sentence and the estimated rest in seconds, at every step."""
_WARMUPS = 2


@dataclass(frozen=True)
class SweepOutcome:
    """What a sweep gave: results lowest level first, and what was left out or went wrong, in words."""

    results: tuple[LevelResult, ...]
    notes: tuple[str, ...]


def run_sweep(
    vllm: str,
    traffic: Traffic,
    sweep: Sweep,
    key: str,
    clock: Clock,
    told: Told,
    *,
    max_s: float,
    pages: Pages | None = None,
    first_seed: int = 1,
) -> SweepOutcome:
    """Run every level of `sweep` within `max_s` seconds together.

    - `pages`: the server's metrics pages, or None. `first_seed`: of the lowest level's prompts; each level has its own.

    A level that the time does not suffice for is stopped and marked as cut, and those after it are left out.
    Raises JobError where the load generator fails.
    """
    end_s = clock.monotonic_s() + max_s
    results: list[LevelResult] = []
    notes = _left_out([str(level) for level in sweep.left_out], "the bound on requests")
    for index, level in enumerate(sweep.levels):
        left_s = end_s - clock.monotonic_s()
        if left_s <= 0:
            notes += _left_out([str(one) for one in sweep.levels[index:]], "the bound on time")
            break
        words = f"{level}: {level.requests} requests"
        told(f"{words}, getting ready", None)
        began_s = clock.monotonic_s()

        def progress(done: int, total: int, words: str = words, began_s: float = began_s) -> None:
            spent_s = clock.monotonic_s() - began_s
            told(f"{words}, {done} done", spent_s / done * (total - done) if done else None)

        with MetricsWatch(pages) as watch:
            figures = run_bench(
                vllm,
                traffic,
                level,
                key,
                limit_s=left_s,
                seed=first_seed + index,
                # The very first answers may compile kernels.
                warmups=0 if index else _WARMUPS,
                told=progress,
            )
        cut = "" if figures is not None else f"cut when the {max_s:.0f} s of --max-seconds were over"
        results.append(LevelResult(level, figures, watch.view(), clock.monotonic_s() - began_s, cut))
        if figures is not None and figures.completed == 0:
            notes.append(f"{level}: no request succeeded; higher levels were left out")
            break
    blind = {one.server.problem for one in results if not one.server.looks}
    notes += [f"KV cache use and preemptions are unknown: {problem}" for problem in sorted(blind)]
    return SweepOutcome(tuple(results), tuple(notes))


def _left_out(levels: Sequence[str], why: str) -> list[str]:
    return [f"left out by {why}: {', '.join(levels)}"] if levels else []
