"""Kubernetes quantities: `8`, `500m`, `1950Gi`."""

import re
from decimal import Decimal

PATTERN = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
"""The regular expression that the API server names when it refuses a quantity."""

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?")
_DECIMAL = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def parse_quantity(text: str | float) -> Decimal:
    """The quantity's number: bytes, cores or whole devices. Raises ValueError where it is none."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"quantities must match the regular expression '{PATTERN}'")
    number, suffix = Decimal(match[1]), match[2] or ""
    if suffix in _BINARY[1:]:
        return number * Decimal(1024) ** _BINARY.index(suffix)
    if suffix in _DECIMAL:
        return number.scaleb(_DECIMAL[suffix])
    return number.scaleb(int(suffix[1:]))
