"""A model as its files have it: every tensor's type and bytes come from the headers, the roles from the config."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from serving.checkpoint.families.blueprint import PLAIN_STORAGES
from serving.checkpoint.index import matched_names, with_rotary_tables
from serving.checkpoint.model import CheckpointModel
from serving.checkpoint.safetensors import TYPE_BITS, StoredTensor
from serving.checkpoint.stored import stored_names, stored_parts
from serving.checkpoint.weights import Storage, WeightTensor
from serving.errors import ConfigurationError, Fault

_PLAIN_WORDS = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
_MOST_SHOWN = 10


def matched_headers(model: CheckpointModel, stored: Mapping[str, StoredTensor], where: str) -> CheckpointModel:
    """`model` with the storage that the headers show.

    Raises ConfigurationError where names or shapes are not those of the config.
    """
    found, faults = matched_names(model, stored)
    problems = list(faults)
    tensors: list[WeightTensor] = []
    if not problems:
        for tensor in found.tensors:
            measured, problem = _measured(tensor, stored)
            tensors.append(measured)
            if problem is not None and len(problems) < _MOST_SHOWN:
                problems.append(problem)
    if problems:
        raise ConfigurationError(problems, where)
    found = replace(found, tensors=tuple(tensors))
    beyond = sum(tensor.total_bytes for tensor in stored.values()) - found.total_bytes
    return with_rotary_tables(found, beyond // found.layers) if beyond > 0 else found


def _measured(tensor: WeightTensor, stored: Mapping[str, StoredTensor]) -> tuple[WeightTensor, Fault | None]:
    """`tensor` with the types found in the files, and a fault where its bytes then still disagree."""
    parts = stored_parts(tensor)
    storage = tensor.storage
    for part in parts:
        types = Counter(stored[name].type_word for name in stored_names(tensor, part.suffix))
        word = types.most_common(1)[0][0]
        if part.role == "weight" and not tensor.quantised:
            storage = PLAIN_STORAGES.get(_PLAIN_WORDS.get(word, ""), Storage(word.lower(), TYPE_BITS[word]))
        elif part.role == "scale":
            storage = replace(storage, scale_bytes=TYPE_BITS[word] // 8)
        elif part.suffix == ".weight_shape":
            wider = 2 * TYPE_BITS[word] // 8 - part.total_bytes
            storage = replace(storage, extra_bytes=storage.extra_bytes + wider)
    measured = replace(tensor, storage=storage)
    for part in stored_parts(measured):
        for name in stored_names(measured, part.suffix):
            if stored[name].total_bytes != part.total_bytes:
                given = f"{stored[name].total_bytes:,} bytes, {stored[name].type_word} {list(stored[name].shape)}"
                accepted = f"{part.total_bytes:,} bytes: {tensor.rows} × {tensor.columns} as {storage.scheme}"
                return measured, Fault(name, given, accepted)
    return measured, None
