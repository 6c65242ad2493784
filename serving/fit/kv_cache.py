"""KV cache as vLLM lays it out: blocks, groups of layers, blocks of one request, tokens and concurrency.

Layers of one kind stand in one group. Where window layers stand between full ones, layers are cut into groups of equal
size that share a pool of blocks: full groups hold the whole length, window groups the window and what is being read.
"""

import math
from dataclasses import dataclass

from serving.accelerators import InstanceShape
from serving.checkpoint.model import AttentionKind, AttentionLayers, CheckpointModel
from serving.fit.layout import Layout, Stage
from serving.fit.limits import EngineLimits

_SPARSE_LATENT_BYTES = 656
"""512 FP8 values, four FP32 scales and 64 BF16 rotary values of one token: `fp8_ds_mla`."""
_INDEXER_SCALE_GROUP = 128
_SCALE_BYTES = 4
_HOPPER, _BLACKWELL = 9.0, 10.0
# vLLM merges uneven counts of full and window layers into groups of the larger count below this ratio.
_UNEVEN_RATIO = 1.25


@dataclass(frozen=True)
class Backend:
    """The attention backend that vLLM takes: its name, the tokens of its KV blocks, and whether only that many."""

    name: str
    block_tokens: int
    fixed_block: bool


def attention_backend(model: CheckpointModel, shape: InstanceShape, limits: EngineLimits) -> Backend:
    """What vLLM chooses on `shape` for the KV dtype of `limits`."""
    kinds = {part.kind for part in model.attention}
    capability = shape.compute_capability
    if AttentionKind.SPARSE_LATENT in kinds:
        return Backend("FLASHMLA_SPARSE", 64, True)
    if AttentionKind.LATENT in kinds:
        if capability >= _BLACKWELL:
            return Backend("FLASHINFER_MLA", 64, False)
        if capability < _HOPPER:
            return Backend("TRITON_MLA", 16, False)
        return Backend("FLASHMLA", 64, True) if limits.kv_cache_dtype == "fp8" else Backend("FLASH_ATTN_MLA", 16, False)
    return Backend("FLASHINFER" if capability >= _BLACKWELL else "FLASH_ATTN", 16, False)


def layer_bytes_per_token(part: AttentionLayers, layout: Layout, limits: EngineLimits) -> int:
    """Bytes that one layer keeps of one token on one GPU."""
    element = 1 if limits.kv_cache_dtype == "fp8" else 2
    match part.kind:
        case AttentionKind.LATENT:
            return part.latent_dim * element
        case AttentionKind.SPARSE_LATENT:
            # vLLM takes its own FP8 layout for `auto` and for `fp8` alike; the indexer's keys are FP8 with one scale.
            indexer = part.indexer_dim + math.ceil(part.indexer_dim / _INDEXER_SCALE_GROUP) * _SCALE_BYTES
            return _SPARSE_LATENT_BYTES + indexer
        case AttentionKind.FULL | AttentionKind.WINDOW:
            return 2 * math.ceil(part.kv_heads / max(1, layout.tensor_parallel)) * part.head_dim * element


@dataclass(frozen=True)
class KvLayout:
    """The KV cache of one stage.

    - `block_tokens`: tokens of one block. `block_bytes`: bytes of one block of the pool, all layers of a group.
    - `full_groups`, `window_groups`: groups of layers that draw from the pool. `window_tokens`: what a window keeps.
    - `context_ranks`: GPUs that share one request's tokens.
    """

    block_tokens: int
    block_bytes: int
    full_groups: int
    window_groups: int
    window_tokens: int
    context_ranks: int

    def blocks(self, kv_bytes: int) -> int:
        """Blocks in `kv_bytes`; one of them vLLM keeps empty."""
        return max(0, kv_bytes // self.block_bytes)

    def request_blocks(self, tokens: int, batched_tokens: int) -> int:
        """Blocks that one request of `tokens` tokens may take."""
        full = math.ceil(math.ceil(tokens / self.context_ranks) / self.block_tokens)
        held = min(self.window_tokens - 1 + 2 * batched_tokens, tokens)
        # A window need not begin where a block does.
        window = math.ceil(held / self.block_tokens) + 1 if self.window_groups else 0
        return self.full_groups * full + self.window_groups * window


def kv_layout(
    model: CheckpointModel, layout: Layout, stage: Stage, shape: InstanceShape, limits: EngineLimits
) -> KvLayout:
    """How the KV cache of `stage` is cut into blocks."""
    tokens = limits.block_size or attention_backend(model, shape, limits).block_tokens
    parts = [(part, _share(part.layers, model.layers, stage.layers)) for part in model.attention]
    draft = layout.draft.layers if layout.draft and stage.ends else 0
    full = [(part, layers) for part, layers in parts if part.kind is not AttentionKind.WINDOW and layers]
    window = [(part, layers) for part, layers in parts if part.kind is AttentionKind.WINDOW and layers]
    full_layers = sum(layers for _, layers in full) + (draft if full else 0)
    window_layers = sum(layers for _, layers in window) + (0 if full else draft)
    # Layers of grouped attention are alike but for their window, so one width holds for all.
    width = layer_bytes_per_token((full or window or [(model.attention[0], 0)])[0][0], layout, limits)
    if full_layers and window_layers:
        fewer, more = sorted((full_layers, window_layers))
        size = more if more < _UNEVEN_RATIO * fewer else fewer
    else:
        size = max(1, full_layers + window_layers)
    return KvLayout(
        block_tokens=max(1, tokens),
        block_bytes=max(1, size * max(1, tokens) * width),
        full_groups=math.ceil(full_layers / size),
        window_groups=math.ceil(window_layers / size),
        window_tokens=max((part.window_tokens for part, _ in window), default=0),
        context_ranks=max(1, layout.decode_context_parallel),
    )


def kv_bytes_per_token(model: CheckpointModel, layout: Layout, limits: EngineLimits) -> int:
    """Bytes that one more token of a long request takes on each GPU of a layout without stages."""
    growing = [part for part in model.attention if part.kind is not AttentionKind.WINDOW]
    draft = layout.draft.layers if layout.draft else 0
    widths = [(layer_bytes_per_token(part, layout, limits), part.layers) for part in growing]
    total = sum(width * layers for width, layers in widths) + (widths[0][0] * draft if widths else 0)
    return math.ceil(total / max(1, layout.decode_context_parallel))


def _share(layers: int, whole: int, stage_layers: int) -> int:
    """How many of `layers` alike, spread over `whole`, a stage of `stage_layers` has at most."""
    return math.ceil(layers * stage_layers / max(1, whole))
