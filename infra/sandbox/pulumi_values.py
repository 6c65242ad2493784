"""Pulumi's wire values: secrets, assets and resource references inside protobuf structs."""

from collections.abc import Mapping
from typing import Any, cast

from google.protobuf import json_format, struct_pb2

from infra.sandbox.aws_resources.properties import UNKNOWN, whole_numbers
from serving.errors import DormouseError

_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 a mark of the protocol
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_REFERENCE = "5cf8f73096256a8f31e491e813e4eb8e"

MASKED = "[secret]"
"""What stands where a secret is shown."""


def from_wire(struct: struct_pb2.Struct) -> tuple[dict[str, Any], frozenset[str]]:
    """The plain values of a struct and the top-level properties that hold a secret anywhere.

    Raises DormouseError for assets and archives, which nothing here takes.
    """
    values: dict[str, Any] = json_format.MessageToDict(struct)
    secret: set[str] = set()
    plain: dict[str, Any] = {}
    for key, value in values.items():
        found: list[bool] = []
        plain[key] = whole_numbers(_unwrapped(value, found, key))
        if found:
            secret.add(key)
    return plain, frozenset(secret)


def _unwrapped(value: Any, secrets: list[bool], where: str) -> Any:
    if isinstance(value, list):
        return [_unwrapped(item, secrets, where) for item in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    mapping = cast("Mapping[str, Any]", value)
    signature = mapping.get(_SIGNATURE)
    if signature is None:
        return {key: _unwrapped(item, secrets, f"{where}.{key}") for key, item in mapping.items()}
    if signature == _SECRET:
        secrets.append(True)
        return _unwrapped(mapping.get("value"), secrets, where)
    if signature == _OUTPUT:
        if mapping.get("secret"):
            secrets.append(True)
        return _unwrapped(mapping["value"], secrets, where) if "value" in mapping else UNKNOWN
    if signature == _REFERENCE:
        return mapping.get("id") or mapping.get("urn")
    raise DormouseError(f"{where} is an asset or archive, which the simulated providers don't take; accepted: text")


def to_wire(values: Mapping[str, Any], secret_keys: frozenset[str] = frozenset()) -> struct_pb2.Struct:
    """Plain values as a struct; the properties in `secret_keys` are wrapped as secrets."""
    struct = struct_pb2.Struct()
    wrapped = {
        key: {_SIGNATURE: _SECRET, "value": value} if key in secret_keys else value for key, value in values.items()
    }
    json_format.ParseDict(wrapped, struct)
    return struct


def masked(values: Mapping[str, Any], secret_keys: frozenset[str]) -> dict[str, Any]:
    """`values` as they may be shown."""
    return {key: MASKED if key in secret_keys else value for key, value in values.items()}
