"""Does it fit? GPU memory of one replica, exact for weights and KV cache, measured for the rest.

Sharding rules (vLLM 0.33, `model_executor/models/deepseek_v2.py` and `layers/fused_moe`), tensor parallel of size t:
q_a, kv_a, router and norms are whole on every GPU; q_b, kv_b, o, dense and shared experts, routed experts, embedding
and head are divided by t; the vision tower is whole in `data` mode. The latent KV cache is whole on every GPU.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from serving.accelerators import InstanceShape, instance_shapes
from serving.errors import DoesNotFitError
from serving.profiles import ModelProfile
from serving.units import GIB, gib_from_bytes

KvCacheDtype = Literal["auto", "fp8"]
KV_CACHE_DTYPES: tuple[KvCacheDtype, ...] = ("auto", "fp8")
_KV_ELEMENT_BYTES: dict[KvCacheDtype, int] = {"auto": 2, "fp8": 1}
_BF16_BYTES = 2
_FP32_BYTES = 4


@dataclass(frozen=True)
class EngineLimits:
    """What the user asks of the engine.

    - `context_tokens`: longest request, prompt and answer together.
    - `max_sequences`: requests that may run at once.
    - `max_batched_tokens`: tokens in one engine step; activations grow with it.
    - `gpu_memory_utilization`: share of GPU memory that vLLM may plan with, 0 to 1.
    """

    context_tokens: int
    max_sequences: int
    kv_cache_dtype: KvCacheDtype = "auto"
    max_batched_tokens: int = 8192
    gpu_memory_utilization: float = 0.92


@dataclass(frozen=True)
class WeightTerm:
    """One kind of weights: bytes in the whole model and on one GPU."""

    name: str
    total_bytes: int
    bytes_per_gpu: int


@dataclass(frozen=True)
class MemoryPlan:
    """The proof that a model fits on one machine, in bytes per GPU.

    - `weights_bytes`: the whole checkpoint on disk. `weight_terms`: what it is made of.
    - `budget_bytes`: what vLLM may plan with: usable memory × utilisation.
    - `reserved_bytes`: loading overhead, activations, non-torch and CUDA graphs; measured, not exact.
    - `kv_cache_bytes`: what is left. `kv_cache_tokens`: how many tokens it holds.
    - `full_context_requests`: how many requests of the full context it holds at once.
    """

    model: str
    instance_type: str
    tensor_parallel: int
    limits: EngineLimits
    weights_bytes: int
    weight_terms: tuple[WeightTerm, ...]
    usable_bytes: int
    usable_is_estimate: bool
    budget_bytes: int
    reserved_bytes: int
    kv_cache_bytes: int
    kv_bytes_per_token: int

    @property
    def weights_bytes_per_gpu(self) -> int:
        """Weights that one GPU holds."""
        return sum(term.bytes_per_gpu for term in self.weight_terms)

    @property
    def kv_cache_tokens(self) -> int:
        """Tokens that the KV cache holds; below zero where there is no room at all."""
        return self.kv_cache_bytes // self.kv_bytes_per_token

    @property
    def full_context_requests(self) -> float:
        """Requests of the full context length that fit at once."""
        return self.kv_cache_tokens / self.limits.context_tokens

    @property
    def missing_bytes(self) -> int:
        """Bytes per GPU that one request of the full context lacks; 0 where it fits."""
        return max(0, self.limits.context_tokens * self.kv_bytes_per_token - self.kv_cache_bytes)

    @property
    def fits(self) -> bool:
        """True where at least one request of the full context fits."""
        return self.missing_bytes == 0


def plan_memory(model: ModelProfile, shape: InstanceShape, limits: EngineLimits) -> MemoryPlan:
    """The plan for one replica on one machine, tensor parallel over all of its GPUs; it never refuses."""
    overheads = _overheads()
    terms = weight_terms(model, shape.gpus)
    budget = int(shape.usable_bytes_per_gpu * limits.gpu_memory_utilization)
    reserved_gib = (
        overheads["loading_gib"]
        + overheads["activation_base_gib"]
        + overheads["activation_gib_per_1024_tokens"] * limits.max_batched_tokens / 1024
        + overheads["non_torch_gib"]
        + overheads["cuda_graphs_gib"]
    )
    reserved = int(reserved_gib * GIB)
    return MemoryPlan(
        model=model.name,
        instance_type=shape.name,
        tensor_parallel=shape.gpus,
        limits=limits,
        weights_bytes=sum(term.total_bytes for term in terms),
        weight_terms=terms,
        usable_bytes=shape.usable_bytes_per_gpu,
        usable_is_estimate=shape.usable_is_estimate,
        budget_bytes=budget,
        reserved_bytes=reserved,
        kv_cache_bytes=budget - reserved - sum(term.bytes_per_gpu for term in terms),
        kv_bytes_per_token=kv_bytes_per_token(model, limits.kv_cache_dtype),
    )


def require_fit(model: ModelProfile, shape: InstanceShape, limits: EngineLimits) -> MemoryPlan:
    """The plan, where it fits.

    Raises DoesNotFitError naming the missing GiB per GPU and the nearest layouts that work.
    """
    plan = plan_memory(model, shape, limits)
    if plan.fits:
        return plan
    need = plan.weights_bytes_per_gpu + plan.reserved_bytes + limits.context_tokens * plan.kv_bytes_per_token
    works = _alternatives(model, shape, limits)
    raise DoesNotFitError(
        f"{model.title} does not fit on {shape.name} ({shape.gpus} × {shape.gpu}) at a context of"
        f" {limits.context_tokens:,} tokens: each GPU lacks {gib_from_bytes(plan.missing_bytes):.1f} GiB. It takes"
        f" {gib_from_bytes(plan.weights_bytes_per_gpu):.1f} GiB of weights,"
        f" {gib_from_bytes(plan.reserved_bytes):.1f} GiB beside them and"
        f" {gib_from_bytes(limits.context_tokens * plan.kv_bytes_per_token):.1f} GiB of KV cache for one request,"
        f" {gib_from_bytes(need):.1f} GiB in all; vLLM may use {gib_from_bytes(plan.budget_bytes):.1f} GiB"
        f" ({limits.gpu_memory_utilization:.0%} of {gib_from_bytes(plan.usable_bytes):.1f}). What works: "
        + "; ".join(works)
    )


def weight_terms(model: ModelProfile, tensor_parallel: int) -> tuple[WeightTerm, ...]:
    """Every kind of weights of `model`, in bytes: whole, and on one of `tensor_parallel` GPUs."""
    a = model.architecture
    expert_layers = a.layers - a.dense_layers
    expert_matrices = expert_layers * a.routed_experts * 3
    expert_parameters = expert_matrices * a.hidden_size * a.expert_intermediate_size
    packed = expert_parameters * model.expert_weights.bits // 8
    scales = expert_parameters // model.expert_weights.group_size * model.expert_weights.scale_bytes
    latent = a.kv_lora_rank + a.qk_rope_head_dim
    head = a.qk_nope_head_dim + a.qk_rope_head_dim
    replicated_attention = a.layers * a.hidden_size * (a.q_lora_rank + latent)
    sharded_attention = (
        a.layers
        * a.attention_heads
        * (a.q_lora_rank * head + a.kv_lora_rank * (a.qk_nope_head_dim + a.v_head_dim) + a.v_head_dim * a.hidden_size)
    )
    attention_norms = a.layers * (a.q_lora_rank + a.kv_lora_rank)
    shared = expert_layers * a.shared_experts * 3 * a.hidden_size * a.expert_intermediate_size
    dense = a.dense_layers * 3 * a.hidden_size * a.dense_intermediate_size
    router = expert_layers * a.routed_experts * a.hidden_size * _BF16_BYTES + (
        expert_layers * a.routed_experts * _FP32_BYTES
    )
    norms = (2 * a.layers + 1) * a.hidden_size
    embedding = a.vocabulary * a.hidden_size * _BF16_BYTES
    vision = model.vision_parameters * _BF16_BYTES
    vision_per_gpu = vision if model.vision_mode == "data" else 0

    def divided(name: str, count: int) -> WeightTerm:
        return WeightTerm(name, count, count // tensor_parallel)

    return (
        divided("routed experts, packed", packed),
        divided("routed experts, scales", scales),
        # The packed matrices' shapes are read from the checkpoint and not kept on a GPU.
        WeightTerm("routed experts, shapes", expert_matrices * model.expert_weights.packed_shape_bytes, 0),
        divided("shared experts", shared * _BF16_BYTES),
        WeightTerm("router", router, router),
        divided("dense layers", dense * _BF16_BYTES),
        WeightTerm("attention, whole on every GPU", *(2 * (replicated_attention * _BF16_BYTES,))),
        divided("attention, divided by head", sharded_attention * _BF16_BYTES),
        WeightTerm("norms", *(2 * ((attention_norms + norms) * _BF16_BYTES,))),
        divided("embedding", embedding),
        divided("output head", embedding),
        WeightTerm("vision tower", vision, vision_per_gpu),
    )


def kv_bytes_per_token(model: ModelProfile, dtype: KvCacheDtype) -> int:
    """Bytes of latent KV cache that one token takes on each GPU, over all layers."""
    a = model.architecture
    return a.layers * (a.kv_lora_rank + a.qk_rope_head_dim) * _KV_ELEMENT_BYTES[dtype]


def _alternatives(model: ModelProfile, shape: InstanceShape, limits: EngineLimits) -> list[str]:
    """What would work, nearest first; never empty."""
    works: list[str] = []
    plan = plan_memory(model, shape, limits)
    if plan.kv_cache_tokens >= 1024:
        works.append(f"{shape.name} with a context of {plan.kv_cache_tokens // 1024 * 1024:,} tokens or fewer")
    if limits.kv_cache_dtype != "fp8":
        halved = EngineLimits(limits.context_tokens, limits.max_sequences, "fp8", limits.max_batched_tokens)
        if plan_memory(model, shape, halved).fits:
            works.append(f"{shape.name} with kvCacheDtype fp8")
    others = [
        other.name
        for other in instance_shapes().values()
        if other.name != shape.name and plan_memory(model, other, limits).fits
    ]
    if others:
        works.append(f"the same settings on {', '.join(others)}")
    return works or ["nothing that is known; a smaller model or a shorter context is needed"]


@cache
def _overheads() -> dict[str, float]:
    text = (resources.files("serving") / "data" / "overheads.toml").read_text(encoding="utf-8")
    return {key: float(value) for key, value in tomllib.loads(text).items() if isinstance(value, (int, float))}
