"""The machines: GPUs, memory, disks and zones of each EC2 instance type, as dated data."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, cast

from serving.errors import UnknownFactError
from serving.units import GIB, MIB

# Share of the API's memory figure that CUDA offers where nobody has published it; H200: 139.80 of 141.00 GiB.
_USABLE_SHARE = 0.99


@dataclass(frozen=True)
class InstanceShape:
    """One EC2 instance type.

    - `usable_bytes_per_gpu`: GPU memory that CUDA reports as total.
    - `usable_is_estimate`: True where that is 99 % of the API's figure for want of a published one.
    - `ebs_mb_per_s`: EBS bandwidth of the machine, in MB (10^6 bytes) a second.
    - `zone_ids`: zones that list the type, such as `use2-az1`, on the date of the data.
    - `efa_cards`: network cards that take an Elastic Fabric Adapter each; 0 where none is on record.
    """

    name: str
    gpu: str
    accelerator: str
    gpus: int
    usable_bytes_per_gpu: int
    usable_is_estimate: bool
    compute_capability: float
    vcpus: int
    memory_bytes: int
    instance_store_gb: int
    ebs_mb_per_s: int
    zone_ids: tuple[str, ...]
    efa_cards: int = 0


@cache
def instance_shapes() -> Mapping[str, InstanceShape]:
    """Every known instance type by name, in the order of the data file."""
    text = (resources.files("serving") / "data" / "instances.toml").read_text(encoding="utf-8")
    shapes: dict[str, InstanceShape] = {}
    for name, entry in tomllib.loads(text).items():
        if not isinstance(entry, dict):
            continue
        row = cast("dict[str, Any]", entry)
        published = row.get("usable_gib_per_gpu")
        usable = published * GIB if published is not None else row["api_mib_per_gpu"] * MIB * _USABLE_SHARE
        shapes[name] = InstanceShape(
            name=name,
            gpu=row["gpu"],
            accelerator=row["accelerator"],
            gpus=row["gpus"],
            usable_bytes_per_gpu=int(usable),
            usable_is_estimate=published is None,
            compute_capability=row["compute_capability"],
            vcpus=row["vcpus"],
            memory_bytes=row["memory_gib"] * GIB,
            instance_store_gb=row["instance_store_gb"],
            ebs_mb_per_s=row["ebs_mb_per_s"],
            zone_ids=tuple(row["zone_ids"]),
            efa_cards=row.get("efa_cards", 0),
        )
    return shapes


def instance_shapes_as_of() -> str:
    """The date of the instance data, such as `2026-11-29`."""
    text = (resources.files("serving") / "data" / "instances.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["as_of"])


def instance_shape(name: str) -> InstanceShape:
    """The instance type called `name`; raises UnknownFactError listing the known ones."""
    shapes = instance_shapes()
    if name not in shapes:
        raise UnknownFactError(f"instance type `{name}` is not known; known: {', '.join(shapes)}")
    return shapes[name]
