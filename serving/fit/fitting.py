"""The planner's fitted coefficients out of measured starts: each law is linear in its coefficient, so the least squares
of what the starts imply is their mean.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from serving.checkpoint.model import CheckpointModel, Family
from serving.fit.overheads import LAYER_KINDS, Overheads, capture_sizes, layer_kind, overheads
from serving.measurements import Start
from serving.units import GIB

FITTED = (
    "loading.latent.gib",
    "activation.own_experts",
    "activation.base_dense_gib",
    "activation.sampler_bytes_per_logit",
    "activation.eager",
    "cuda_graphs.estimated_gib_per_layer",
    "cuda_graphs.estimated_bf16_gib_per_layer",
    "cuda_graphs.actual_experts_gib_per_layer",
    "cuda_graphs.actual_experts_bf16_gib_per_layer",
    "cuda_graphs.actual_dense_normed_gib_per_layer",
    "cuda_graphs.actual_dense_gib_per_layer",
    "cuda_graphs.tensor_parallel_estimated",
    "cuda_graphs.nccl_estimated_gib_per_layer",
    "non_torch.one_gpu_gib",
    "non_torch.tensor_parallel_gib",
)
"""Every coefficient that the starts tell, by its path in the data file; the others rest on sources named there."""
_LATENT = (Family.MLA_MOE, Family.SPARSE_MLA_MOE)


def fitted_overheads(starts: Sequence[Start]) -> Overheads:
    """The laws with every coefficient that `starts` tell fitted to them alone; the rest as the data file has it."""
    values: dict[str, dict[str, Any]] = {key: dict(table) for key, table in overheads().values.items()}
    activation, graphs = values["activation"], values["cuda_graphs"]
    compiled = [start for start in starts if not start.limits.enforce_eager]

    latent = dict(values["loading"]["latent"])
    latent["gib"] = _mean(map(_loading_gib, _of(starts, _is_latent)), latent["gib"])
    values["loading"]["latent"] = latent

    def per_token(start: Start) -> float:
        gib = (start.measured.activation_gib or 0) - activation["base_gib"]
        return gib * GIB / start.limits.max_batched_tokens / 2

    def own_experts(start: Start) -> float:
        model = start.checkpoint
        return per_token(start) / model.hidden - activation["routed"] * model.experts_per_token

    def base_dense(start: Start) -> float:
        model = start.checkpoint
        width = activation["own_dense"] * model.hidden + 3 * _dense_inner(model)
        return (start.measured.activation_gib or 0) - start.limits.max_batched_tokens * 2 * width / GIB

    def sampler(start: Start) -> float:
        gib = (start.measured.activation_gib or 0) - activation["base_gib"]
        return gib * GIB / (start.limits.max_sequences * start.checkpoint.vocabulary)

    activation["own_experts"] = _mean(map(own_experts, _of(compiled, _is_latent)), activation["own_experts"])
    dense = _of(compiled, lambda m: not m.experts)
    activation["base_dense_gib"] = _mean(map(base_dense, dense), activation["base_dense_gib"])
    activation["sampler_bytes_per_logit"] = _mean(
        map(sampler, _of(compiled, lambda m: m.family is Family.WINDOW_MOE)), activation["sampler_bytes_per_logit"]
    )
    eager = [start for start in starts if start.limits.enforce_eager and _is_latent(start.checkpoint)]
    activation["eager"] = _mean((_eager_share(start, activation) for start in eager), activation["eager"])

    counted = [start for start in compiled if start.measured.graphs_estimated_gib]
    each = {id(start): _graphs_per_layer(start, graphs["sizes"]) for start in counted}
    for kind, key in (("experts", "estimated_gib_per_layer"), ("experts_bf16", "estimated_bf16_gib_per_layer")):
        alike = [one for one in counted if one.gpus == 1 and layer_kind(one.checkpoint) == kind]
        graphs[key] = _mean((each[id(one)] for one in alike), graphs[key])
    for kind in LAYER_KINDS:
        key = f"actual_{kind}_gib_per_layer"
        alike = [one for one in compiled if one.gpus == 1 and layer_kind(one.checkpoint) == kind]
        graphs[key] = _mean((_graphs_per_layer(one, graphs["sizes"], actual=True) for one in alike), graphs[key])
    own = graphs["estimated_gib_per_layer"]
    shared = [start for start in counted if start.gpus > 1]
    custom = [each[id(start)] / own for start in shared if start.limits.custom_all_reduce]
    graphs["tensor_parallel_estimated"] = _mean(custom, graphs["tensor_parallel_estimated"])
    plain = own * graphs["tensor_parallel_estimated"]
    nccl = [each[id(start)] - plain for start in shared if not start.limits.custom_all_reduce]
    graphs["nccl_estimated_gib_per_layer"] = _mean(nccl, graphs["nccl_estimated_gib_per_layer"])

    rest = values["non_torch"]
    rest["one_gpu_gib"] = _mean((_rest(start) for start in starts if start.gpus == 1), rest["one_gpu_gib"])
    rest["tensor_parallel_gib"] = _mean(
        (_rest(start) for start in starts if start.gpus > 1), rest["tensor_parallel_gib"]
    )
    return Overheads(values, overheads().tiles)


def coefficient(laws: Overheads, path: str) -> float:
    """The one at `path`, such as `loading.latent.gib`."""
    value: Any = laws.values
    for name in path.split("."):
        value = value[name]
    return float(value)


def told_by_others(start: Start, others: Iterable[Start]) -> bool:
    """Whether `others` hold a start of the same family and the same kind of communication, so that a law fitted to them
    can know of `start`.
    """
    kind = _kind(start)
    return any(_kind(one) == kind for one in others)


def _kind(start: Start) -> tuple[object, ...]:
    return start.checkpoint.family, start.gpus > 1, start.limits.custom_all_reduce, start.limits.enforce_eager


def _mean(values: Iterable[float], otherwise: float) -> float:
    found = list(values)
    return fmean(found) if found else otherwise


def _of(starts: Iterable[Start], wanted: Callable[[CheckpointModel], bool]) -> list[Start]:
    return [start for start in starts if wanted(start.checkpoint)]


def _is_latent(model: CheckpointModel) -> bool:
    return model.family in _LATENT


def _loading_gib(start: Start) -> float:
    exact = sum(term.count for term in start.plan().tightest.budget_terms if term.exact)
    return (start.measured.weights_gib or 0) - exact / GIB


def _eager_share(start: Start, activation: Mapping[str, Any]) -> float:
    model = start.checkpoint
    own = activation["own_experts"] + activation["routed"] * model.experts_per_token
    compiled = activation["base_gib"] + start.limits.max_batched_tokens * 2 * own * model.hidden / GIB
    return (start.measured.activation_gib or 0) / compiled


def _graphs_per_layer(start: Start, sizes: int, *, actual: bool = False) -> float:
    share = capture_sizes(start.limits.max_sequences) / sizes
    found = start.measured.graphs_actual_gib if actual else start.measured.graphs_estimated_gib
    return (found or 0) / start.checkpoint.layers / share


def _rest(start: Start) -> float:
    return start.measured.non_torch_gib or 0


def _dense_inner(model: CheckpointModel) -> int:
    return max((tensor.rows for tensor in model.tensors if tensor.module.endswith("mlp.gate_proj")), default=0)
