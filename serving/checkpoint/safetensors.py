"""Headers of safetensors files: name, type, shape and bytes of every tensor, without reading any weight.

A file begins with 8 bytes, the little-endian length of the JSON header that follows; the tensors' bytes come after it.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from serving.checkpoint.config import shown
from serving.errors import ConfigurationError, Fault
from serving.weights.recognise import is_lfs_pointer

_LENGTH_BYTES = 8
_LONGEST_HEADER = 100_000_000
_NUMBERED = re.compile(r"^(.*)-(\d+)-of-(\d+)\.safetensors$")
TYPE_BITS: Mapping[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "I64": 64,
    "U64": 64,
    "F64": 64,
}


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a file: its type in safetensors' word, its shape, its bytes."""

    type_word: str
    shape: tuple[int, ...]
    total_bytes: int


def read_header(path: Path) -> Mapping[str, StoredTensor]:
    """Every tensor of the file at `path`.

    Raises ConfigurationError naming the file where it is missing, a Git LFS pointer, truncated or contradictory.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            first = file.read(_LENGTH_BYTES)
            if is_lfs_pointer(first + file.read(64)):
                raise _refused(path, "a Git LFS pointer", "the file itself: run `git lfs pull` or download it again")
            length = int.from_bytes(first, "little")
            if len(first) < _LENGTH_BYTES or length > size - _LENGTH_BYTES or length > _LONGEST_HEADER:
                given = f"{size:,} bytes, of which the header alone claims {length:,}"
                raise _refused(path, given, "a whole safetensors file; download it again")
            file.seek(_LENGTH_BYTES)
            raw = file.read(length)
    except OSError as error:
        raise _refused(path, error.strerror or str(error), "a readable safetensors file") from error
    try:
        document: object = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"a header that is no JSON ({error})", "a whole safetensors file") from error
    if not isinstance(document, Mapping):
        raise _refused(path, f"a header that is {shown(document)}", "a JSON object of tensors")
    entries = cast("Mapping[str, object]", document)
    tensors: dict[str, StoredTensor] = {}
    end = 0
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        tensors[name], last = _tensor(path, name, entry)
        end = max(end, last)
    given = size - _LENGTH_BYTES - len(raw)
    if given != end:
        cut = "cut off" if given < end else "too long"
        raise _refused(path, f"{given:,} bytes of weights, {cut}", f"{end:,} bytes, as its header says")
    return tensors


def shards(folder: Path, indexed: Sequence[str]) -> tuple[Path, ...]:
    """The files of a model: those that its index names, else every one in the folder.

    Raises ConfigurationError naming the missing ones, or that there is none.
    """
    if indexed:
        wanted = sorted(set(indexed))
    else:
        wanted = sorted(path.name for path in folder.glob("*.safetensors"))
        if not wanted:
            raise _refused(folder, "a folder without *.safetensors", "the model's files beside its config.json")
        for match in filter(None, map(_NUMBERED.match, list(wanted))):
            width, count = len(match[2]), int(match[3])
            wanted += [f"{match[1]}-{number:0{width}d}-of-{match[3]}.safetensors" for number in range(1, count + 1)]
            break
        wanted = sorted(set(wanted))
    missing = [name for name in wanted if not (folder / name).is_file()]
    if missing:
        given = f"without {len(missing)} of {len(wanted)} files: {', '.join(missing[:5])}"
        raise _refused(
            folder, given + (", …" if len(missing) > 5 else ""), "every file of the model; download the rest"
        )
    return tuple(folder / name for name in wanted)


def _tensor(path: Path, name: str, entry: object) -> tuple[StoredTensor, int]:
    """One entry of a header, and where its bytes end."""
    fields: Mapping[str, object] = cast("Mapping[str, object]", entry) if isinstance(entry, Mapping) else {}
    word, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(word, str) or word not in TYPE_BITS:
        raise _refused(path, f"{name} of type {shown(word)}", f"a type of {', '.join(TYPE_BITS)}")
    sides = _numbers(shape)
    ends = _numbers(offsets)
    if sides is None or ends is None or len(ends) != 2:
        raise _refused(path, f"{name} with {shown(dict(fields))}", "a shape and two data_offsets of whole numbers")
    total = ends[1] - ends[0]
    expected = math.ceil(math.prod(sides) * TYPE_BITS[word] / 8)
    if total != expected:
        raise _refused(path, f"{name} with {total:,} bytes", f"{expected:,} bytes, as {word} of {list(sides)} has")
    return StoredTensor(word, sides, total), ends[1]


def _numbers(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    items = tuple(cast("list[object]", value))
    good = all(isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 1 << 62 for item in items)
    return cast("tuple[int, ...]", items) if good else None


def _refused(path: Path, given: str, accepted: str) -> ConfigurationError:
    return ConfigurationError([Fault(str(path), given, accepted)], path.name)
