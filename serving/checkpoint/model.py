"""A model as the planner sees it: its tensors, its attention, its limits."""

from dataclasses import dataclass
from enum import StrEnum

from serving.checkpoint.weights import Kind, WeightTensor


class Family(StrEnum):
    """The architectures that are understood; any other is refused by name."""

    MLA_MOE = "MLA + experts"
    """Latent attention with experts: DeepSeek-V3, Kimi K2."""
    SPARSE_MLA_MOE = "sparse MLA + experts"
    """The same with an indexer that chooses tokens: DeepSeek-V3.2."""
    GQA_MOE = "GQA + experts"
    """Grouped-query attention with experts: Qwen3-MoE, GLM-4.6."""
    GQA_DENSE = "GQA, dense"
    """Grouped-query attention: Qwen3, Llama."""
    WINDOW_MOE = "sliding window + experts"
    """Layers with a sliding window between full ones, with experts: gpt-oss."""


class AttentionKind(StrEnum):
    """What a layer keeps of each token."""

    LATENT = "latent (MLA)"
    SPARSE_LATENT = "latent with indexer (sparse MLA)"
    FULL = "keys and values"
    WINDOW = "keys and values of a window"


@dataclass(frozen=True)
class AttentionLayers:
    """Layers of one kind of attention.

    - `layers`: how many. `heads`, `kv_heads`, `head_dim`: of grouped-query attention (`kv_heads` 1 for latent).
    - `latent_dim`: kv_lora_rank + qk_rope_head_dim of latent attention, else 0.
    - `indexer_dim`: the indexer's key width of sparse latent attention, else 0.
    - `window_tokens`: of a sliding window, else 0.
    """

    kind: AttentionKind
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    latent_dim: int = 0
    indexer_dim: int = 0
    window_tokens: int = 0


@dataclass(frozen=True)
class CheckpointModel:
    """Everything that memory planning needs to know of one model.

    - `quantisation`: the scheme in words, such as `compressed-tensors int4 group 32` or `none`.
    - `experts`, `experts_per_token`: routed ones; 0 for a dense model. `expert_inner`: their intermediate size.
    - `layers`: all of them, the dense ones included. `attention`: which layers keep what.
    - `vision`: whether there is a vision tower (its tensors have Kind.VISION).
    - `source`: where the facts come from.
    """

    name: str
    family: Family
    architecture: str
    quantisation: str
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    max_context_tokens: int
    attention: tuple[AttentionLayers, ...]
    tensors: tuple[WeightTensor, ...]
    source: str
    experts: int = 0
    experts_per_token: int = 0
    expert_inner: int = 0
    tied_embedding: bool = False

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole checkpoint's tensors."""
        return sum(tensor.total_bytes for tensor in self.tensors)

    @property
    def parameters(self) -> int:
        """Logical parameters."""
        return sum(tensor.parameters for tensor in self.tensors)

    @property
    def vision(self) -> bool:
        """Whether there is a vision tower."""
        return any(tensor.kind is Kind.VISION for tensor in self.tensors)
