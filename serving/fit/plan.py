"""The memory plan of one replica: every term on every kind of GPU, what is left for the KV cache, and what is safe."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from serving.accelerators import InstanceShape
from serving.checkpoint.model import CheckpointModel
from serving.checkpoint.weights import Kind
from serving.fit.allocator import rotary_bytes, rounding_bytes
from serving.fit.constraints import layout_faults
from serving.fit.kv_cache import attention_backend, kv_layout
from serving.fit.layout import Layout, stages
from serving.fit.limits import EngineLimits
from serving.fit.overheads import NOTHING, Measured, Overheads, overheads
from serving.fit.sharding import stage_weights
from serving.fit.terms import Group, RankPlan, Term

_CAP = 0.95
"""No more than this share is ever proposed: vLLM's own estimates were seen to fail above it."""


@dataclass(frozen=True)
class FitPlan:
    """The plan of one replica, in bytes per GPU. The tightest stage speaks for all where one figure is asked for.

    - `ranks`: one for each pipeline stage. `budget_bytes`: what vLLM may plan with.
    - `backend`: of attention. `experts_backend`: of packed experts, whose padding is planned, empty where there are none;
      `other_experts_backend`: what `--moe-backend` may name instead, with a padding of its own.
    - `faults`: why the layout cannot run at all, in words; empty where it can.
    """

    model: str
    layout: Layout
    shape: InstanceShape
    limits: EngineLimits
    weights_bytes: int
    ranks: tuple[RankPlan, ...]
    budget_bytes: int
    backend: str
    experts_backend: str
    other_experts_backend: str
    faults: tuple[str, ...]

    @property
    def tightest(self) -> RankPlan:
        """The stage with the least room for requests of the full context, or that lacks most where one has no room."""
        lacking = min(self.ranks, key=lambda rank: rank.kv_bytes)
        return (
            lacking if lacking.kv_bytes < 0 else min(self.ranks, key=lambda rank: rank.kv_bytes / rank.kv.block_bytes)
        )

    @property
    def terms(self) -> tuple[Term, ...]:
        """Everything on a GPU of the tightest stage but its KV cache."""
        return (*self.tightest.budget_terms, *self.tightest.outside_terms)

    @property
    def fitted_terms(self) -> tuple[Term, ...]:
        """What the budget holds beside weights and KV cache on the tightest stage; with bounds where it is measured."""
        return tuple(term for term in self.tightest.budget_terms if term.group is not Group.WEIGHTS)

    @property
    def usable_bytes(self) -> int:
        """GPU memory that CUDA reports."""
        return self.shape.usable_bytes_per_gpu

    @property
    def weights_bytes_per_gpu(self) -> int:
        """Weights on the fullest GPU, as loaded: padding counts, what loading leaves beside them does not."""
        return max(rank.group_bytes(Group.WEIGHTS) for rank in self.ranks)

    @property
    def loaded_bytes(self) -> int:
        """What vLLM prints as "Model loading took", on the fullest GPU."""
        return max(rank.group_bytes(Group.WEIGHTS) + rank.group_bytes(Group.LOADING) for rank in self.ranks)

    @property
    def activation_bytes(self) -> int:
        """Peak of activations."""
        return self.tightest.group_bytes(Group.ACTIVATION)

    @property
    def non_torch_bytes(self) -> int:
        """What libraries take inside the budget."""
        return self.tightest.group_bytes(Group.NON_TORCH)

    @property
    def cuda_graphs_estimated_bytes(self) -> int:
        """CUDA graphs as vLLM estimates them; 0 where it does not."""
        return self.tightest.group_bytes(Group.CUDA_GRAPHS)

    @property
    def cuda_graphs_actual_bytes(self) -> int:
        """CUDA graphs as they come to lie in memory."""
        return self.cuda_graphs_estimated_bytes + self._outside(_UNCOUNTED_GRAPHS).count

    @property
    def communication_bytes(self) -> int:
        """Buffers of NCCL and custom all-reduce, on top of the budget."""
        return self._outside(_COMMUNICATION).count

    @property
    def kv_cache_bytes(self) -> int:
        """What is left for KV cache on a GPU of the tightest stage."""
        return self.tightest.kv_bytes

    @property
    def blocks(self) -> int:
        """KV blocks of one engine: the stage with the fewest decides."""
        return min(rank.kv.blocks(rank.kv_bytes) for rank in self.ranks)

    @property
    def kv_cache_tokens(self) -> int:
        """Tokens that all KV caches of the replica hold, as vLLM prints it, times the data-parallel ranks."""
        return self._tokens(self.blocks) * self.layout.data_parallel

    @property
    def kv_cache_tokens_bounds(self) -> tuple[int, int]:
        """The same at the upper and at the lower bound of every fitted term."""
        bounds = [[rank.kv.blocks(kv) for kv in rank.kv_bytes_bounds] for rank in self.ranks]
        low, high = (min(column) for column in zip(*bounds, strict=True))
        return self._tokens(low) * self.layout.data_parallel, self._tokens(high) * self.layout.data_parallel

    @property
    def full_context_requests(self) -> float:
        """Requests of the full context that the replica holds at once."""
        return self.requests_at(self.limits.context_tokens)

    def requests_at(self, tokens: int) -> float:
        """Requests of `tokens` tokens each that the replica's KV caches hold at once."""
        return self.blocks / self._request_blocks(tokens) * self.layout.data_parallel

    def missing_at(self, tokens: int) -> int:
        """Bytes on the tightest GPU that one request of `tokens` tokens lacks; 0 where it fits."""
        batched = self.limits.max_batched_tokens
        # One block stays empty, so a request needs one more than it fills.
        needs = [
            (rank.kv.request_blocks(tokens, batched) + 1) * rank.kv.block_bytes - rank.kv_bytes for rank in self.ranks
        ]
        return max(0, *needs)

    @property
    def missing_bytes(self) -> int:
        """Bytes on the tightest GPU that one request of the full context lacks; 0 where it fits."""
        return self.missing_at(self.limits.context_tokens)

    @property
    def fits(self) -> bool:
        """Whether the layout can run and holds at least one request of the full context."""
        return not self.faults and self.missing_bytes == 0

    @property
    def peak_used(self) -> Measured:
        """Memory really used on the fullest GPU once large prompts were answered: the budget and what lies on top."""
        outside = [self._fullest_outside(bound) for bound in ("count", "low", "high")]
        return Measured(*(self.budget_bytes + extra for extra in outside))

    @property
    def peak_used_bytes(self) -> int:
        """The likeliest of `peak_used`."""
        return self.peak_used.count

    @property
    def highest_safe_utilization(self) -> float:
        """The highest utilisation whose peak still lies in memory at the upper bounds; in hundredths, 0 for none."""
        free = self.usable_bytes - self._fullest_outside("high")
        return max(0, math.floor(100 * free / self.usable_bytes)) / 100

    @property
    def proposed_utilization(self) -> float:
        """What to set: as much as is safe, and never more than 0.95."""
        return min(_CAP, self.highest_safe_utilization)

    def _tokens(self, blocks: int) -> int:
        return int(blocks / self._request_blocks(self.limits.context_tokens) * self.limits.context_tokens)

    def _request_blocks(self, tokens: int) -> int:
        batched = self.limits.max_batched_tokens
        return max(1, *(rank.kv.request_blocks(tokens, batched) for rank in self.ranks))

    def _outside(self, name: str) -> Measured:
        found = [term for term in self.tightest.outside_terms if term.name == name]
        return Measured(found[0].count, found[0].low, found[0].high) if found else NOTHING

    def _fullest_outside(self, bound: str) -> int:
        return max(sum(int(getattr(term, bound)) for term in rank.outside_terms) for rank in self.ranks)


_COMMUNICATION = "communication"
_UNCOUNTED_GRAPHS = "CUDA graphs beyond the estimate"


def plan_fit(
    model: CheckpointModel,
    layout: Layout,
    shape: InstanceShape,
    limits: EngineLimits,
    coefficients: Overheads | None = None,
) -> FitPlan:
    """The plan of one replica of `model` on machines of `shape`; it never refuses, `faults` says what cannot run.

    - `coefficients`: those of the data file unless others are given.
    """
    known = coefficients or overheads()
    budget = math.ceil(shape.usable_bytes_per_gpu * limits.gpu_memory_utilization)
    tile = known.tile(model, shape)
    ranks: list[RankPlan] = []
    cut = stages(model.layers, layout.pipeline_parallel)
    for stage, held in zip(cut, stage_weights(model, layout, cut, tile), strict=True):
        weights = _weight_terms(held)
        activation = known.activation(model, layout, limits)
        estimated = known.graphs_estimated(model, layout, stage, shape, limits)
        actual = known.graphs_actual(model, layout, stage, shape, limits)
        inside = (
            *weights,
            _exact("allocator's rounding", rounding_bytes(model, layout, stage, tile)),
            _exact("rotary table", rotary_bytes(model, limits.enforce_eager)),
            _fitted("loading", known.loading(model), Group.LOADING),
            _fitted("activations", activation, Group.ACTIVATION),
            _fitted("CUDA graphs, estimated", estimated, Group.CUDA_GRAPHS),
            _fitted("non-torch", known.non_torch(layout), Group.NON_TORCH),
        )
        beyond = Measured(actual.count - estimated.count, actual.low - estimated.count, actual.high - estimated.count)
        outside = (
            _fitted("CUDA context", known.context(), Group.OUTSIDE),
            _fitted(_COMMUNICATION, known.communication(model, layout), Group.OUTSIDE),
            _fitted(_UNCOUNTED_GRAPHS, beyond, Group.OUTSIDE),
            _fitted("first large prompts", known.growth(activation), Group.OUTSIDE),
        )
        inside = tuple(term for term in inside if term.high)
        ranks.append(
            RankPlan(
                stage=stage,
                gpus=layout.tensor_parallel * layout.data_parallel,
                budget_terms=inside,
                outside_terms=tuple(term for term in outside if term.high),
                kv_bytes=budget - sum(term.count for term in inside),
                kv=kv_layout(model, layout, stage, shape, limits),
            )
        )
    return FitPlan(
        model=model.name,
        layout=layout,
        shape=shape,
        limits=limits,
        weights_bytes=model.total_bytes,
        ranks=tuple(ranks),
        budget_bytes=budget,
        backend=attention_backend(model, shape, limits).name,
        experts_backend=known.experts_backend(model, shape)[0],
        other_experts_backend=known.experts_backend(model, shape)[1],
        faults=layout_faults(model, layout, shape, limits),
    )


def _weight_terms(weights: Mapping[str, int]) -> tuple[Term, ...]:
    # Kinds in their own order; attention's two parts and what is beside it begin with its name.
    named = sorted(weights.items(), key=lambda entry: _place(entry[0]))
    return tuple(Term(name, count, True, count, count, Group.WEIGHTS) for name, count in named)


@cache
def _place(name: str) -> int:
    order = [kind.value for kind in Kind]
    if name in order:
        return order.index(name)
    return next((index for index, kind in enumerate(order) if name.startswith(f"{kind}, ")), len(order))


def _exact(name: str, count: int) -> Term:
    return Term(name, count, True, count, count, Group.LOADING)


def _fitted(name: str, measured: Measured, group: Group) -> Term:
    return Term(name, measured.count, False, measured.low, measured.high, group)
