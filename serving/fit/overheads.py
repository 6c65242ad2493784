"""What a GPU holds beside weights and KV cache: laws with coefficients that were fitted to measured starts.

Every figure here comes with a lower and an upper bound; `serving/data/overheads.toml` says what it was fitted to.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, cast

from serving.accelerators import InstanceShape
from serving.checkpoint.model import CheckpointModel, Family
from serving.checkpoint.weights import Kind
from serving.fit.layout import Layout, Stage
from serving.fit.limits import EngineLimits
from serving.fit.sharding import Tile
from serving.units import GIB

_LATENT = (Family.MLA_MOE, Family.SPARSE_MLA_MOE)
_MEASURED = (Family.MLA_MOE, Family.GQA_DENSE, Family.WINDOW_MOE)
_ELEMENT_BYTES = 2
LAYER_KINDS = ("experts", "experts_bf16", "dense_normed", "dense")
"""Kinds of layers whose CUDA graphs were measured apart."""
# GPUs without NVLink: vLLM's own all-reduce takes more than two of them only where all are linked.
_WITHOUT_NVLINK = ("L40S", "L4", "RTX-4090")
_MOST_CUSTOM_ALL_REDUCE = 8
_TILE_KEYS = ("inner", "hidden", "scale_rows", "scale_columns", "bias_bytes")


@dataclass(frozen=True)
class Measured:
    """Bytes on one GPU that were fitted, not computed: the likeliest figure and its bounds."""

    count: int
    low: int
    high: int


def _from_gib(gib: float, low: float, high: float) -> Measured:
    return Measured(int(gib * GIB), int(low * GIB), int(high * GIB))


NOTHING = Measured(0, 0, 0)


@dataclass(frozen=True)
class Overheads:
    """The coefficients, by section of the data file."""

    values: Mapping[str, Mapping[str, Any]] = field(hash=False)
    tiles: tuple[Mapping[str, Any], ...] = field(hash=False)

    def loading(self, model: CheckpointModel) -> Measured:
        """What loading leaves beside the weights, their rounding and the rotary table."""
        kind = "latent" if model.family in _LATENT else "experts" if model.experts else "dense"
        row = self.values["loading"][kind]
        return _from_gib(row["gib"], row["low_gib"], row["high_gib"])

    def activation(self, model: CheckpointModel, layout: Layout, limits: EngineLimits) -> Measured:
        """The peak of one step of `max_batched_tokens`, or of sampling for `max_sequences` where that is larger."""
        row = self.values["activation"]
        hidden = model.hidden
        base = row["base_gib" if model.experts else "base_dense_gib"]
        if model.experts:
            share = row["bf16_experts"] if layer_kind(model) == "experts_bf16" else 1.0
            own = share * row["own_experts"] * hidden
            routed = share * row["routed"] * model.experts_per_token * hidden * layout.data_parallel
        else:
            own = row["own_dense"] * hidden + 3 * _dense_inner(model) / max(1, layout.tensor_parallel)
            routed = 0.0
        step = limits.max_batched_tokens * _ELEMENT_BYTES * (own + routed) / GIB
        sampling = limits.max_sequences * model.vocabulary * row["sampler_bytes_per_logit"] / GIB
        gib = base + max(step, sampling)
        if limits.enforce_eager:
            gib *= row["eager"]
        band = "data_parallel" if layout.data_parallel > 1 else "measured" if model.family in _MEASURED else "other"
        return _from_gib(gib, gib * row[f"{band}_low"], gib * row[f"{band}_high"])

    def graphs_estimated(
        self, model: CheckpointModel, layout: Layout, stage: Stage, shape: InstanceShape, limits: EngineLimits
    ) -> Measured:
        """CUDA graphs as vLLM estimates them and takes them off the KV cache."""
        return self._graphs("estimated", model, layout, stage, shape, limits) if model.experts else NOTHING

    def graphs_actual(
        self, model: CheckpointModel, layout: Layout, stage: Stage, shape: InstanceShape, limits: EngineLimits
    ) -> Measured:
        """CUDA graphs as they come to lie in memory."""
        return self._graphs("actual", model, layout, stage, shape, limits)

    def _graphs(
        self,
        which: str,
        model: CheckpointModel,
        layout: Layout,
        stage: Stage,
        shape: InstanceShape,
        limits: EngineLimits,
    ) -> Measured:
        if limits.enforce_eager:
            return NOTHING
        row = self.values["cuda_graphs"]
        kind = layer_kind(model)
        estimated = "estimated_bf16_gib_per_layer" if kind == "experts_bf16" else "estimated_gib_per_layer"
        each = row[estimated if which == "estimated" else f"actual_{kind}_gib_per_layer"]
        if layout.tensor_parallel > 1:
            each *= row[f"tensor_parallel_{which}"]
            if not _custom_all_reduce(layout, shape, limits):
                each += row[f"nccl_{which}_gib_per_layer"]
        share = capture_sizes(limits.max_sequences) / row["sizes"]
        gib = each * stage.layers * share
        most = gib * row["high"]
        if share < 1:
            most = max(most, min(each, row["few_sizes_high_gib_per_layer"]) * stage.layers)
        return _from_gib(gib, gib * row["low"], most)

    def non_torch(self, layout: Layout) -> Measured:
        """What libraries allocate inside the budget."""
        row = self.values["non_torch"]
        gib = row["tensor_parallel_gib" if layout.gpus > 1 else "one_gpu_gib"]
        return _from_gib(gib, row["low_gib"], row["high_gib"])

    def communication(self, model: CheckpointModel, layout: Layout) -> Measured:
        """Buffers of NCCL and custom all-reduce, taken before the budget starts."""
        if layout.gpus == 1:
            return NOTHING
        row = self.values["outside"]
        groups = [layout.pipeline_parallel > 1, layout.decode_context_parallel > 1, layout.data_parallel > 1]
        # Models with experts open an expert group over the same GPUs whether or not experts stay whole.
        gib = row["tensor_parallel_gib"] + row["group_gib"] * (sum(groups) + bool(model.experts))
        return _from_gib(gib, gib * 0.9, gib * row["communication_high"])

    def context(self) -> Measured:
        """The CUDA context, taken before the budget starts."""
        gib = self.values["outside"]["context_gib"]
        return _from_gib(gib, gib, gib)

    def growth(self, activation: Measured) -> Measured:
        """What the first large prompts add."""
        row = self.values["outside"]
        return Measured(int(activation.count * row["growth"]), 0, int(activation.count * row["growth_high"]))

    def tile(self, model: CheckpointModel, shape: InstanceShape) -> Tile:
        """What the kernel for packed experts pads to on `shape`."""
        row = self._tile_row(model, shape)
        return Tile(**{key: row[key] for key in _TILE_KEYS if key in row})

    def experts_backend(self, model: CheckpointModel, shape: InstanceShape) -> tuple[str, str]:
        """The kernel that vLLM takes for packed experts on `shape`, and the one that may be asked for instead.

        Empty where the experts are not packed, and where there is no other.
        """
        row = self._tile_row(model, shape)
        return row.get("backend", ""), row.get("otherwise", "")

    def _tile_row(self, model: CheckpointModel, shape: InstanceShape) -> Mapping[str, Any]:
        scheme = _packed_scheme(model)
        for row in self.tiles:
            if scheme and scheme.startswith(row["scheme"]) and shape.compute_capability >= row["capability"]:
                return row
        return {}


@cache
def capture_sizes(max_sequences: int) -> int:
    """How many batch sizes vLLM captures: 1, 2, 4, then steps of 8 to 256, then of 16, up to twice the sequences."""
    most = min(2 * max_sequences, 512)
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, most + 1, 16)]
    return sum(size <= most for size in sizes)


def layer_kind(model: CheckpointModel) -> str:
    """What the graphs of a layer go by: experts, packed or in BF16; dense, with queries and keys normed or not."""
    if model.experts:
        return "experts_bf16" if model.quantisation == "none" else "experts"
    return "dense_normed" if any(tensor.module.endswith(".q_norm") for tensor in model.tensors) else "dense"


def _custom_all_reduce(layout: Layout, shape: InstanceShape, limits: EngineLimits) -> bool:
    t = layout.tensor_parallel
    linked = t <= 2 or shape.gpu not in _WITHOUT_NVLINK
    return limits.custom_all_reduce and t <= min(_MOST_CUSTOM_ALL_REDUCE, shape.gpus) and linked


def _dense_inner(model: CheckpointModel) -> int:
    return max(
        (t.rows for t in model.tensors if t.kind is Kind.DENSE_MLP and t.module.endswith("gate_proj")), default=0
    )


def _packed_scheme(model: CheckpointModel) -> str:
    return next((t.storage.scheme for t in model.tensors if t.kind is Kind.ROUTED_EXPERTS and t.quantised), "")


@cache
def overheads() -> Overheads:
    """The coefficients of the data file."""
    text = (resources.files("serving") / "data" / "overheads.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    tables = {key: cast("Mapping[str, Any]", value) for key, value in document.items() if isinstance(value, dict)}
    return Overheads(tables, tuple(document["tile"]))
