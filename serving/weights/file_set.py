"""Which files of a repository a vLLM server needs, which are left out and why, and whether the set is complete."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, cast

from serving.errors import Fault

# One line of a manifest and of a shell loop each: no quotes, no control characters, nothing above the folder.
_SAFE_PATH = re.compile(r"[\w.+=@,()-][\w.+=@,()-]*(/[\w.+=@,()-]+)*")
_NUMBERED = re.compile(r"^(.*)-(\d+)-of-(\d+)\.safetensors$")
_NEEDED_SUFFIXES = {".json", ".jinja", ".model", ".py", ".safetensors", ".tiktoken"}
# Word lists that tokenizers of older models read.
_NEEDED_NAMES = {"merges.txt", "vocab.txt", "bpe.codes", "tokenizer.spm"}
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tiktoken.model", "*.tiktoken", "vocab.json", "vocab.txt",
               "tekken.json", "tokenizer.spm", "tokenizer.model.v*")  # fmt: skip
_OTHER_WEIGHTS = {".bin", ".ckpt", ".gguf", ".h5", ".msgpack", ".npz", ".pt", ".pth", ".tflite"}
_REASONS = {
    **dict.fromkeys(_OTHER_WEIGHTS, "the weights once more in another format"),
    **dict.fromkeys((".onnx", ".onnx_data", ".mlmodel", ".xml"), "a graph for another engine"),
    **dict.fromkeys((".gif", ".jpeg", ".jpg", ".mp4", ".pdf", ".png", ".svg", ".webp"), "a picture or a document"),
    **dict.fromkeys((".md", ".html", ".txt", ""), "reading matter"),
}


@dataclass(frozen=True)
class RepositoryFile:
    """One file as its source lists it.

    - `path`: inside the repository, with slashes. `size_bytes`: its length.
    - `sha256`: as the source states it; "" where it states none.
    - `git_sha1`: Git's name of the blob, for a file that Git keeps itself; "" otherwise.
    """

    path: str
    size_bytes: int
    sha256: str = ""
    git_sha1: str = ""


@dataclass(frozen=True)
class FileSet:
    """The files to fetch, sorted by path, and what is left out with the reason of each."""

    files: tuple[RepositoryFile, ...]
    left_out: Mapping[str, str]

    @property
    def total_bytes(self) -> int:
        """Bytes of all files that are fetched."""
        return sum(file.size_bytes for file in self.files)

    @property
    def indexes(self) -> tuple[str, ...]:
        """Paths of the indexes that say which shard holds which tensor."""
        return tuple(file.path for file in self.files if file.path.endswith(".safetensors.index.json"))


def needed_files(listing: Iterable[RepositoryFile]) -> FileSet:
    """What a vLLM server needs of `listing`: weights as safetensors, configs, tokenizer, code, chat templates."""
    files = sorted(listing, key=lambda file: file.path)
    numbered = any(_NUMBERED.match(file.path) and "/" not in file.path for file in files)
    kept: list[RepositoryFile] = []
    left_out: dict[str, str] = {}
    for file in files:
        reason = _why_not(file.path, numbered)
        if reason:
            left_out[file.path] = reason
        else:
            kept.append(file)
    return FileSet(tuple(kept), left_out)


def listing_faults(chosen: FileSet, required: Sequence[str] = (), where: str = "the repository") -> list[Fault]:
    """What is missing from `chosen` by the names alone; empty where nothing is.

    `required`: patterns such as `tiktoken.model` or `*.py` of which each must match a file.
    """
    paths = [file.path for file in chosen.files]
    faults = [
        Fault(
            path,
            "a name that cannot be a plain file below the model's folder",
            "letters, digits, . _ - + = @ , ( ), no part with a dot at its start",
        )
        for path in paths
        if not _SAFE_PATH.fullmatch(path) or _hidden(path)
    ]
    weights = [path for path in paths if path.endswith(".safetensors")]
    if not weights:
        others = sorted({PurePosixPath(path).suffix for path in chosen.left_out} & _OTHER_WEIGHTS)
        only = f"only {', '.join(others)}" if others else "no weights at all"
        faults.append(Fault("*.safetensors", f"{only} in {where}", "a repository with safetensors files"))
    if "config.json" not in paths:
        faults.append(Fault("config.json", f"no such file in {where}", "a repository that vLLM can serve"))
    if not any(fnmatchcase(path, pattern) for path in paths for pattern in _TOKENIZERS):
        faults.append(Fault("tokenizer", f"none of {', '.join(_TOKENIZERS)} in {where}", "one of them"))
    faults += [
        Fault(pattern, f"no file of this name in {where}", "a repository that has it: the model needs it")
        for pattern in required
        if not any(fnmatchcase(path, pattern) for path in paths)
    ]
    return faults + _numbering_faults(weights)


def index_faults(chosen: FileSet, index_path: str, index: object) -> list[Fault]:
    """Which shards the index at `index_path` names and `chosen` lacks, or why the index is none."""
    document: Mapping[str, Any] = cast("Mapping[str, Any]", index) if isinstance(index, Mapping) else {}
    weight_map: object = document.get("weight_map")
    if not isinstance(weight_map, Mapping) or not weight_map:
        return [Fault(index_path, "no weight_map in it", "an index that says which shard holds which tensor")]
    folder = index_path.rpartition("/")[0]
    named = {f"{folder}/{name}".lstrip("/") for name in map(str, cast("Mapping[str, object]", weight_map).values())}
    sizes = {file.path: file.size_bytes for file in chosen.files}
    missing = sorted(named - set(sizes))
    if missing:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        return [Fault(index_path, f"shards that are not listed: {shown}", "a listing with every shard of the index")]
    metadata: object = document.get("metadata")
    total: object = cast("Mapping[str, object]", metadata).get("total_size") if isinstance(metadata, Mapping) else None
    listed = sum(sizes[name] for name in named)
    if isinstance(total, int) and listed < total:
        return [Fault(index_path, f"shards of {listed:,} bytes", f"shards of at least the {total:,} bytes it states")]
    return []


def _hidden(path: str) -> bool:
    """Whether a part of `path` begins with a dot: Git's own files, `..`, and the folder of the hydrator's state."""
    return any(part.startswith(".") for part in path.split("/"))


def _why_not(path: str, numbered: bool) -> str:
    name = path.rpartition("/")[2]
    suffix = PurePosixPath(name).suffix.lower()
    if _hidden(path):
        return "hidden: Git's own or the like"
    if suffix == ".safetensors":
        if "/" in path:
            return "weights of another layout in a folder"
        return "the numbered shards in one file once more" if numbered and name.startswith("consolidated") else ""
    if name.endswith((".bin.index.json", ".h5.index.json", ".msgpack.index.json")):
        return "the index of weights that are left out"
    if name.endswith(".safetensors.index.json") and ("/" in path or (numbered and name.startswith("consolidated"))):
        return "the index of weights that are left out"
    if suffix in _NEEDED_SUFFIXES or name in _NEEDED_NAMES or name.startswith("tokenizer.model"):
        return ""
    return _REASONS.get(suffix, "nothing that vLLM reads")


def _numbering_faults(weights: Sequence[str]) -> list[Fault]:
    """A gap in `model-00003-of-00064.safetensors` and the like."""
    series: dict[tuple[str, int], set[int]] = {}
    for path in weights:
        if match := _NUMBERED.match(path):
            series.setdefault((match[1], int(match[3])), set()).add(int(match[2]))
    faults: list[Fault] = []
    for (stem, total), numbers in sorted(series.items()):
        # Some repositories count from 0.
        wanted = set(range(total)) if 0 in numbers else set(range(1, total + 1))
        if missing := sorted(wanted - numbers):
            shown = ", ".join(map(str, missing[:8])) + ("…" if len(missing) > 8 else "")
            faults.append(
                Fault(f"{stem}-*.safetensors", f"shards {shown} of {total} are missing", f"all {total} shards")
            )
    return faults
