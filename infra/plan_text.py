"""The plan in words: what fits, with how much room, and what it costs. The same lines in preview and in the CLI."""

from infra.cost_plan import CostPlan, MachineCost
from infra.environment import Environment
from infra.pricing import Price
from serving.engine.arguments import start_notes
from serving.fit.terms import Term
from serving.loading import READS_VOLUME
from serving.service_plan import ServicePlan
from serving.units import GIB, duration_text, gb_text, gib_text

_WIDTH = 44


def fit_lines(environment: Environment, plan: ServicePlan) -> list[str]:
    """Memory per GPU, what the rest holds, and the numbers that follow from it."""
    memory = plan.memory
    limits = memory.limits
    shape = environment.shape
    peak = memory.fit.peak_used
    least, most = memory.fit.kv_cache_tokens_bounds
    estimate = " (99 % of the API's figure; estimate)" if memory.usable_is_estimate else ""
    rows = [
        ("usable memory", gib_text(memory.usable_bytes) + estimate),
        ("vLLM may plan with", f"{gib_text(memory.budget_bytes)} ({limits.gpu_memory_utilization:.0%})"),
        ("weights", f"{gib_text(memory.weights_bytes_per_gpu)}, exact"),
        *((term.name, _term_text(term)) for term in memory.fit.fitted_terms),
        (f"KV cache ({limits.kv_cache_dtype})", f"{gib_text(memory.kv_cache_bytes)}, what is left"),
        ("used at its peak", f"{_bounded(peak.count, peak.low, peak.high)}, with what vLLM does not count"),
    ]
    on = f"one {shape.name} ({shape.gpus} × {shape.gpu}), tensor parallel {memory.tensor_parallel}"
    if memory.nodes > 1:
        gpus = memory.nodes * memory.gpus_per_node
        on = f"{memory.nodes} × {shape.name} ({gpus} × {shape.gpu}) as one, {memory.fit.layout}"
    head = f"{environment.model.title} ({gb_text(memory.weights_bytes)}) fits on {on}. Per GPU:"
    cache = (
        f"The KV cache holds about {memory.kv_cache_tokens:,} tokens ({least:,} to {most:,}):"
        f" {memory.full_context_requests:.1f} requests of the full {limits.context_tokens:,} tokens at once."
    )
    safe = memory.fit.highest_safe_utilization
    set_to = limits.gpu_memory_utilization
    verdict = "" if set_to <= safe else ": a large prompt may end the engine"
    caution = f"A memory utilisation of up to {safe:.2f} is safe; it is set to {set_to:.2f}{verdict}."
    start = (
        f"A start takes about {duration_text(plan.planned_load_s)} once the machine is there"
        f" ({gb_text(memory.weights_bytes)} {_way(environment, plan)}, then compiling); it is"
        f" given {duration_text(plan.startup_window_s)}."
    )
    return [head, *_table(rows), cache, caution, start, *environment.engine.lines(), *start_notes(environment.model)]


def cost_lines(environment: Environment, cost: CostPlan) -> list[str]:
    """Dollars an hour awake, a day asleep and a month, then every price with its date and source."""
    lines = [
        "Awake, for each candidate in order:"
        if cost.replicas == 1
        else f"Awake, for each candidate in order: an hour of one replica, a month of all {cost.replicas}:",
        *(f"  {machine.candidate:<{_WIDTH}}{_awake(environment, cost, machine)}" for machine in cost.machines),
    ]
    if cost.raised:
        hour = (
            "unknown"
            if cost.raised_usd_per_hour is None
            else f"${cost.raised_usd_per_hour:,.3f} an hour, counted above"
        )
        lines.append(f"  {'weight volumes raised while awake':<{_WIDTH}}{hour}")
    day = cost.asleep_usd_per_day
    month = cost.asleep_usd_per_month
    if day is None or month is None:
        unknown = ", ".join(item.key for item in cost.asleep if item.price is None)
        lines.append(f"Asleep: unknown, for want of a price in {environment.region}: {unknown}. What is known:")
    else:
        lines.append(f"Asleep: ${day:,.2f} a day, ${month:,.0f} a month:")
    for item in cost.asleep:
        amount = "unknown" if item.usd_per_month is None else f"${item.usd_per_month:,.2f} a month"
        lines.append(f"  {item.name:<{_WIDTH}}{amount}")
    lines.append("Prices:")
    items = [*cost.asleep, *cost.raised]
    lines += _origins([(m.key, m.price) for m in cost.machines] + [(i.key, i.price) for i in items])
    return lines


def _awake(environment: Environment, cost: CostPlan, machine: MachineCost) -> str:
    if machine.usd_per_hour is None:
        return f"price unknown: none is published for {machine.key} in {environment.region}"
    parts = [f"${machine.usd_per_hour:,.2f} an hour"]
    if machine.prepaid:
        parts.append("prepaid for the whole block: sleeping saves nothing")
        return ", ".join(parts)
    timetable = cost.month_usd(machine)
    always = cost.always_on_usd(machine)
    if timetable is not None and cost.awake_hours_per_month:
        parts.append(f"${timetable:,.0f} a month by the timetable ({cost.awake_hours_per_month:.0f} h)")
    if always is not None:
        parts.append(f"${always:,.0f} always on")
    return ", ".join(parts)


def _origins(prices: list[tuple[str, Price | None]]) -> list[str]:
    lines: list[str] = []
    for key, price in dict(prices).items():
        amount = (
            "unknown" if price is None else f"${price.usd:,.4g} a{'n' if price.unit == 'hour' else ''} {price.unit}"
        )
        origin = "" if price is None else f"{price.origin()}"
        lines.append(f"  {key:<{_WIDTH}}{amount:<18}{origin}".rstrip())
    return lines


def _way(environment: Environment, plan: ServicePlan) -> str:
    if plan.loading in READS_VOLUME:
        return f"at {environment.weights.throughput_mib_per_s:,} MiB/s"
    return f"by {plan.loading}"


def _term_text(term: Term) -> str:
    return f"{gib_text(term.count, 2)}, exact" if term.exact else _bounded(term.count, term.low, term.high)


def _bounded(count: int, low: int, high: int) -> str:
    return f"{gib_text(count, 2)} ({low / GIB:,.2f} to {high / GIB:,.2f})"


def _table(rows: list[tuple[str, str]]) -> list[str]:
    return [f"  {name:<{_WIDTH}}{value}" for name, value in rows]
