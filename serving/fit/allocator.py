"""What PyTorch's allocator holds over the sum of the tensors, block by block as vLLM's loader asks for them.

By the source of PyTorch 2.11 (c10/core/AllocatorConfig.h, c10/cuda/CUDACachingAllocator.cpp) and of vLLM 0.26
(v1/worker/gpu_worker.py, which loads with `max_split_size_mb:20`), and by the blocks of a start on H200.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from functools import lru_cache

from serving.checkpoint.model import CheckpointModel
from serving.checkpoint.weights import Kind, Shard, WeightTensor
from serving.fit.layout import Layout, Stage
from serving.fit.sharding import Tile, held_by_stage, held_parts
from serving.units import MIB, round_up

_GRAIN = 512
_SMALL = MIB
"""Tensors up to this share segments that lose nothing but the grain."""
_SHARED_SEGMENT, _OWN_SEGMENT_FROM, _SEGMENT_STEP = 20 * MIB, 10 * MIB, 2 * MIB
_NEVER_SPLIT_FROM = 20 * MIB
# Modules that vLLM loads as one tensor: the word for it by the last part of the module's name.
_FUSED = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj"), "qkv"),
    **dict.fromkeys(("q_a_proj", "kv_a_proj_with_mqa"), "qkv_a"),
    **dict.fromkeys(("gate_proj", "up_proj"), "gate_up"),
}


def allocated_bytes(sizes: Iterable[int]) -> int:
    """What tensors of `sizes` bytes hold when they are asked for in this order and none is given back."""
    free: list[int] = []
    held = 0
    for wanted in sizes:
        size = round_up(wanted, _GRAIN)
        if size <= _SMALL:
            held += size
            continue
        if size >= _NEVER_SPLIT_FROM:
            held += round_up(size, _SEGMENT_STEP)
            continue
        place = bisect_left(free, size)
        if place < len(free):
            block = free.pop(place)
        else:
            block = _SHARED_SEGMENT if size < _OWN_SEGMENT_FROM else round_up(size, _SEGMENT_STEP)
        rest = block - size
        if rest > _SMALL:
            insort(free, rest)
            block = size
        held += block
    return held


@lru_cache(maxsize=512)
def _rounding(sizes: tuple[int, ...]) -> int:
    return allocated_bytes(sizes) - sum(sizes)


def rounding_bytes(model: CheckpointModel, layout: Layout, stage: Stage, tile: Tile) -> int:
    """What rounding adds to the weights that each GPU of `stage` holds."""
    return _rounding(_sizes(model, layout, stage, tile))


def rotary_bytes(model: CheckpointModel, enforce_eager: bool) -> int:
    """The table of the rotary embedding: a row for every position, BF16.

    Latent attention keeps it in FP32 where nothing is compiled: FlashInfer's kernel takes it so.
    """
    first = model.attention[0]
    latent = [t.columns for t in model.tensors if t.module.endswith("self_attn.kv_a_layernorm")]
    width = first.latent_dim - latent[0] if first.latent_dim and latent else first.head_dim
    return model.max_context_tokens * width * (4 if first.latent_dim and enforce_eager else 2)


def _sizes(model: CheckpointModel, layout: Layout, stage: Stage, tile: Tile) -> tuple[int, ...]:
    """Bytes of every tensor on one GPU, in the order of loading."""
    per_layer: dict[int, dict[tuple[str, int], int]] = {layer: {} for layer in range(stage.first, stage.end)}
    first: list[int] = []
    last: list[int] = []
    for tensor in model.tensors:
        if tensor.shard is Shard.NOT_LOADED or not held_by_stage(tensor, layout, stage, model.tied_embedding):
            continue
        parts = held_parts(model, tensor, layout, tile)
        if not tensor.layers or tensor.kind is Kind.VISION:
            (last if stage.ends and tensor.kind is not Kind.EMBEDDING else first).extend(
                parts * max(1, len(tensor.layers))
            )
            continue
        name = _fused_name(tensor)
        for layer in tensor.layers:
            held = per_layer.get(layer)
            if held is not None:
                for index, part in enumerate(parts):
                    held[name, index] = held.get((name, index), 0) + part
    return (*first, *_flat(list(per_layer.values())), *last)


def _flat(layers: Sequence[dict[tuple[str, int], int]]) -> list[int]:
    return [size for held in layers for size in held.values() if size]


def _fused_name(tensor: WeightTensor) -> str:
    path, _, name = tensor.module.rpartition(".")
    return f"{path}.{_FUSED.get(name, name)}"
