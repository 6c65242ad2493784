"""Does it fit on one machine as it is deployed: tensor parallel over all of its GPUs. The proof behind a preview.

The arithmetic is `serving.fit`'s; here a model's profile meets a machine, and what does not fit is refused in words.
"""

from dataclasses import dataclass, replace
from typing import cast

from serving.accelerators import InstanceShape, instance_shapes
from serving.errors import DoesNotFitError
from serving.fit.answers import candidate_layouts, nearest_settings
from serving.fit.layout import Layout, VisionMode
from serving.fit.limits import KV_CACHE_DTYPES, EngineLimits, KvCacheDtype
from serving.fit.plan import FitPlan, plan_fit
from serving.profiles import ModelProfile
from serving.units import gib_from_bytes

__all__ = ["KV_CACHE_DTYPES", "EngineLimits", "KvCacheDtype", "MemoryPlan", "plan_memory", "require_fit"]


@dataclass(frozen=True)
class MemoryPlan:
    """The proof that one replica of a model fits on its machine, or machines, in bytes per GPU.

    - `fit`: the plan term by term, with the bounds of what is measured and not exact.
    """

    model: str
    instance_type: str
    tensor_parallel: int
    limits: EngineLimits
    fit: FitPlan

    @property
    def nodes(self) -> int:
        """Machines of one replica."""
        return self.fit.layout.nodes

    @property
    def gpus_per_node(self) -> int:
        """GPUs that one replica takes on each of its machines."""
        return self.fit.layout.gpus // self.fit.layout.nodes

    @property
    def weights_bytes(self) -> int:
        """The whole checkpoint on disk."""
        return self.fit.weights_bytes

    @property
    def weights_bytes_per_gpu(self) -> int:
        """Weights that one GPU holds."""
        return self.fit.weights_bytes_per_gpu

    @property
    def usable_bytes(self) -> int:
        """GPU memory that CUDA reports."""
        return self.fit.usable_bytes

    @property
    def usable_is_estimate(self) -> bool:
        """Whether that is derived for want of a published figure."""
        return self.fit.shape.usable_is_estimate

    @property
    def budget_bytes(self) -> int:
        """What vLLM may plan with: usable memory × utilisation."""
        return self.fit.budget_bytes

    @property
    def reserved_bytes(self) -> int:
        """What loading leaves, activations, non-torch and CUDA graphs as vLLM counts them; most of it measured, not exact."""
        return sum(term.count for term in self.fit.fitted_terms)

    @property
    def kv_cache_bytes(self) -> int:
        """What is left for KV cache; below zero where nothing is."""
        return self.fit.kv_cache_bytes

    @property
    def kv_cache_tokens(self) -> int:
        """Tokens that the KV cache holds."""
        return self.fit.kv_cache_tokens

    @property
    def full_context_requests(self) -> float:
        """Requests of the full context length that fit at once."""
        return self.fit.full_context_requests

    @property
    def missing_bytes(self) -> int:
        """Bytes per GPU that one request of the full context lacks; 0 where it fits."""
        return self.fit.missing_bytes

    @property
    def fits(self) -> bool:
        """True where the layout can run and at least one request of the full context fits."""
        return self.fit.fits


def plan_memory(model: ModelProfile, shape: InstanceShape, limits: EngineLimits, nodes: int = 1) -> MemoryPlan:
    """The plan for one replica on all GPUs of `nodes` machines; it never refuses.

    On one machine it is tensor parallel. On several it is the plainest layout that fits: tensor parallel inside each
    machine and a stage on each, where that will do, since stages talk least. Copies of attention over several machines
    (data parallel) are left out: they live and die apart, and a replica is one.
    """
    if nodes == 1:
        fit = plan_fit(model.checkpoint, _layout(model, shape), shape, limits)
        return MemoryPlan(model.name, shape.name, shape.gpus, limits, fit)
    layouts = candidate_layouts(model.checkpoint, shape, nodes, _layout(model, shape))
    plans = [plan_fit(model.checkpoint, one, shape, limits) for one in layouts if one.data_parallel == 1]
    fit = next((one for one in plans if one.fits), plans[0])
    return MemoryPlan(model.name, shape.name, fit.layout.tensor_parallel, limits, fit)


def require_fit(model: ModelProfile, shape: InstanceShape, limits: EngineLimits, nodes: int = 1) -> MemoryPlan:
    """The plan on `nodes` machines, where it fits.

    Raises DoesNotFitError naming the missing GiB per GPU, or why the layout cannot run, and what works.
    """
    plan = plan_memory(model, shape, limits, nodes)
    if plan.fits:
        return plan
    machine = f"{shape.name} ({shape.gpus} × {shape.gpu})"
    if nodes > 1:
        machine = f"{nodes} × {shape.name} ({nodes * shape.gpus} × {shape.gpu}, {plan.fit.layout})"
    works = "What works: " + "; ".join(_alternatives(model, shape, limits, plan.fit.layout))
    if plan.fit.faults:
        raise DoesNotFitError(f"{model.title} cannot run on {machine}: {'; '.join(plan.fit.faults)}. {works}")
    request = plan.budget_bytes + plan.missing_bytes - plan.weights_bytes_per_gpu - plan.reserved_bytes
    raise DoesNotFitError(
        f"{model.title} does not fit on {machine} at a context of {limits.context_tokens:,} tokens: each GPU lacks"
        f" {gib_from_bytes(plan.missing_bytes):.1f} GiB. It takes {gib_from_bytes(plan.weights_bytes_per_gpu):.1f} GiB"
        f" of weights, {gib_from_bytes(plan.reserved_bytes):.1f} GiB beside them and {gib_from_bytes(request):.1f} GiB"
        f" of KV cache for one request, {gib_from_bytes(plan.budget_bytes + plan.missing_bytes):.1f} GiB in all; vLLM"
        f" may use {gib_from_bytes(plan.budget_bytes):.1f} GiB ({limits.gpu_memory_utilization:.0%} of"
        f" {gib_from_bytes(plan.usable_bytes):.1f}). {works}"
    )


def _layout(model: ModelProfile, shape: InstanceShape) -> Layout:
    return Layout(shape.gpus, vision_mode=cast("VisionMode", model.vision_mode))


def _alternatives(model: ModelProfile, shape: InstanceShape, limits: EngineLimits, layout: Layout) -> list[str]:
    """What would work, nearest first; never empty."""
    works: list[str] = []
    for other in nearest_settings(model.checkpoint, layout, shape, limits):
        if other.kv_cache_dtype != limits.kv_cache_dtype:
            works.append(f"{shape.name} with kvCacheDtype {other.kv_cache_dtype}")
        else:
            works.append(f"{shape.name} with a context of {other.context_tokens:,} tokens or fewer")
    bf16 = replace(limits, kv_cache_dtype="auto")
    if limits.kv_cache_dtype == "fp8" and plan_memory(model, shape, bf16, layout.nodes).fits:
        works.append(f"{shape.name} with kvCacheDtype auto")
    others = [
        other.name
        for other in instance_shapes().values()
        if other.name != shape.name and plan_memory(model, other, limits, layout.nodes).fits
    ]
    if others:
        works.append(f"the same settings on {', '.join(others)}")
    return works or ["nothing that is known; a smaller model or a shorter context is needed"]
