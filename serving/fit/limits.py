"""What the user asks of the engine, as far as memory depends on it."""

from dataclasses import dataclass
from typing import Literal

KvCacheDtype = Literal["auto", "fp8"]
KV_CACHE_DTYPES: tuple[KvCacheDtype, ...] = ("auto", "fp8")


@dataclass(frozen=True)
class EngineLimits:
    """What the user asks of the engine.

    - `context_tokens`: longest request, prompt and answer together.
    - `max_sequences`: requests that may run at once.
    - `max_batched_tokens`: tokens in one engine step; activations grow with it.
    - `gpu_memory_utilization`: share of GPU memory that vLLM may plan with, 0 to 1.
    - `enforce_eager`: no CUDA graphs. `custom_all_reduce`: vLLM's own all-reduce where the machine allows it.
    - `block_size`: tokens of a KV block, None for what the attention backend takes.
    """

    context_tokens: int
    max_sequences: int
    kv_cache_dtype: KvCacheDtype = "auto"
    max_batched_tokens: int = 8192
    gpu_memory_utilization: float = 0.92
    enforce_eager: bool = False
    custom_all_reduce: bool = True
    block_size: int | None = None
