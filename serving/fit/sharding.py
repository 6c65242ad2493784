"""Bytes of weights that one GPU holds, tensor by tensor, as vLLM 0.33 divides them.

Exact where the sizes divide; where they do not, the largest rank counts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from serving.checkpoint.model import AttentionKind, CheckpointModel
from serving.checkpoint.weights import Kind, Shard, WeightTensor
from serving.fit.layout import Layout, Stage
from serving.units import round_up

_VOCABULARY_STEP = 64
WHOLE_ATTENTION = "attention, whole on every GPU"
DIVIDED_ATTENTION = "attention, divided by head"
KV_B_COPY = "attention, BF16 copy of kv_b"
PADDING = "padding for the kernels"


@dataclass(frozen=True)
class Tile:
    """What a kernel for packed experts pads to, each 1 where it does not.

    - `inner`: the experts' inner size on one GPU. `hidden`: the model's width in the experts.
    - `scale_rows`, `scale_columns`: rows of a matrix's scales, and columns of weights that they span.
    - `bias_bytes`: of one bias, 2 for BF16.
    """

    inner: int = 1
    hidden: int = 1
    scale_rows: int = 1
    scale_columns: int = 1
    bias_bytes: int = 2


NO_TILE = Tile()


def rank_weights(model: CheckpointModel, layout: Layout, stage: Stage, tile: Tile = NO_TILE) -> Mapping[str, int]:
    """Bytes by name that each GPU of `stage` holds; names are those of kinds, attention in two, padding by itself."""
    return stage_weights(model, layout, (stage,), tile)[0]


def stage_weights(
    model: CheckpointModel, layout: Layout, stages: Sequence[Stage], tile: Tile = NO_TILE
) -> tuple[Mapping[str, int], ...]:
    """The same for each of `stages`."""
    found: tuple[dict[str, int], ...] = tuple({} for _ in stages)
    for tensor in model.tensors:
        if tensor.shard is Shard.NOT_LOADED:
            continue
        parts = _parts(model, tensor, layout, tile)
        for stage, held in zip(stages, found, strict=True):
            count = _count(model.tied_embedding, tensor, layout, stage)
            for name, each in parts:
                if count and each:
                    held[name] = held.get(name, 0) + count * each
    if layout.draft:
        divided = math.ceil(layout.draft.divided_bytes / max(1, layout.expert_group))
        for stage, held in zip(stages, found, strict=True):
            if stage.ends:
                held[Kind.DRAFT.value] = layout.draft.whole_bytes + divided
    return found


def inner_side(tensor: WeightTensor) -> str:
    """Which side of a routed expert's tensor is the inner one: `rows`, `columns`, or none for a bias of the output."""
    last = tensor.module.rpartition(".")[2]
    down = "down" in tensor.module.rpartition("experts")[2]
    if not down:
        return "rows"
    return "none" if last == "bias" or last.endswith("_bias") else "columns"


def held_parts(model: CheckpointModel, tensor: WeightTensor, layout: Layout, tile: Tile) -> list[int]:
    """Bytes of every tensor on one GPU that one layer's `tensor` becomes: its weights, its scales, its BF16 copy."""
    if tensor.kind is Kind.ROUTED_EXPERTS:
        _, _, *kept = _experts(tensor, layout, tile)
        return kept
    rows, columns = _sides(model, tensor, layout)
    scales = tensor.copies * tensor.storage.scale_bytes_total(rows, columns)
    return [
        _loaded(tensor, rows, columns) - scales,
        scales,
        *(count for name, count in _parts(model, tensor, layout, tile) if name == KV_B_COPY),
    ]


def held_by_stage(tensor: WeightTensor, layout: Layout, stage: Stage, tied_embedding: bool) -> bool:
    """Whether any of `tensor` lies on the GPUs of `stage`."""
    return _count(tied_embedding, tensor, layout, stage) > 0


def _parts(model: CheckpointModel, tensor: WeightTensor, layout: Layout, tile: Tile) -> list[tuple[str, int]]:
    """What one layer's `tensor` becomes on one GPU, by name."""
    if tensor.kind is Kind.ROUTED_EXPERTS:
        weights, scales, kept_weights, kept_scales = _experts(tensor, layout, tile)
        padding = kept_weights + kept_scales - weights - scales
        return [(Kind.ROUTED_EXPERTS.value, weights), (Kind.EXPERT_SCALES.value, scales), (PADDING, padding)]
    parts = [(_name(tensor), _loaded(tensor, *_sides(model, tensor, layout)))]
    if tensor.module.endswith(".kv_b_proj") and tensor.storage.bits < 16 and _latent(model):
        # The latent path needs W_UK and W_UV in BF16; they are views only where the matrix itself is BF16.
        parts.append((KV_B_COPY, 2 * _divided(tensor.rows, layout.tensor_parallel) * tensor.columns))
    return parts


def _count(tied_embedding: bool, tensor: WeightTensor, layout: Layout, stage: Stage) -> int:
    """How many of `tensor` (of each expert, where it is one) the stage has."""
    if tensor.kind is Kind.VISION:
        # Every stage builds the tower.
        return 0 if layout.vision_mode == "none" else max(1, len(tensor.layers))
    if tensor.layers:
        return stage.share(tensor.layers)
    if tensor.kind is Kind.EMBEDDING:
        return int(stage.begins or (tied_embedding and stage.ends))
    return int(stage.ends)


def _sides(model: CheckpointModel, tensor: WeightTensor, layout: Layout) -> tuple[int, int]:
    """Rows and columns that one GPU holds of a tensor that is no routed expert."""
    t = layout.tensor_parallel
    rows, columns = tensor.rows, tensor.columns
    if tensor.kind is Kind.VISION and layout.vision_mode == "data":
        return rows, columns
    if tensor.kind is Kind.SHARED_EXPERTS and layout.sequence_parallel_experts:
        return rows, columns
    match tensor.shard:
        case Shard.COLUMN:
            # A vector with an entry for each head has one row.
            return (rows, _divided(columns, t)) if rows == 1 else (_divided(rows, t), columns)
        case Shard.ROW:
            return rows, _divided(columns, t)
        case Shard.KV_HEADS:
            return _divided(rows, min(t, model.attention[0].kv_heads)), columns
        case Shard.VOCABULARY:
            return _divided(round_up(rows, _VOCABULARY_STEP), t), columns
        case _:
            return rows, columns


def _experts(tensor: WeightTensor, layout: Layout, tile: Tile) -> tuple[int, int, int, int]:
    """All experts of one layer, in bytes on one GPU: weights and scales, and both again as the kernel keeps them."""
    group = layout.expert_group
    copies, inner_group = (_divided(tensor.copies, group), 1) if layout.expert_parallel else (tensor.copies, group)
    rows, columns = tensor.rows, tensor.columns
    side = inner_side(tensor)
    storage = tensor.storage
    if side == "rows":
        rows = _divided(rows, inner_group)
    elif side == "columns":
        columns = _divided(columns, inner_group)
    weights = copies * storage.weight_bytes(rows, columns)
    scales = copies * storage.scale_bytes_total(rows, columns)
    if not tensor.quantised:
        # Biases beside packed experts; the kernel may keep them wider.
        bias = tensor.columns == 1 and tile.bias_bytes * 8 > storage.bits
        widened = tile.bias_bytes * 8 // storage.bits if bias else 1
        return weights, scales, weights * widened, scales
    halves = 2 if "gate_up" in tensor.module else 1
    if side == "rows":
        rows, columns = halves * round_up(rows / halves, tile.inner), round_up(columns, tile.hidden)
    else:
        rows, columns = round_up(rows, tile.hidden), round_up(columns, tile.inner)
    kept = storage.scale_bytes_total(round_up(rows, tile.scale_rows), round_up(columns, tile.scale_columns))
    return weights, scales, copies * storage.weight_bytes(rows, columns), copies * kept


def _loaded(tensor: WeightTensor, rows: int, columns: int) -> int:
    """Bytes of one matrix that stay on the GPU; what lies beside it in the file does not."""
    storage = tensor.storage
    return tensor.copies * (storage.weight_bytes(rows, columns) + storage.scale_bytes_total(rows, columns))


def _name(tensor: WeightTensor) -> str:
    if tensor.kind is not Kind.ATTENTION:
        return tensor.kind.value
    return WHOLE_ATTENTION if tensor.shard is Shard.REPLICATED else DIVIDED_ATTENTION


def _divided(count: int, parts: int) -> int:
    return math.ceil(count / max(1, parts))


def _latent(model: CheckpointModel) -> bool:
    return any(part.kind in (AttentionKind.LATENT, AttentionKind.SPARSE_LATENT) for part in model.attention)
