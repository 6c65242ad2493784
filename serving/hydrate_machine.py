"""The small machine that downloads weights: its type and what bounds it, from the data file."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class HydrateMachine:
    """The machine.

    - `disk_gib`: its root disk; nothing of the weights lies on it.
    - `ebs_baseline_bytes_per_s`: what it always moves to its volumes; `ebs_burst_bytes_per_s`: for a while each day.
    - `source`: where the figures come from.
    """

    instance_type: str
    disk_gib: int
    network: str
    ebs_baseline_bytes_per_s: int
    ebs_burst_bytes_per_s: int
    source: str


@cache
def hydrate_machine() -> HydrateMachine:
    """The machine that this release uses unless told otherwise."""
    text = (resources.files("serving") / "data" / "hydrate.toml").read_text(encoding="utf-8")
    return HydrateMachine(**tomllib.loads(text)["machine"])
