"""A made-up model of several real safetensors shards, and its listing as a hub shows it."""

import hashlib
import json
import random
from dataclasses import dataclass
from functools import cache

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(frozen=True)
class MadeUpModel:
    files: dict[str, bytes]
    beside: dict[str, bytes]

    @property
    def total_bytes(self) -> int:
        return sum(map(len, self.files.values()))

    @property
    def shards(self) -> list[str]:
        return sorted(path for path in self.files if path.endswith(".safetensors"))

    @property
    def everything(self) -> dict[str, bytes]:
        return {**self.files, **self.beside}


def shard_bytes(tensor: str, size_bytes: int, seed: int) -> bytes:
    header = json.dumps({tensor: {"dtype": "U8", "shape": [size_bytes], "data_offsets": [0, size_bytes]}}).encode()
    block = random.Random(seed).randbytes(min(size_bytes, 2**20))
    data = (block * (size_bytes // len(block) + 1))[:size_bytes]
    return len(header).to_bytes(8, "little") + header + data


def made_up_model(shards: int = 4, shard_mb: float = 1.0) -> MadeUpModel:
    names = [f"model-{number:05d}-of-{shards:05d}.safetensors" for number in range(1, shards + 1)]
    size = int(shard_mb * 1e6)
    files = {name: shard_bytes(f"layer.{number}", size - 17 * number, number) for number, name in enumerate(names)}
    weight_map = {f"layer.{number}": name for number, name in enumerate(names)}
    total = sum(size - 17 * number for number in range(shards))
    files["model.safetensors.index.json"] = json.dumps(
        {"metadata": {"total_size": total}, "weight_map": weight_map}
    ).encode()
    files["config.json"] = b'{"architectures": ["MadeUp"]}'
    files["tiktoken.model"] = random.Random(99).randbytes(20_000)
    files["modeling_made_up.py"] = b"# the model's own code\n"
    files["chat_template.jinja"] = b"{{ messages }}"
    files["generation_config.json"] = b"{}"
    beside = {
        "README.md": b"# made up",
        ".gitattributes": b"*.safetensors filter=lfs",
        "figures/plot.png": b"\x89PNG",
        "pytorch_model.bin": b"pickle" * 100,
        "original/model.safetensors": b"another layout",
    }
    return MadeUpModel(files, beside)


def git_sha1(data: bytes) -> str:
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()


@cache
def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@cache
def sibling(path: str, data: bytes) -> dict[str, object]:
    """As `/api/models/…?blobs=true` lists a file: big ones are LFS with a SHA-256, small ones are Git's own."""
    row: dict[str, object] = {"rfilename": path, "size": len(data), "blobId": git_sha1(data)}
    if path.endswith((".safetensors", ".model", ".bin", ".png")):
        row["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 135}
    return row
