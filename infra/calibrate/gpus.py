"""The GPUs of this machine, as `nvidia-smi` names them; none where there is no such program."""

import csv
import subprocess
from dataclasses import dataclass

from serving.errors import UnknownFactError
from serving.gpu_boxes import gpu_names

_MIB_PER_GIB = 1024


@dataclass(frozen=True)
class Gpus:
    """`count` GPUs alike: their name as the planner knows it (empty for none), and the driver's version."""

    count: int
    name: str
    driver: str


def gpus_here(program: str = "nvidia-smi") -> Gpus:
    """What this machine has; raises UnknownFactError for a GPU that no data file knows."""
    rows = _asked(program, "name,driver_version")
    if not rows:
        return Gpus(0, "", "")
    said = rows[0][0]
    plain = said.upper().replace("-", " ")
    known = [name for name in gpu_names() if all(part.upper() in plain for part in name.split("-"))]
    if not known:
        raise UnknownFactError(f"{said}: no figures are known of this GPU; known: {', '.join(gpu_names())}")
    # Of `L4` and `L40S` the longer name is meant.
    return Gpus(len(rows), max(known, key=len), rows[0][1])


def used_gib(program: str = "nvidia-smi") -> float | None:
    """Memory in use on the fullest GPU in GiB, None without GPUs."""
    used = [float(row[0]) for row in _asked(program, "memory.used")]
    return round(max(used) / _MIB_PER_GIB, 2) if used else None


def _asked(program: str, fields: str) -> list[list[str]]:
    command = [program, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = csv.reader(found.stdout.splitlines(), skipinitialspace=True)
    return [[cell.strip() for cell in row] for row in rows if row]
