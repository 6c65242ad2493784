"""What could be reached by one who knows the traffic beforehand: the lower bounds that policies are compared with."""

from collections.abc import Sequence


def clairvoyant_ticks(requests: Sequence[float], wake_ticks: int) -> int:
    """Least paid ticks if nobody is delayed: every busy tick, and of each gap its length or one wake, what is less.

    The gaps before the first and after the last request count likewise, so that the measure is that of a machine which
    begins and ends awake.
    """
    paid = gap = 0
    for count in requests:
        if count > 0:
            paid += 1 + min(gap, wake_ticks)
            gap = 0
        else:
            gap += 1
    return paid + min(gap, wake_ticks)


def least_cost(requests: Sequence[float], wake_ticks: int, ticks_a_request: float) -> tuple[int, float]:
    """Paid ticks and delayed requests of the cheapest way, a delayed request costing `ticks_a_request` paid ticks.

    Exact, by dynamic programming backwards over the ticks with the states awake, asleep and waking; it begins awake, and
    a request that comes while it sleeps wakes it, as a real service must.
    """
    # For each state the best (cost, paid, delayed) from the tick on; index 0 awake, 1 asleep, 1 + n waking with n left.
    best = [(0.0, 0, 0.0)] * (wake_ticks + 2)
    for count in reversed(requests):
        now = [(0.0, 0, 0.0)] * (wake_ticks + 2)
        rested = min(best[0], best[1])
        asleep = min(best[1], best[wake_ticks + 1])
        now[0] = _with(rested, 1, 0.0, ticks_a_request)
        for left in range(1, wake_ticks + 1):
            after = rested if left == 1 else best[left]
            now[1 + left] = _with(after, 1, count, ticks_a_request)
        now[1] = now[wake_ticks + 1] if count > 0 else asleep
        best = now
    return best[0][1], best[0][2]


def _with(after: tuple[float, int, float], paid: int, delayed: float, worth: float) -> tuple[float, int, float]:
    return (after[0] + paid + delayed * worth, after[1] + paid, after[2] + delayed)
