"""`model.safetensors.index.json` against what the config says: names, number of tensors, and the total of bytes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from serving.checkpoint.config import ConfigReader, read_json, shown
from serving.checkpoint.model import CheckpointModel
from serving.checkpoint.stored import stored_elements, stored_names, stored_parts
from serving.checkpoint.weights import Kind, Shard, Storage, WeightTensor
from serving.errors import ConfigurationError, Fault, UnknownFactError

_ROTARY = ".self_attn.rotary_emb.inv_freq"
_HEADERS_SHARE = 1e-4
_SHAPE_BYTES = 8
_OTHER_WIDTHS = (2, 4)


@dataclass(frozen=True)
class CheckpointIndex:
    """Which tensor stands in which file, and the bytes that the index claims, None where it claims nothing."""

    total_size: int | None
    files: Mapping[str, str]


def read_index(path: Path) -> CheckpointIndex:
    """The index at `path`; raises ConfigurationError where it is no index, naming what is missing."""
    return parse_index(read_json(path), path.name)


def parse_index(document: Mapping[str, Any], where: str) -> CheckpointIndex:
    """The index in a parsed `document`; raises ConfigurationError naming what is missing."""
    reader = ConfigReader(document)
    metadata = reader.section("metadata")
    total: Any = metadata.values.get("total_size")
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    if total is not None and (not isinstance(total, int) or isinstance(total, bool) or total <= 0):
        metadata.fault("total_size", total, "the whole number of bytes of all tensors")
    names: Any = document.get("weight_map")
    files: dict[str, str] = {}
    if isinstance(names, Mapping) and names:
        files = cast("dict[str, str]", names)
        beside: set[object] = set()
        for name, file in cast("Mapping[str, object]", names).items():
            if isinstance(file, str) and file in beside:
                continue
            if not isinstance(file, str) or not file or Path(file).name != file:
                reader.fault(f"weight_map.{name}", file, "the name of a file beside the index")
                break
            beside.add(file)
    else:
        given = "nothing" if names is None else shown(cast("object", names))
        reader.fault("weight_map", given, "an object from tensor names to files; without it this is no index")
    reader.finish(where)
    return CheckpointIndex(cast("int | None", total), files)


def matched_names(model: CheckpointModel, names: Iterable[str]) -> tuple[CheckpointModel, tuple[Fault, ...]]:
    """`model` as the stored `names` have it, and what cannot be reconciled.

    Layers that predict further tokens are dropped where the files lack them. An output head that is stored although it
    is the embedding counts and is not loaded. Rotary tables that some checkpoints store are left out here. Raises
    UnknownFactError where single experts of a layer are stored differently: which ones, a model does not hold.
    """
    places = Counter((tensor.module, layer) for tensor in model.tensors for layer in tensor.layers)
    if split := next((module for (module, _), times in places.items() if times > 1), None):
        raise UnknownFactError(
            f"{split}: single experts are quantised differently; files of such a model are not checked"
        )
    left = {name for name in names if not name.endswith(_ROTARY)}
    kept: list[WeightTensor] = []
    head = "lm_head.weight"
    if model.tied_embedding and head in left:
        left.remove(head)
        kept.append(_stored_head(model))
    missing: list[str] = []
    for tensor in model.tensors:
        expected = [name for part in stored_parts(tensor) for name in stored_names(tensor, part.suffix)]
        absent = [name for name in expected if name not in left]
        if tensor.kind is Kind.DRAFT and len(absent) == len(expected):
            continue
        kept.append(tensor)
        missing += absent
        left.difference_update(expected)
    faults: list[Fault] = []
    if missing:
        given = f"an index without {len(missing):,} of the config's tensors, such as {missing[0]}"
        faults.append(Fault("weight_map", given, "the whole index of this very model: is it cut, or another model's?"))
    if left:
        given = f"{len(left):,} tensors that the config does not explain, such as {min(left)}"
        faults.append(Fault("weight_map", given, f"tensors of {model.architecture}, {model.quantisation}"))
    return replace(model, tensors=tuple(kept)), tuple(faults)


def _stored_head(model: CheckpointModel) -> WeightTensor:
    embedding = next(tensor for tensor in model.tensors if tensor.kind is Kind.EMBEDDING)
    return replace(embedding, module="lm_head", kind=Kind.OUTPUT_HEAD, shard=Shard.NOT_LOADED)


def with_rotary_tables(model: CheckpointModel, bytes_per_layer: int) -> CheckpointModel:
    """`model` with a rotary table in each layer, which some checkpoints store and no engine loads."""
    prefix = "language_model." if model.vision else ""
    table = WeightTensor(
        module=f"{prefix}model.layers.{{layer}}{_ROTARY}",
        kind=Kind.ATTENTION,
        shard=Shard.NOT_LOADED,
        rows=1,
        columns=bytes_per_layer,
        storage=Storage("rotary table", 8),
        layers=tuple(range(model.layers)),
    )
    return replace(model, tensors=(*model.tensors, table)) if bytes_per_layer else model


def matched_index(model: CheckpointModel, index: CheckpointIndex, where: str) -> CheckpointModel:
    """`model` as the index has it.

    Raises ConfigurationError where names or bytes disagree, with both numbers and the likely reason.
    """
    found, faults = matched_names(model, index.files)
    rotary = sum(name.endswith(_ROTARY) for name in index.files)
    beyond = (index.total_size or 0) - found.total_bytes
    if not faults and rotary == found.layers and 0 < beyond <= rotary * 4096 and beyond % rotary == 0:
        found = with_rotary_tables(found, beyond // rotary)
    if index.total_size is not None:
        found = _with_other_widths(found, index.total_size - found.total_bytes)
    faults += total_faults(found, index.total_size)
    if faults:
        raise ConfigurationError(faults, where)
    return found


def total_faults(model: CheckpointModel, total_size: int | None) -> tuple[Fault, ...]:
    """The fault of an index's `total_size` that disagrees with the sum of shapes; none where they agree.

    DeepSeek's own index counts two bytes for every element although most have one; that is accepted.
    """
    ours = model.total_bytes
    if total_size is None or total_size == ours or total_size == _two_bytes_each(model):
        return ()
    given = f"{total_size:,} bytes ({total_size - ours:+,})"
    accepted = f"{ours:,} bytes, the sum of the tensors that the config describes; {_reason(model, total_size)}"
    return (Fault("metadata.total_size", given, accepted),)


def _with_other_widths(model: CheckpointModel, beyond: int) -> CheckpointModel:
    """`model` with scales or norms of 2 bytes for 4 or the reverse, or longer stored shapes, where it explains `beyond`.

    Makers differ and no config tells: Qwen stores the scales of FP8 blocks in BF16, DeepSeek in FP32.
    """
    for width in (0, *_OTHER_WIDTHS):
        for norms in (0, *_OTHER_WIDTHS):
            for longer in (0, _SHAPE_BYTES):
                found = tuple(_of_other_width(tensor, width, norms, longer) for tensor in model.tensors)
                if sum(tensor.total_bytes for tensor in found) - model.total_bytes == beyond:
                    return replace(model, tensors=found)
    return model


def _of_other_width(tensor: WeightTensor, scale: int, norm: int, longer: int) -> WeightTensor:
    """`tensor` with scales and norms of so many bytes where they have 2 or 4, 0 for no change, and longer shapes."""
    storage = tensor.storage
    if scale and storage.scale_bytes in _OTHER_WIDTHS:
        storage = replace(storage, scale_bytes=scale)
    if norm and not tensor.quantised and tensor.module.endswith("norm") and storage.bits // 8 in _OTHER_WIDTHS:
        storage = Storage("fp32" if norm == 4 else "bf16", norm * 8)
    if longer and any(part.suffix == ".weight_shape" for part in stored_parts(tensor)):
        storage = replace(storage, extra_bytes=storage.extra_bytes + longer)
    return replace(tensor, storage=storage)


def _two_bytes_each(model: CheckpointModel) -> int:
    eight = any(tensor.storage.bits == 8 for tensor in model.tensors)
    return 2 * sum(stored_elements(tensor) for tensor in model.tensors) if eight else 0


def _reason(model: CheckpointModel, total_size: int) -> str:
    """Why the two numbers may differ, from the difference alone."""
    ours = model.total_bytes
    beyond = total_size - ours
    by_kind: dict[Kind, int] = {}
    for tensor in model.tensors:
        by_kind[tensor.kind] = by_kind.get(tensor.kind, 0) + tensor.total_bytes
    if total_size == 2 * model.parameters:
        return "it is two bytes for each parameter, so the index is from before quantisation"
    if total_size == 4 * model.parameters:
        return "it is four bytes for each parameter, so the files may be FP32"
    for kind, size in by_kind.items():
        if size and -beyond == size:
            return f"it lacks exactly the {kind}: the files seem to be without that part"
    if 0 < beyond <= _HEADERS_SHARE * ours:
        return "it is greater by so little that it seems to count the headers of the files too"
    if beyond < 0:
        return "part of the files seems to be missing, or config and index belong to different models"
    return "config and index seem to belong to different models, or to different quantisations of one"
