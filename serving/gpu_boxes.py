"""Machines that are not an EC2 type: so many GPUs of one kind in a box, written as `8xH100`."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, cast

from serving.accelerators import InstanceShape, instance_shapes
from serving.errors import ConfigurationError, Fault
from serving.units import GIB

_MOST_GPUS = 64


def gpu_names() -> tuple[str, ...]:
    """The GPUs that a box can be made of, such as `A100-80`."""
    return tuple(_document()["gpu"])


def shown_boxes() -> tuple[InstanceShape, ...]:
    """The boxes that a table over machines lists beside EC2's types."""
    return tuple(gpu_box(text) for text in _document()["boxes"]["shown"])


def gpu_box(text: str) -> InstanceShape:
    """The box that `text` names: `8xH100`, `2 × A100-80`, or `H200` for one.

    It has no zones, no price and, since nothing is known of it, 0 for processors, memory and disks.
    Raises ConfigurationError naming the GPUs that are known.
    """
    found = re.fullmatch(r"\s*(?:(\d{1,3})\s*[x×*]\s*)?([A-Za-z][\w -]*?)\s*", text)
    names = {_plain(name): name for name in gpu_names()}
    count = int(found[1] or 1) if found else 0
    name = names.get(_plain(found[2])) if found else None
    if name is None or not 1 <= count <= _MOST_GPUS:
        raise ConfigurationError(
            [Fault("hardware", repr(text), f"GPUs as 2xA100-80; known: {', '.join(gpu_names())}")], "the command line"
        )
    row = cast("Mapping[str, Any]", _document()["gpu"][name])
    return InstanceShape(
        name=f"{count}x{name}",
        gpu=name,
        accelerator="",
        gpus=count,
        usable_bytes_per_gpu=int(row["usable_gib"] * GIB),
        usable_is_estimate=bool(row.get("estimate", False)),
        compute_capability=row["compute_capability"],
        vcpus=0,
        memory_bytes=0,
        instance_store_gb=0,
        ebs_mb_per_s=0,
        zone_ids=(),
    )


def machine(text: str) -> InstanceShape:
    """An EC2 instance type or a box; raises ConfigurationError naming what is known of both."""
    if text in instance_shapes():
        return instance_shapes()[text]
    try:
        return gpu_box(text)
    except ConfigurationError as error:
        known = f"{', '.join(instance_shapes())}, or GPUs as 2xA100-80 of {', '.join(gpu_names())}"
        raise ConfigurationError([Fault("machine", repr(text), known)], "the command line") from error


def _plain(name: str) -> str:
    """A GPU's name without case and separators, so that `a100 80` is `A100-80` and `80GB` too."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removesuffix("gb")


@cache
def _document() -> Mapping[str, Any]:
    text = (resources.files("serving") / "data" / "gpus.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
