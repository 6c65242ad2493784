"""Collects a model's tensors: each module once, split where the quantisation treats its layers differently.

Names: a matrix stands under its module's path, as quantisation patterns see it. A bias stands under `<module>.bias`
with one column, because it has an entry for each output; other vectors have one row.
"""

from collections.abc import Sequence

from serving.checkpoint.quantisation import Quantisation
from serving.checkpoint.weights import BF16, FP32, Kind, Shard, Storage, WeightTensor

FP16 = Storage("fp16", 16)
PLAIN_STORAGES = {"bfloat16": BF16, "float16": FP16, "float32": FP32}


class Blueprint:
    """The tensors of one model, gathered module by module."""

    def __init__(
        self, plain: Storage, quantisation: Quantisation, prefix: str = "", prediction_ends: bool = True
    ) -> None:
        """Unquantised tensors lie as `plain`; `prefix` goes before every module's path.

        `prediction_ends`: whether layers that predict further tokens repeat embedding and output head.
        """
        self.tensors: list[WeightTensor] = []
        self.plain = plain
        self.vectors = plain
        self.prediction_ends = prediction_ends
        self._quantisation = quantisation
        self._prefix = prefix

    def linear(
        self,
        module: str,
        kind: Kind,
        shard: Shard,
        rows: int,
        columns: int,
        *,
        layers: Sequence[int] = (),
        copies: int = 1,
        bias: bool = False,
        convertible: bool = True,
    ) -> None:
        """A matrix of rows × columns in each of `layers`, `copies` times; `convertible` where it may be quantised."""
        path = self._prefix + module
        places: dict[Storage, dict[int, int]] = {}
        experts = range(copies) if self._quantisation.tells_experts_apart and "{expert}" in module else range(1)
        each = copies // len(experts)
        for layer in layers or (0,):
            for expert in experts:
                storage = self.plain
                if convertible:
                    scheme = self._quantisation.scheme_of(at(path, layer, expert))
                    storage = scheme(rows, columns) if scheme is not None else self.plain
                found = places.setdefault(storage, {})
                found[layer] = found.get(layer, 0) + each
        for storage, counts in places.items():
            for count in sorted(set(counts.values())):
                same = tuple(layer for layer, copied in counts.items() if copied == count) if layers else ()
                self._add(path, kind, shard, rows, columns, storage, same, count, storage is not self.plain)
        if bias:
            side = Shard.REPLICATED if shard is Shard.ROW else shard
            self._add(f"{path}.bias", kind, side, rows, 1, self.plain, tuple(layers), copies)

    def vector(
        self,
        module: str,
        kind: Kind,
        length: int,
        *,
        layers: Sequence[int] = (),
        shard: Shard = Shard.REPLICATED,
        storage: Storage | None = None,
    ) -> None:
        """A vector that is never quantised, such as a norm's weight; it lies as `vectors`, unless told otherwise."""
        self._add(self._prefix + module, kind, shard, 1, length, storage or self.vectors, tuple(layers), 1)

    def stacked(
        self, module: str, kind: Kind, shard: Shard, rows: int, columns: int, *, layers: Sequence[int], copies: int
    ) -> None:
        """Vectors or matrices of all experts that lie in one tensor and are never quantised."""
        self._add(self._prefix + module, kind, shard, rows, columns, self.plain, tuple(layers), copies)

    def ends(self, vocabulary: int, hidden: int, *, tied: bool, base: str = "model.") -> None:
        """Embedding, final norm and, unless tied to the embedding, the output head."""
        self.linear(f"{base}embed_tokens", Kind.EMBEDDING, Shard.VOCABULARY, vocabulary, hidden, convertible=False)
        self.vector(f"{base}norm", Kind.NORMS, hidden)
        if not tied:
            convertible = self._quantisation.head
            self.linear("lm_head", Kind.OUTPUT_HEAD, Shard.VOCABULARY, vocabulary, hidden, convertible=convertible)

    def _add(
        self,
        path: str,
        kind: Kind,
        shard: Shard,
        rows: int,
        columns: int,
        storage: Storage,
        layers: tuple[int, ...],
        copies: int,
        quantised: bool = False,
    ) -> None:
        self.tensors.append(WeightTensor(path, kind, shard, rows, columns, storage, layers, copies, quantised))


def at(path: str, layer: int, expert: int = 0) -> str:
    """The module's path in one layer and for one expert."""
    return path.replace("{layer}", str(layer)).replace("{expert}", str(expert))
