"""Which loading path an environment takes, and why: the one that was asked for, or the cheapest that it has."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from serving.errors import ConfigurationError, Fault
from serving.loading import LoadingEstimate, LoadingPath
from serving.units import duration_text

AUTO = "auto"
CHOICES: tuple[str, ...] = (AUTO, "volume", "volume-prefetch", "volume-streamer", "s3-streamer", "nvme-copy")
"""What `loadingPath` takes. Clones are what a fallback zone may need, not what an environment is set to."""


@dataclass(frozen=True)
class LoadingChoice:
    """The path that is taken, and why in one sentence."""

    estimate: LoadingEstimate
    reason: str

    @property
    def path(self) -> LoadingPath:
        """The path."""
        return self.estimate.path


def choose_loading(
    estimates: Sequence[LoadingEstimate], wanted: str, wakes_per_month: float, key: str = "loadingPath"
) -> LoadingChoice:
    """The path that `wanted` (one of `CHOICES`) says, or with `auto` the cheapest a month that is available.

    Cheapest is judged by the slow end of each; without a price the quickest by its slow end. Raises
    ConfigurationError at `key` where the path that was asked for is not available, or none is.
    """
    by_path = {estimate.path: estimate for estimate in estimates}
    if wanted != AUTO:
        chosen = by_path[LoadingPath(wanted)]
        if wanted == LoadingPath.NVME_COPY and not by_path[LoadingPath.NVME_COPY_S3].needs:
            chosen = by_path[LoadingPath.NVME_COPY_S3]
        if chosen.needs:
            others = [name for name in CHOICES[1:] if not by_path[LoadingPath(name)].needs]
            raise ConfigurationError(
                [Fault(key, wanted, f"{' or '.join(others) or 'none yet'}; {wanted} needs {chosen.needs}")]
            )
        return LoadingChoice(chosen, f"{chosen.path}, as {key} says")
    available = [one for one in estimates if not one.needs and one.slow_s is not None]
    if not available:
        needs = "; ".join(f"{one.path} needs {one.needs}" for one in estimates if one.needs)
        raise ConfigurationError([Fault(key, AUTO, f"at least one path that can be taken: {needs}")])
    order = list(LoadingPath)

    def cost(one: LoadingEstimate) -> tuple[float, float, float, int]:
        slow, likely = one.usd_per_month(wakes_per_month, slow=True), one.usd_per_month(wakes_per_month)
        # Rounded: paths that are equal must not be told apart by the last bit.
        return (
            round(slow if slow is not None else one.slow_s or math.inf, 2),
            round(likely if likely is not None else one.likely_s or math.inf, 2),
            round(one.likely_s or math.inf, 2),
            order.index(one.path),
        )

    # Seconds and dollars are not compared with each other: a price is known for all of them or for none.
    priced = [one for one in available if one.usd_per_month(wakes_per_month) is not None]
    chosen = min(priced or available, key=cost)
    month = chosen.usd_per_month(wakes_per_month)
    slow = chosen.usd_per_month(wakes_per_month, slow=True)
    judged = (
        f"the quickest even at its slow end (no price of the machine is known): {_span(chosen)} a load"
        if month is None or slow is None
        else f"the cheapest of the {len(available)} paths that can be taken, even at its slow end: ${month:,.0f} to"
        f" ${slow:,.0f} a month at {wakes_per_month:.0f} wakes, {_span(chosen)} a load"
    )
    return LoadingChoice(chosen, f"{chosen.path} is {judged}, limited by the {chosen.limited_by}")


def _span(one: LoadingEstimate) -> str:
    likely, slow = one.likely_s or 0.0, one.slow_s or 0.0
    return f"about {duration_text(likely)} (up to {duration_text(slow)})"
