"""The plan beside what was measured, term by term, with the error."""

from dataclasses import dataclass

from serving.fit.kv_cache import kv_bytes_per_token
from serving.fit.limits import EngineLimits
from serving.fit.plan import FitPlan
from serving.fit.terms import Group
from serving.measurements import Measured, Start
from serving.units import GIB

WEIGHTS_BOUND, TOKENS_BOUND = 0.001, 0.003
"""The promise: weights within 0.1 %, KV tokens within 0.3 %."""


@dataclass(frozen=True)
class Comparison:
    """One term: planned and measured in `unit`, the plan's bounds, and whether the promise holds (None: none is made).

    - `measured`: None where the engine does not print it.
    """

    name: str
    unit: str
    planned: float
    low: float
    high: float
    measured: float | None
    kept: bool | None = None

    @property
    def error(self) -> float | None:
        """Planned over measured, less one; None where there is nothing to divide by."""
        return self.planned / self.measured - 1 if self.measured else None

    @property
    def inside(self) -> bool | None:
        """Whether the measured figure lies in the plan's bounds, as far as two printed decimals tell."""
        if self.measured is None:
            return None
        slack = 0.005 if self.unit == "GiB" else 0
        return self.low - slack <= self.measured <= self.high + slack


def compare(plan: FitPlan, measured: Measured) -> tuple[Comparison, ...]:
    """Every term of `plan` that an engine's log or the driver tells."""
    rank = plan.tightest
    low, high = plan.kv_cache_tokens_bounds
    copies = plan.layout.data_parallel
    weights = plan.loaded_bytes / GIB
    loading = [term for term in rank.budget_terms if term.group is Group.LOADING]
    graphs = [_bounds(plan, Group.CUDA_GRAPHS), _uncounted(plan)]
    kv_low, kv_high = rank.kv_bytes_bounds
    peak = plan.peak_used
    tokens = measured.kv_tokens
    rows = [
        Comparison(
            "weights as loaded", "GiB", weights,
            weights - sum(t.count - t.low for t in loading) / GIB, weights + sum(t.high - t.count for t in loading) / GIB,
            measured.weights_gib, _within(weights, measured.weights_gib, WEIGHTS_BOUND),
        ),
        _gib("activation peak", _bounds(plan, Group.ACTIVATION), measured.activation_gib),
        _gib("CUDA graphs, estimated", _bounds(plan, Group.CUDA_GRAPHS), measured.graphs_estimated_gib),
        _gib("CUDA graphs, in memory", _sum(graphs), measured.graphs_actual_gib),
        _gib("non-torch", _bounds(plan, Group.NON_TORCH), measured.non_torch_gib),
        _gib("KV cache", (rank.kv_bytes, kv_low, kv_high), measured.kv_cache_gib),
        Comparison(
            "KV cache", "tokens", plan.kv_cache_tokens // copies, low // copies, high // copies, tokens,
            _within(plan.kv_cache_tokens // copies, tokens, TOKENS_BOUND),
        ),
        _gib("in use after prompts", (peak.count, peak.low, peak.high), measured.used_peak_gib),
    ]  # fmt: skip
    return tuple(rows)


def compare_cache(start: Start, limits: EngineLimits) -> tuple[Comparison, ...]:
    """Without GPUs: the tokens of the KV cache that the engine was given; nothing else has a plan there."""
    gib, tokens = start.measured.kv_cache_gib, start.measured.kv_tokens
    if not gib or tokens is None:
        return ()
    width = kv_bytes_per_token(start.checkpoint, start.run_layout, limits)
    planned = gib * GIB / width
    # The log prints the cache with two decimals, and a block may hold 128 tokens.
    low, high = (gib - 0.005) * GIB / width - 256, (gib + 0.005) * GIB / width + 256
    return (
        Comparison("KV cache", "tokens", planned, low, high, tokens, _within(planned, tokens, TOKENS_BOUND)),
    )  # fmt: skip


def _within(planned: float, measured: float | None, bound: float) -> bool | None:
    return None if not measured else abs(planned / measured - 1) <= bound


def _gib(name: str, bounds: tuple[float, float, float], measured: float | None) -> Comparison:
    count, low, high = (bound / GIB for bound in bounds)
    return Comparison(name, "GiB", count, low, high, measured)


def _bounds(plan: FitPlan, group: Group) -> tuple[int, int, int]:
    found = [term for term in plan.tightest.budget_terms if term.group is group]
    return sum(t.count for t in found), sum(t.low for t in found), sum(t.high for t in found)


def _uncounted(plan: FitPlan) -> tuple[int, int, int]:
    found = [term for term in plan.tightest.outside_terms if term.name.startswith("CUDA graphs")]
    return sum(t.count for t in found), sum(t.low for t in found), sum(t.high for t in found)


def _sum(parts: list[tuple[int, int, int]]) -> tuple[int, int, int]:
    counts, lows, highs = zip(*parts, strict=True)
    return sum(counts), min(sum(counts), sum(lows)), sum(highs)
