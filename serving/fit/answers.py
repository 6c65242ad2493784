"""Answers for people: the longest context, the most requests, and which machines and layouts would do, cheapest first."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from serving.accelerators import InstanceShape, instance_shapes
from serving.checkpoint.model import CheckpointModel
from serving.fit.constraints import layout_faults
from serving.fit.layout import Layout
from serving.fit.limits import EngineLimits
from serving.fit.plan import FitPlan, plan_fit

UsdPerHour = Callable[[str], float | None]
"""The price of one machine an hour, by instance type; None where nobody knows it."""
_STEP_TOKENS = 1024


@dataclass(frozen=True)
class Alternative:
    """A layout that works: the plan that shows it, and its price an hour for all machines, None where unknown."""

    plan: FitPlan
    usd_per_hour: float | None

    @property
    def shape(self) -> InstanceShape:
        """The machine."""
        return self.plan.shape

    @property
    def layout(self) -> Layout:
        """The layout on it."""
        return self.plan.layout

    @property
    def limits(self) -> EngineLimits:
        """What the engine is asked for."""
        return self.plan.limits


def largest_context(model: CheckpointModel, layout: Layout, shape: InstanceShape, limits: EngineLimits) -> int:
    """The longest request in tokens that fits, no longer than the model allows; 0 where none does.

    What else `layout` may lack (see `layout_faults`) does not count here.
    """
    plan = plan_fit(model, layout, shape, limits)
    low, high = 0, model.max_context_tokens
    while low < high:
        middle = (low + high + 1) // 2
        if plan.missing_at(middle):
            high = middle - 1
        else:
            low = middle
    return low


def largest_concurrency(
    model: CheckpointModel,
    layout: Layout,
    shape: InstanceShape,
    limits: EngineLimits,
    request_tokens: int | None = None,
) -> int:
    """Whole requests of `request_tokens` tokens (the full context where not given) that KV cache holds at once."""
    plan = plan_fit(model, layout, shape, limits)
    tokens = limits.context_tokens if request_tokens is None else request_tokens
    usable = max(0, plan.blocks - 1)
    need = max(rank.kv.request_blocks(max(1, tokens), limits.max_batched_tokens) for rank in plan.ranks)
    return usable // need * layout.data_parallel


def candidate_layouts(model: CheckpointModel, shape: InstanceShape, nodes: int, like: Layout) -> Iterator[Layout]:
    """Layouts over all GPUs of `nodes` machines, the plainest first; vision mode and draft are those of `like`."""
    gpus = shape.gpus * nodes
    for tensor in sorted((t for t in range(1, gpus + 1) if gpus % t == 0), key=lambda t: (t > shape.gpus, -t)):
        rest = gpus // tensor
        pipelines = [p for p in range(1, rest + 1) if rest % p == 0 and p <= model.layers]
        # Stages talk least, so they go between machines; copies of attention come next.
        for pipeline in sorted(pipelines, key=lambda p: (p != nodes if nodes > 1 else p != 1, p)):
            data = rest // pipeline
            yield replace(
                like,
                tensor_parallel=tensor,
                pipeline_parallel=pipeline,
                data_parallel=data,
                expert_parallel=bool(model.experts) and data > 1,
                decode_context_parallel=1,
                nodes=nodes,
            )


def nearest_that_fit(
    model: CheckpointModel,
    limits: EngineLimits,
    usd_per_hour: UsdPerHour,
    *,
    shapes: Iterable[InstanceShape] | None = None,
    most_nodes: int = 4,
    like: Layout | None = None,
    concurrency: int = 1,
) -> tuple[Alternative, ...]:
    """For each machine the plainest layout on the fewest of them that fits, cheapest first, unknown prices last.

    - `shapes`: the machines to look at, all known instance types where not given.
    - `like`: whose vision mode and draft to keep. `concurrency`: how many requests of the full context must fit.
    """
    pattern = like or Layout(1)
    found: list[Alternative] = []
    for shape in instance_shapes().values() if shapes is None else shapes:
        best = _smallest(model, limits, shape, most_nodes, pattern, concurrency)
        if best is not None:
            price = usd_per_hour(shape.name)
            found.append(Alternative(best, None if price is None else price * best.layout.nodes))
    return tuple(
        sorted(
            found,
            key=lambda one: (
                math.inf if one.usd_per_hour is None else one.usd_per_hour,
                one.layout.nodes,
                one.layout.gpus,
                one.shape.name,
            ),
        )
    )


def nearest_settings(
    model: CheckpointModel, layout: Layout, shape: InstanceShape, limits: EngineLimits
) -> tuple[EngineLimits, ...]:
    """Limits near `limits` with which `layout` fits on `shape`: a shorter context, then an fp8 KV cache."""
    found: list[EngineLimits] = []
    shorter = min(largest_context(model, layout, shape, limits), limits.context_tokens) // _STEP_TOKENS * _STEP_TOKENS
    if shorter:
        found.append(replace(limits, context_tokens=shorter))
    if limits.kv_cache_dtype != "fp8":
        found.append(replace(limits, kv_cache_dtype="fp8"))
    return tuple(one for one in found if one != limits and plan_fit(model, layout, shape, one).fits)


def nearest_context_parallel(
    model: CheckpointModel, layout: Layout, shape: InstanceShape, limits: EngineLimits, concurrency: int = 1
) -> Layout | None:
    """`layout` with its KV cache's tokens spread over as few GPUs as make `concurrency` requests fit; None for none.

    It helps where every GPU of a tensor-parallel group keeps the same tokens, as latent attention does.
    """
    for ranks in range(layout.decode_context_parallel + 1, layout.tensor_parallel + 1):
        if layout.tensor_parallel % ranks:
            continue
        wider = replace(layout, decode_context_parallel=ranks)
        plan = plan_fit(model, wider, shape, limits)
        if plan.fits and plan.full_context_requests >= concurrency:
            return wider
    return None


def _smallest(
    model: CheckpointModel,
    limits: EngineLimits,
    shape: InstanceShape,
    most_nodes: int,
    pattern: Layout,
    concurrency: int,
) -> FitPlan | None:
    for nodes in range(1, most_nodes + 1):
        for layout in candidate_layouts(model, shape, nodes, pattern):
            if layout_faults(model, layout, shape, limits):
                continue
            plan = plan_fit(model, layout, shape, limits)
            if plan.fits and plan.full_context_requests >= concurrency:
                return plan
    return None
