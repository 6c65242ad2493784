"""Bytes, GiB and seconds: the only place where units are converted or written out.

Inside Dormouse sizes are whole bytes and times are seconds. GiB is 2^30 bytes, GB is 10^9 bytes; disks and models are
sold in GB, memory and EBS volumes are measured in GiB, and the difference is 7 %.
"""

import math

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
GB = 10**9


def gib_from_bytes(count: float) -> float:
    """GiB in `count` bytes."""
    return count / GIB


def bytes_from_gib(gib: float) -> int:
    """Whole bytes in `gib` GiB, rounded down."""
    return int(gib * GIB)


def gib_text(count: float, digits: int = 1) -> str:
    """`count` bytes as text in GiB, such as `71.8 GiB`."""
    return f"{count / GIB:,.{digits}f} GiB"


def gb_text(count: float) -> str:
    """`count` bytes as text in GB, such as `595.1 GB`."""
    return f"{count / GB:,.1f} GB"


def duration_text(seconds: float) -> str:
    """`seconds` as a person says it: `45 s`, `12 min`, `2 h 05 min`."""
    seconds = max(0.0, seconds)
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = math.floor(seconds / 60 + 0.5)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def round_up(value: float, step: int) -> int:
    """The smallest multiple of `step` that is not below `value`."""
    return math.ceil(value / step) * step
