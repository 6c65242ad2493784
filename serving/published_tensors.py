"""Where a published checkpoint's files differ from what its config tells, so that totals agree to the byte."""

import re
from dataclasses import dataclass, replace

from serving.checkpoint.model import CheckpointModel
from serving.checkpoint.weights import BF16, FP32, Kind, Shard, Storage, WeightTensor
from serving.errors import UnknownFactError
from serving.profile_document import Section

_STORAGES = {"bfloat16": BF16, "float32": FP32}


@dataclass(frozen=True)
class Corrections:
    """What is known of the files themselves; it holds whatever the config led to.

    - `stored`: pattern of module paths, and how the matching unquantised tensors really lie.
    - `without`: module paths whose tensors the files do not hold.
    - `also`: tensors that the files hold and the config does not tell of; none of them is kept on a GPU.
    """

    stored: tuple[tuple[str, Storage], ...] = ()
    without: tuple[str, ...] = ()
    also: tuple[WeightTensor, ...] = ()

    def applied_to(self, model: CheckpointModel) -> CheckpointModel:
        """`model` with its tensors corrected; raises UnknownFactError where a pattern of `stored` matches nothing."""
        if not (self.stored or self.without or self.also):
            return model
        for pattern, _ in self.stored:
            if not any(re.fullmatch(pattern, tensor.module) for tensor in model.tensors):
                raise UnknownFactError(f"model `{model.name}`: its config gives no tensor that matches `{pattern}`")
        replaced = {*self.without, *(tensor.module for tensor in self.also)}
        kept = (self._as_stored(tensor) for tensor in model.tensors if tensor.module not in replaced)
        return replace(model, tensors=(*kept, *self.also))

    def _as_stored(self, tensor: WeightTensor) -> WeightTensor:
        for pattern, storage in self.stored:
            if not tensor.quantised and re.fullmatch(pattern, tensor.module):
                return replace(tensor, storage=storage)
        return tensor


def corrections_from(section: Section) -> Corrections:
    """The `[checkpoint]` table of a model's file; raises UnknownFactError on a wrong or unknown key."""
    if not section.given:
        return Corrections()
    found = Corrections(
        stored=tuple(_stored(entry) for entry in section.sections("stored")),
        without=section.texts("without", optional=True),
        also=tuple(_also(entry) for entry in section.sections("also")),
    )
    section.finish()
    return found


def _stored(entry: Section) -> tuple[str, Storage]:
    found = (entry.text("modules"), _STORAGES[entry.one_of("dtype", tuple(_STORAGES))])
    entry.finish()
    return found


def _also(entry: Section) -> WeightTensor:
    first, last = entry.span("layers")
    kinds = {kind.name.lower(): kind for kind in Kind}
    found = WeightTensor(
        module=entry.text("module"),
        kind=kinds[entry.one_of("kind", tuple(kinds))],
        shard=Shard.NOT_LOADED,
        rows=entry.integer("rows"),
        columns=entry.integer("columns"),
        storage=_STORAGES[entry.one_of("dtype", tuple(_STORAGES))],
        layers=tuple(range(first, last + 1)),
    )
    entry.finish()
    return found
