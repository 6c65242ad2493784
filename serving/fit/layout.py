"""How a model is laid over GPUs: tensor, pipeline, data, expert and decode-context parallel, and what each stage holds."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from serving.checkpoint.model import CheckpointModel
from serving.checkpoint.weights import Kind

VisionMode = Literal["data", "weights", "none"]
_SHARED_ENDS = (".embed_tokens", ".shared_head.head")


@dataclass(frozen=True)
class Draft:
    """A draft model that proposes tokens (EAGLE, or the model's own layer for further tokens).

    - `divided_bytes`: weights that tensor parallel divides. `whole_bytes`: weights that every GPU holds.
    - `layers`: layers that keep KV cache beside the model's own, as wide as those.
    """

    name: str
    divided_bytes: int
    whole_bytes: int = 0
    layers: int = 1


def own_draft(model: CheckpointModel) -> Draft | None:
    """The layers for further tokens that the checkpoint itself holds, None where it has none.

    Embedding and output head are the model's own; attention and norms are counted whole, which is slightly too much.
    """
    tensors = [
        tensor for tensor in model.tensors if tensor.kind is Kind.DRAFT and not tensor.module.endswith(_SHARED_ENDS)
    ]
    if not tensors:
        return None
    divided = sum(tensor.total_bytes for tensor in tensors if ".experts." in tensor.module)
    layers = len({layer for tensor in tensors for layer in tensor.layers})
    return Draft("its own", divided, sum(tensor.total_bytes for tensor in tensors) - divided, layers)


@dataclass(frozen=True)
class Layout:
    """One replica's layout.

    - `tensor_parallel`: GPUs that share each layer. `pipeline_parallel`: stages that share the layers.
    - `data_parallel`: copies of attention with a KV cache each; experts are divided over them.
    - `expert_parallel`: whole experts on a GPU instead of a slice of each.
    - `decode_context_parallel`: GPUs of one tensor-parallel group that share the tokens of the KV cache.
    - `nodes`: machines. `vision_mode`: the tower `data` whole on every GPU, divided by `weights`, or `none` loaded.
    """

    tensor_parallel: int
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: bool = False
    decode_context_parallel: int = 1
    nodes: int = 1
    vision_mode: VisionMode = "data"
    draft: Draft | None = None

    @property
    def gpus(self) -> int:
        """GPUs that it uses on all machines."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def expert_group(self) -> int:
        """GPUs that one layer's experts are divided over, by whole experts or by slices."""
        return self.tensor_parallel * self.data_parallel

    @property
    def sequence_parallel_experts(self) -> bool:
        """Whether tokens are divided before the experts, which makes vLLM hold shared experts whole on every GPU."""
        return self.expert_parallel and self.tensor_parallel > 1 and self.data_parallel > 1

    def __str__(self) -> str:
        """Such as `DP4 × TP2 + EP, 2 nodes`."""
        sizes = (("DP", self.data_parallel), ("PP", self.pipeline_parallel), ("TP", self.tensor_parallel))
        words = " × ".join(f"{name}{size}" for name, size in sizes if size > 1) or "one GPU"
        if self.expert_parallel:
            words += " + EP"
        if self.decode_context_parallel > 1:
            words += f" + DCP{self.decode_context_parallel}"
        if self.draft:
            words += f" + draft {self.draft.name}"
        return words + (f", {self.nodes} nodes" if self.nodes > 1 else "")


@dataclass(frozen=True)
class Stage:
    """One pipeline stage: its layers from `first` up to but without `end`, and whether it begins or ends the model."""

    index: int
    first: int
    end: int
    begins: bool
    ends: bool

    @property
    def layers(self) -> int:
        """How many layers it has."""
        return self.end - self.first

    def share(self, layers: tuple[int, ...]) -> int:
        """How many of `layers` it has."""
        return _between(layers, self.first, self.end)


@lru_cache(maxsize=4096)
def _between(layers: tuple[int, ...], first: int, end: int) -> int:
    return sum(first <= layer < end for layer in layers)


def stages(layers: int, pipeline_parallel: int) -> tuple[Stage, ...]:
    """The stages as vLLM divides `layers`: what is left over goes to the stages before the last, from the back."""
    count = max(1, pipeline_parallel)
    sizes = [layers // count] * count
    for extra in range(layers % count):
        sizes[-(extra + 2)] += 1
    found: list[Stage] = []
    first = 0
    for index, size in enumerate(sizes):
        found.append(Stage(index, first, first + size, index == 0, index == count - 1))
        first += size
    return tuple(found)
