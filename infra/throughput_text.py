"""Throughput as money, in words."""

from components.weight_volume import CHANGES_PER_DAY
from infra.machine_prices import usd_text
from infra.throughput_plan import ThroughputPlan
from serving.units import duration_text

_KEY = "weightsThroughputAsleepMibps"


def throughput_lines(plan: ThroughputPlan) -> list[str]:
    """What the volumes' throughput costs always and only while awake, what it saves a wake, and whether changing pays."""
    volumes = "1 weight volume" if plan.volumes == 1 else f"{plan.volumes} weight volumes"
    head = f"Throughput as money: {volumes} at {plan.awake_mib_per_s:,} MiB/s and {plan.awake_iops:,} IOPS"
    if plan.extra_usd_per_month == 0 or plan.awake_mib_per_s == plan.asleep_mib_per_s:
        return [f"{head}, which gp3 includes: there is nothing to save."]
    asleep = f"{plan.asleep_mib_per_s:,} MiB/s"
    lines = [f"{head}, against {asleep} and {plan.asleep_iops:,}:"]
    if plan.reads_volume:
        month = None if plan.saved_usd_per_wake is None else plan.saved_usd_per_wake * _wakes(plan)
        lines.append(
            f"  a load by {plan.path} takes {duration_text(plan.load_s)}, not {duration_text(plan.slow_load_s)}: it saves "
            f"{duration_text(plan.saved_s)} and {usd_text(plan.saved_usd_per_wake)} a wake, {usd_text(month)} a month at "
            f"{_wakes(plan):.0f} wakes"
        )
    else:
        lines.append(f"  {plan.path} does not read the volume, so its throughput saves no minute of a wake")
    lines.append(f"  always on: {usd_text(plan.always_usd_per_month)} a month")
    lines.append(
        f"  raised by a wake and lowered by hibernate: {usd_text(plan.changing_usd_per_month)} a month for "
        f"{plan.awake_hours_per_month:.0f} h awake, {usd_text(plan.saving_usd_per_month)} less"
    )
    if plan.reads_volume:
        lines.append(f"  {_caution(plan)}")
    lines.append(f"  {_verdict(plan)}")
    return lines


def _wakes(plan: ThroughputPlan) -> float:
    return plan.wakes_per_month * plan.replicas


def _caution(plan: ThroughputPlan) -> str:
    """What AWS leaves open, in dollars."""
    affordable = plan.affordable_late_wakes
    much = "" if affordable is None else f"; more than {affordable:.1f} such wakes a month eat up what it saves"
    return (
        f"EBS takes {CHANGES_PER_DAY} changes of a volume in 24 hours and does not promise how soon one has its full "
        f"effect: a wake that it comes too late for costs up to {usd_text(plan.saved_usd_per_wake)}{much}"
    )


def _verdict(plan: ThroughputPlan) -> str:
    if not plan.reads_volume:
        return f"Lower weightsThroughputMibps instead, which saves {usd_text(plan.always_usd_per_month)} a month."
    net = plan.net_usd_per_month
    if net is None:
        return f"Whether it pays is unknown, for want of a price{_state(plan)}."
    if net <= 0:
        beyond = (
            f"{plan.late_wakes_per_month:.0f} of {plan.wakes_per_month:.0f} wakes a month are more than EBS lets raise"
            if plan.late_wakes_per_month
            else "the volumes are awake too long"
        )
        costs = f"It costs {usd_text(-net)} a month more than it saves, since {beyond}"
        return f"{costs}: leave {_KEY} out." if plan.set else f"{costs}: {_KEY} stays unset."
    return f"It saves up to {usd_text(net)} a month{_state(plan)}."


def _state(plan: ThroughputPlan) -> str:
    if plan.set:
        return f" ({_KEY}: {plan.asleep_mib_per_s})"
    return f"; it is not set, and {_KEY}: {plan.asleep_mib_per_s} would do it"
