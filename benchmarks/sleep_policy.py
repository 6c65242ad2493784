"""Reproduces docs/sleeping.md: learned sleep against fixed timers over request traces, cross-validated over services.

    python benchmarks/sleep_policy.py client_requests.csv [--wake-minutes 20] [--cross-validate]

The traces are per-client request rates of the ServeGen data set (Alibaba Cloud Model Studio; github.com/alibaba/ServeGen,
Apache-2.0; arXiv 2505.09999), one column per client, one line per window of 600 s, `window_start_s` first.
"""

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from infra.brain.history import FIRST_LEARNING, Learning
from infra.brain.policy import Mode, Policy
from infra.brain.simulate.clairvoyant import least_cost
from infra.brain.simulate.comparison import Row, learned, mean_rows, row_of, share_at
from infra.brain.simulate.replay import replay_all
from infra.brain.simulate.traffic import Traffic, read_traffic

TIMER_MINUTES = (10, 20, 30, 60, 120, 240)
VALUES = (0.05, 0.3, 0.5, 1, 1.5, 2, 3, 4, 6, 9, 14, 22, 35, 60)
GRID = (
    FIRST_LEARNING,
    replace(FIRST_LEARNING, rate=0.0),
    replace(FIRST_LEARNING, rate=0.0125),
    replace(FIRST_LEARNING, rate=0.025),
    replace(FIRST_LEARNING, rate=0.1),
    replace(FIRST_LEARNING, day_decay=0.6),
    replace(FIRST_LEARNING, profile_share=1.0),
    replace(FIRST_LEARNING, profile_share=0.0),
    replace(FIRST_LEARNING, persistence_buckets=100.0),
)


def timers(service: Traffic, wake_s: float) -> list[Row]:
    policies = [Policy(mode=Mode.TIMER, idle_s=minutes * 60.0) for minutes in TIMER_MINUTES]
    return [
        row_of(service, f"timer {minutes} min", "timer", it.awake_ticks, it.delayed, it.wakes, wake_s)
        for minutes, it in zip(TIMER_MINUTES, replay_all(service, policies, wake_s=wake_s), strict=True)
    ]


def curve(service: Traffic, wake_s: float, learning: Learning = FIRST_LEARNING) -> list[Row]:
    found = replay_all(service, [learned(value) for value in VALUES], wake_s=wake_s, learning=learning)
    return [
        row_of(service, f"learned x{value:g}", "learned", it.awake_ticks, it.delayed, it.wakes, wake_s, value)
        for value, it in zip(VALUES, found, strict=True)
    ]


def bounds(service: Traffic, wake_s: float) -> list[Row]:
    busy = sum(1 for count in service.requests if count > 0)
    wake_ticks = max(1, round(wake_s / service.bucket_s))
    found = [(value, least_cost(service.requests, wake_ticks, value * busy / service.total)) for value in VALUES]
    return [row_of(service, f"foreseen x{value:g}", "bound", *least, 0, wake_s, value) for value, least in found]


def against(timer_rows: list[Row], learned_rows: list[Row]) -> list[tuple[Row, float | None]]:
    return [(row, share_at(learned_rows, row.multiple)) for row in timer_rows]


def print_against(pairs: list[tuple[Row, float | None]]) -> None:
    print("| fixed timer | cost ÷ clairvoyant | delayed | learned at that cost | fewer delayed |")
    print("|---|---|---|---|---|")
    for row, share in pairs:
        there = f"{share:.2%}" if share is not None else "not reached"
        fewer = f"{1 - share / row.delayed_share:.0%}" if share is not None else ""
        print(f"| {row.name} | {row.multiple:.3f} | {row.delayed_share:.2%} | {there} | {fewer} |")


def score(timer_rows: list[Row], learned_rows: list[Row]) -> float:
    """Mean share of delayed requests that remains against the timers, at their costs; lower is better."""
    kept = [share / row.delayed_share for row, share in against(timer_rows, learned_rows) if share is not None]
    return sum(kept) / len(kept)


def cross_validate(services: list[Traffic], wake_s: float, fixed: list[list[Row]], pool: ProcessPoolExecutor) -> None:
    tried = {learning: list(pool.map(partial(curve, wake_s=wake_s, learning=learning), services)) for learning in GRID}
    print("\n## How little depends on the settings (all services)\n\n| settings | delayed against timers |\n|---|---|")
    whole = list(mean_rows(fixed))
    for learning, rows in tried.items():
        print(f"| {changed(learning)} | {score(whole, list(mean_rows(rows))):.3f} |")
    held_out: list[list[Row]] = []
    chosen: list[str] = []
    for left in range(len(services)):
        others = [index for index in range(len(services)) if index != left]
        timer_rows = list(mean_rows([fixed[index] for index in others]))
        best = min(GRID, key=lambda it: score(timer_rows, list(mean_rows([tried[it][index] for index in others]))))
        held_out.append(tried[best][left])
        chosen.append(changed(best))
    print("\n## Settings chosen on all services but one, judged on that one; mean over all\n")
    print_against(against(whole, list(mean_rows(held_out))))
    print(f"\nChosen: {', '.join(f'{name} ({chosen.count(name)} of {len(chosen)})' for name in sorted(set(chosen)))}.")


def changed(learning: Learning) -> str:
    names = [name for name in Learning.__slots__ if getattr(learning, name) != getattr(FIRST_LEARNING, name)]
    return ", ".join(f"{name} {getattr(learning, name):g}" for name in names) or "as shipped"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traffic", type=Path)
    parser.add_argument("--wake-minutes", type=float, default=20)
    parser.add_argument("--cross-validate", action="store_true")
    arguments = parser.parse_args()
    services = list(read_traffic(arguments.traffic))
    wake_s = arguments.wake_minutes * 60
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        fixed = list(pool.map(partial(timers, wake_s=wake_s), services))
        found = list(pool.map(partial(curve, wake_s=wake_s), services))
        best = list(pool.map(partial(bounds, wake_s=wake_s), services))
        print(f"{len(services)} services, {services[0].days:g} days, wake {arguments.wake_minutes:g} min\n")
        print_against(against(list(mean_rows(fixed)), list(mean_rows(found))))
        print("\n| worth of a delayed request | cost ÷ clairvoyant | delayed | wakes a day | all foreseen |")
        print("|---|---|---|---|---|")
        for row, bound in zip(mean_rows(found), mean_rows(best), strict=True):
            least = f"{bound.multiple:.3f}, {bound.delayed_share:.2%}"
            print(
                f"| {row.value:g} | {row.multiple:.3f} | {row.delayed_share:.2%} | {row.wakes_per_day:.2f} | {least} |"
            )
        if arguments.cross_validate:
            sys.stdout.flush()
            cross_validate(services, wake_s, fixed, pool)
    return 0


if __name__ == "__main__":
    sys.exit(main())
