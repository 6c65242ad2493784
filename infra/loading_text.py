"""The loading paths as a table for people, and what the image adds to a wake."""

from infra.loading_plan import LoadingPlan
from infra.machine_prices import usd_text
from serving.image_pull import pull_estimates
from serving.loading import LoadingEstimate

_PATH_WIDTH = 24


def loading_lines(plan: LoadingPlan) -> list[str]:
    """Minutes, dollars a wake and a month, and the bottleneck of every path; then the choice and the image's pull."""
    hour = "unknown price" if plan.usd_per_hour is None else f"${plan.usd_per_hour:,.2f} an hour ({plan.priced_as})"
    lines = [
        f"Ways to load, at {plan.wakes_per_month:.0f} wakes a month ({plan.wakes_from}) and {hour}:",
        f"  {'path':<{_PATH_WIDTH}}{'minutes':<16}{'a wake':>8}{'idle/month':>12}{'month':>10}  limited by",
        *(f"  {_row(plan, one)}" for one in plan.estimates),
        "  * estimated: its rates are not measured on such a machine; the range is fast to slow.",
        f"  {_closing(plan)}",
    ]
    lines += [f"  {one.text}" for one in pull_estimates(plan.usd_per_hour, parallel=plan.parallel_pull)]
    return lines


def _row(plan: LoadingPlan, one: LoadingEstimate) -> str:
    mark = ">" if one.path is plan.choice.path else " "
    minutes = "unknown"
    if one.likely_s is not None and one.slow_s is not None and one.fast_s is not None:
        minutes = f"{one.likely_s / 60:.1f}"
        if round(one.slow_s / 60, 1) != round(one.fast_s / 60, 1):
            minutes += f" ({one.fast_s / 60:.0f}–{one.slow_s / 60:.0f})"
        minutes += "" if one.measured else " *"
    money = [one.usd_per_wake, one.usd_idle_per_month, one.usd_per_month(plan.wakes_per_month)]
    wake, idle, month = (usd_text(usd) for usd in money)
    needs = f"; needs {one.needs}" if one.needs else ""
    return f"{mark} {one.path:<{_PATH_WIDTH - 2}}{minutes:<16}{wake:>8}{idle:>12}{month:>10}  {one.limited_by}{needs}"


def _closing(plan: LoadingPlan) -> str:
    return plan.choice.reason[:1].upper() + plan.choice.reason[1:] + "."
