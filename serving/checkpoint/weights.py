"""The words for weights: what a tensor is for, how it is stored, and how an engine divides it among GPUs."""

import math
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a tensor is for; the value is the word that people read in a plan."""

    ROUTED_EXPERTS = "routed experts"
    EXPERT_SCALES = "routed experts, scales"
    SHARED_EXPERTS = "shared experts"
    ROUTER = "router"
    DENSE_MLP = "dense layers"
    ATTENTION = "attention"
    INDEXER = "sparse-attention indexer"
    EMBEDDING = "embedding"
    OUTPUT_HEAD = "output head"
    NORMS = "norms"
    VISION = "vision tower"
    DRAFT = "draft model"


class Shard(StrEnum):
    """How tensor parallel of size t divides a tensor."""

    REPLICATED = "whole on every GPU"
    COLUMN = "rows divided by t"
    """The output side is divided: q_b, gate and up projections, heads."""
    ROW = "columns divided by t"
    """The input side is divided: o and down projections."""
    KV_HEADS = "rows divided by t, never below one KV head"
    """Key and value projections of grouped-query attention: beyond the number of KV heads they are copied."""
    VOCABULARY = "rows divided by t, padded to 64 a GPU"
    EXPERT = "experts or their inner side divided"
    """Whole experts with expert parallel; else the inner side over tensor and data parallel together."""
    NOT_LOADED = "read and not kept on a GPU"


@dataclass(frozen=True)
class Storage:
    """How one matrix lies on disk and on the GPU.

    - `bits`: bits of one weight (16 for BF16, 32 for FP32, 8 for FP8, 4 for INT4 and MXFP4).
    - `group_rows`, `group_columns`: the block of weights that shares one scale; 0 where there are no scales.
    - `scale_bytes`: bytes of one scale. `zero_point_bits`: bits of one zero point a group, 0 for symmetric.
    - `extra_bytes`: bytes beside, once a matrix, such as a stored shape (read and not kept).
    - `scheme`: the word for people: `bf16`, `fp8 block 128×128`, `int4 group 32`, `mxfp4`, `awq int4 group 128`…
    """

    scheme: str
    bits: int
    group_rows: int = 0
    group_columns: int = 0
    scale_bytes: int = 0
    zero_point_bits: int = 0
    extra_bytes: int = 0

    def weight_bytes(self, rows: int, columns: int) -> int:
        """Bytes of the weights alone."""
        return math.ceil(rows * columns * self.bits / 8)

    def scales(self, rows: int, columns: int) -> int:
        """How many scales a matrix has."""
        if not self.group_columns:
            return 0
        return math.ceil(rows / max(1, self.group_rows)) * math.ceil(columns / self.group_columns)

    def scale_bytes_total(self, rows: int, columns: int) -> int:
        """Bytes of scales and zero points."""
        count = self.scales(rows, columns)
        return count * self.scale_bytes + math.ceil(count * self.zero_point_bits / 8)

    def total_bytes(self, rows: int, columns: int) -> int:
        """Everything that one matrix takes on disk."""
        return self.weight_bytes(rows, columns) + self.scale_bytes_total(rows, columns) + self.extra_bytes


BF16 = Storage("bf16", 16)
FP32 = Storage("fp32", 32)


@dataclass(frozen=True)
class WeightTensor:
    """One tensor of a model, or `copies` alike in each of `layers`.

    - `module`: the module's path with `{layer}` and `{expert}` where they vary, as quantisation configs match it.
    - `layers`: the layers that have it; empty outside the layers.
    - `copies`: alike in one layer (routed experts), else 1.
    - `rows` × `columns`: output × input features; a vector has one row.
    - `quantised`: whether the checkpoint's quantisation covers it.
    """

    module: str
    kind: Kind
    shard: Shard
    rows: int
    columns: int
    storage: Storage
    layers: tuple[int, ...] = ()
    copies: int = 1
    quantised: bool = False

    @property
    def count(self) -> int:
        """How many of it the model has."""
        return max(1, len(self.layers)) * self.copies

    @property
    def total_bytes(self) -> int:
        """Bytes of all of them on disk."""
        return self.count * self.storage.total_bytes(self.rows, self.columns)

    @property
    def parameters(self) -> int:
        """Logical parameters of all of them."""
        return self.count * self.rows * self.columns
