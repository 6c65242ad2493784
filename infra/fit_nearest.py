"""What would work instead: other settings on the same machine, more of it, other machines."""

from collections.abc import Iterable

from infra.fit_layouts import wished_layout
from infra.fit_question import MOST_NODES, FitQuestion, all_machines
from infra.machine_prices import dependable_price, usd_text
from serving.accelerators import InstanceShape
from serving.fit.answers import (
    Alternative,
    candidate_layouts,
    largest_concurrency,
    nearest_context_parallel,
    nearest_settings,
    nearest_that_fit,
)
from serving.fit.constraints import layout_faults
from serving.fit.layout import Layout
from serving.fit.plan import plan_fit

_OTHERS = 3


def on_the_machine(question: FitQuestion, shape: InstanceShape, layout: Layout) -> list[str]:
    """What would work on `shape`: another layout or more machines, then less to ask for; empty where nothing does."""
    found = [_words(one) for one in _machines(question, [shape])]
    return found + _with_other_settings(question, shape, layout)


def on_other_machines(question: FitQuestion, shape: InstanceShape | None) -> list[str]:
    """The cheapest EC2 machines other than `shape` that hold everything that was asked."""
    others = [other for other in all_machines() if other.zone_ids and (shape is None or other.name != shape.name)]
    return [_words(one) for one in _machines(question, others)[:_OTHERS]]


def with_shared_tokens(question: FitQuestion) -> list[str]:
    """The first of the question's machines on which GPUs that share a request's tokens would hold what was asked."""
    for shape in question.machines:
        layout = wished_layout(question.wish, shape)
        shared = nearest_context_parallel(question.model, layout, shape, question.limits, question.concurrency)
        if shared is not None:
            return [f"{shape.name} with --decode-context-parallel {shared.decode_context_parallel}"]
    return []


def with_the_most_requests(question: FitQuestion) -> tuple[int, str]:
    """The most requests of the full context that one replica on the question's machines holds at once, and where.

    0 and "" where it holds none.
    """
    best: tuple[int, str] = (0, "")
    for shape in question.machines:
        nodes = MOST_NODES if shape.zone_ids else 1
        for layout in candidate_layouts(question.model, shape, nodes, wished_layout(question.wish, shape)):
            # Stages within a machine make every answer slower.
            if layout.pipeline_parallel > nodes or layout_faults(question.model, layout, shape, question.limits):
                continue
            most = largest_concurrency(question.model, layout, shape, question.limits)
            if most > best[0]:
                machines = shape.name if nodes == 1 else f"{nodes} × {shape.name}"
                best = (most, f"{machines} as {str(layout).partition(', ')[0]}")
    return best


def _machines(question: FitQuestion, shapes: Iterable[InstanceShape]) -> tuple[Alternative, ...]:
    def usd_per_hour(instance_type: str) -> float | None:
        price = dependable_price(instance_type, question.region)
        return None if price is None else price.usd_per_hour

    shapes = list(shapes)
    if not shapes:
        return ()
    # A box that somebody has is one box; EC2 sells several.
    return nearest_that_fit(
        question.model,
        question.limits,
        usd_per_hour,
        shapes=shapes,
        most_nodes=MOST_NODES if all(shape.zone_ids for shape in shapes) else 1,
        like=wished_layout(question.wish, shapes[0]),
        concurrency=question.concurrency,
    )


def _with_other_settings(question: FitQuestion, shape: InstanceShape, layout: Layout) -> list[str]:
    limits = question.limits
    plan = plan_fit(question.model, layout, shape, limits)
    if plan.faults:
        return []
    found: list[str] = []
    if plan.fits:
        most = largest_concurrency(question.model, layout, shape, limits)
        found.append(f"the same layout with {most:,} request{'s' if most != 1 else ''} at once")
    for other in nearest_settings(question.model, layout, shape, limits):
        if other.kv_cache_dtype == limits.kv_cache_dtype:
            found.append(f"the same layout with a context of {other.context_tokens:,} tokens or fewer")
        elif plan_fit(question.model, layout, shape, other).full_context_requests >= question.concurrency:
            found.append("the same layout with --kv-cache-dtype fp8")
    shared = nearest_context_parallel(question.model, layout, shape, limits, question.concurrency)
    if shared is not None:
        found.append(
            f"the same layout with --decode-context-parallel {shared.decode_context_parallel}, whose GPUs share a request's"
            " tokens (some releases of vLLM answered wrongly with it: compare answers first)"
        )
    return found


def _words(one: Alternative) -> str:
    layout = one.layout
    machines = one.shape.name if layout.nodes == 1 else f"{layout.nodes} × {one.shape.name}"
    price = "price unknown" if one.usd_per_hour is None else f"{usd_text(one.usd_per_hour)} an hour"
    sizes = str(layout).partition(", ")[0]
    return f"{machines} as {sizes} ({price})"
