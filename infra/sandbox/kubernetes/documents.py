"""Reading optional parts of JSON documents."""

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]


def child(obj: Mapping[str, Any], field: str) -> Object:
    """The object in a field, or an empty one where there is none; for reading only."""
    return obj.get(field) or {}


def children(obj: Mapping[str, Any], field: str) -> list[Any]:
    """The list in a field, or an empty one where there is none; for reading only."""
    return obj.get(field) or []
