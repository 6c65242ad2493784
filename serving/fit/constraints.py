"""Why a layout cannot run: sizes that do not divide, kernels that do not exist, settings that contradict each other."""

from collections.abc import Iterator

from serving.accelerators import InstanceShape
from serving.checkpoint.model import AttentionKind, CheckpointModel
from serving.checkpoint.weights import Kind, Shard, WeightTensor
from serving.fit.kv_cache import attention_backend
from serving.fit.layout import Layout
from serving.fit.limits import EngineLimits
from serving.fit.sharding import inner_side
from serving.units import round_up

_MOST_NODES = 4
_BF16_CAPABILITY = 8.0
_FP8_CAPABILITY = 8.9
_HOPPER = 9.0
_VOCABULARY_STEP = 64
_LATENT = (AttentionKind.LATENT, AttentionKind.SPARSE_LATENT)


def layout_faults(
    model: CheckpointModel, layout: Layout, shape: InstanceShape, limits: EngineLimits
) -> tuple[str, ...]:
    """Every reason in words why `layout` cannot run `model` on machines of `shape`; empty where it can."""
    sizes = tuple(_size_faults(layout, limits))
    if sizes:
        return sizes
    return tuple(
        dict.fromkeys(
            (
                *_machine_faults(layout, shape),
                *_attention_faults(model, layout),
                *_matrix_faults(model, layout),
                *_expert_faults(model, layout),
                *_kernel_faults(model, shape, limits),
                *_limit_faults(model, limits),
            )
        )
    )


def _size_faults(layout: Layout, limits: EngineLimits) -> Iterator[str]:
    for name in (
        "tensor_parallel",
        "pipeline_parallel",
        "data_parallel",
        "decode_context_parallel",
        "nodes",
    ):
        value = int(getattr(layout, name))
        if value < 1:
            yield f"{name.replace('_', ' ')} is {value}, and must be 1 or more"
    for name in ("context_tokens", "max_sequences", "max_batched_tokens"):
        value = int(getattr(limits, name))
        if value < 1:
            yield f"{name.replace('_', ' ')} is {value:,}, and must be 1 or more"
    if not 0 < limits.gpu_memory_utilization <= 1:
        yield f"GPU memory utilisation is {limits.gpu_memory_utilization:g}, and must lie above 0 and not above 1"


def _machine_faults(layout: Layout, shape: InstanceShape) -> Iterator[str]:
    if layout.nodes > _MOST_NODES:
        yield f"{layout.nodes} machines are more than the {_MOST_NODES} that are planned for"
    there = shape.gpus * layout.nodes
    if layout.gpus > there:
        machines = f"{layout.nodes} × {shape.name}" if layout.nodes > 1 else shape.name
        yield f"the layout takes {layout.gpus} GPUs and {machines} has {there}"


def _attention_faults(model: CheckpointModel, layout: Layout) -> Iterator[str]:
    t, context = layout.tensor_parallel, layout.decode_context_parallel
    if model.heads % t:
        yield f"tensor parallel {t} does not divide the {model.heads} attention heads; {_divisors(model.heads)} do"
    if layout.pipeline_parallel > model.layers:
        yield f"pipeline parallel {layout.pipeline_parallel} is more than the model's {model.layers} layers"
    if t % context:
        yield f"decode context parallel {context} does not divide tensor parallel {t}"
    for part in model.attention:
        if part.kind in _LATENT:
            continue
        large, small = max(t, part.kv_heads), min(t, part.kv_heads)
        if large % small:
            yield f"tensor parallel {t} and the {part.kv_heads} KV heads do not divide each other"
        elif context > 1:
            copies = max(1, t // part.kv_heads)
            if part.kind is AttentionKind.WINDOW:
                yield "decode context parallel does not work with sliding-window layers"
            elif copies % context:
                yield (
                    f"decode context parallel {context} needs as many copies of each KV head, and tensor parallel {t}"
                    f" makes {copies} of the {part.kv_heads}"
                )


def _matrix_faults(model: CheckpointModel, layout: Layout) -> Iterator[str]:
    t = layout.tensor_parallel
    padded = round_up(model.vocabulary, _VOCABULARY_STEP)
    if padded % t:
        yield f"tensor parallel {t} does not divide the vocabulary, padded to {padded:,}"
    for tensor in model.tensors:
        if tensor.kind is Kind.VISION and layout.vision_mode != "weights":
            continue
        if tensor.kind is Kind.SHARED_EXPERTS and layout.sequence_parallel_experts:
            continue
        if tensor.kind is Kind.ATTENTION or tensor.shard not in (Shard.COLUMN, Shard.ROW):
            continue
        side = tensor.rows if tensor.shard is Shard.COLUMN else tensor.columns
        if side % t:
            yield f"tensor parallel {t} does not divide the {side:,} of the {tensor.kind.value}"
            continue
        yield from _scale_faults(tensor, side // t, tensor.shard is Shard.COLUMN, f"tensor parallel {t}")


def _expert_faults(model: CheckpointModel, layout: Layout) -> Iterator[str]:
    group = layout.expert_group
    if not model.experts:
        if layout.expert_parallel:
            yield "expert parallel needs a model with experts, and this one has none"
        return
    if layout.expert_parallel:
        if group > model.experts:
            yield f"{group} GPUs share {model.experts} experts, so that some would have none"
        return
    way = f"tensor parallel {layout.tensor_parallel}"
    if layout.data_parallel > 1:
        way += f" × data parallel {layout.data_parallel}"
    for tensor in model.tensors:
        if tensor.kind is not Kind.ROUTED_EXPERTS or tensor.storage.scheme.startswith("mxfp4"):
            # MXFP4 kernels pad an uneven slice.
            continue
        side = inner_side(tensor)
        length = {"rows": tensor.rows, "columns": tensor.columns}.get(side, 0)
        if length % group:
            yield f"{way} does not divide the experts' inner size {length:,}; whole experts (expert parallel) would do"
        elif length:
            yield from _scale_faults(tensor, length // group, side == "rows", way)


def _scale_faults(tensor: WeightTensor, side: int, rows: bool, way: str) -> Iterator[str]:
    """Where a slice would cut through a group of weights that share one scale."""
    storage = tensor.storage
    whole = tensor.rows if rows else tensor.columns
    group = storage.group_rows if rows else storage.group_columns
    # One scale for a whole matrix or row is not cut, it is copied.
    if group > 1 and group < whole and side % group:
        yield (
            f"{way} leaves {side:,} of the {tensor.kind.value}' inner size on a GPU, which is no multiple of the"
            f" {group} weights that share a scale ({storage.scheme})"
        )


def _kernel_faults(model: CheckpointModel, shape: InstanceShape, limits: EngineLimits) -> Iterator[str]:
    capability = shape.compute_capability
    kinds = {part.kind for part in model.attention}
    if capability < _BF16_CAPABILITY:
        yield f"{shape.gpu} has compute capability {capability}, and BF16 needs {_BF16_CAPABILITY} or more"
    if AttentionKind.SPARSE_LATENT in kinds and capability < _HOPPER:
        yield (
            f"sparse latent attention has kernels from compute capability {_HOPPER} on, and {shape.gpu} has {capability}"
        )
    if limits.kv_cache_dtype == "fp8" and capability < _FP8_CAPABILITY:
        yield (
            f"an fp8 KV cache needs compute capability {_FP8_CAPABILITY} or more, and {shape.gpu} has {capability};"
            " kvCacheDtype auto works"
        )
    if limits.block_size is not None:
        backend = attention_backend(model, shape, limits)
        right = limits.block_size > 0 and limits.block_size % backend.block_tokens == 0
        if backend.fixed_block and limits.block_size != backend.block_tokens:
            yield f"{backend.name} takes KV blocks of {backend.block_tokens} tokens only, not {limits.block_size}"
        elif not right:
            yield f"{backend.name} takes KV blocks of a multiple of {backend.block_tokens}, not {limits.block_size}"


def _limit_faults(model: CheckpointModel, limits: EngineLimits) -> Iterator[str]:
    if limits.context_tokens > model.max_context_tokens:
        yield (
            f"a context of {limits.context_tokens:,} tokens is more than the {model.max_context_tokens:,} that"
            f" {model.name} was made for"
        )
    if limits.max_batched_tokens < limits.max_sequences:
        yield (
            f"{limits.max_batched_tokens:,} tokens a step are fewer than the {limits.max_sequences:,} sequences that"
            " may run at once, and each needs one"
        )


def _divisors(count: int) -> str:
    return ", ".join(str(size) for size in range(1, min(count, 64) + 1) if count % size == 0)
