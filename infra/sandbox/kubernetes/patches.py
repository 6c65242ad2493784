"""The three patch languages: JSON merge patch, strategic merge patch and JSON patch.

Every function takes the old object untouched and gives a new one.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast

import jsonpatch

from infra.sandbox.kubernetes.documents import children
from infra.sandbox.kubernetes.refusals import Refusal, bad_request

_MERGE_KEYS: dict[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "secrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "conditions": "type",
    "topologySpreadConstraints": "topologyKey",
    "hostAliases": "ip",
    "taints": "key",
    "ownerReferences": "uid",
    "addresses": "type",
}
_SETS = {"finalizers"}


def merge_key(field: str, items: Sequence[Any]) -> str | None:
    """By which of its fields a list's items are matched, or None where the list is replaced whole."""
    if field == "ports":
        # A container's ports go by containerPort, a Service's by port.
        return "containerPort" if any("containerPort" in item for item in items) else "port"
    return _MERGE_KEYS.get(field)


def merge_patch(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7396: mappings merge, null removes, all else replaces."""
    new = dict(old)
    for field, value in patch.items():
        if value is None:
            new.pop(field, None)
        elif isinstance(value, Mapping):
            base = _mapping(new.get(field))
            new[field] = merge_patch(base, cast("Mapping[str, Any]", value))
        else:
            new[field] = copy.deepcopy(value)
    return new


def strategic_merge_patch(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Kubernetes' own: lists of known fields merge by their key, `$patch: delete|replace` and `$retainKeys` are obeyed."""
    if patch.get("$patch") == "replace":
        return copy.deepcopy({field: value for field, value in patch.items() if field != "$patch"})
    new = dict(old)
    if isinstance(retained := patch.get("$retainKeys"), list):
        new = {field: value for field, value in new.items() if field in retained}
    for field, value in patch.items():
        if field.startswith("$deleteFromPrimitiveList/"):
            name = field.split("/", 1)[1]
            taken = cast("list[Any]", value)
            new[name] = [item for item in children(new, name) if item not in taken]
        elif field.startswith("$"):
            continue
        elif value is None:
            new.pop(field, None)
        elif isinstance(value, Mapping):
            change = cast("Mapping[str, Any]", value)
            if change.get("$patch") == "delete":
                new.pop(field, None)
                continue
            base = _mapping(new.get(field))
            new[field] = strategic_merge_patch(base, change)
        elif isinstance(value, list):
            new[field] = _merge_list(field, children(new, field), cast("list[Any]", value))
        else:
            new[field] = value
    return new


def _mapping(value: Any) -> Mapping[str, Any]:
    """The value where it is an object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _merge_list(field: str, old: Sequence[Any], patch: Sequence[Any]) -> list[Any]:
    if field in _SETS:
        return [*old, *(item for item in patch if item not in old)]
    items = [cast("Mapping[str, Any]", item) for item in patch if isinstance(item, Mapping)]
    key = merge_key(field, [*old, *items])
    if key is None or len(items) != len(patch):
        return copy.deepcopy(list(patch))
    if any(item.get("$patch") == "replace" for item in items):
        return copy.deepcopy([item for item in items if "$patch" not in item])
    result: list[Any] = list(old)
    for item in items:
        if key not in item:
            raise bad_request(f"map: {dict(item)} does not contain declared merge key: {key}")
        at = next((index for index, present in enumerate(result) if present.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(strategic_merge_patch({}, item))
        else:
            result[at] = strategic_merge_patch(result[at], item)
    return result


def json_patch(old: Mapping[str, Any], operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """RFC 6902. Raises a 422 Refusal where an operation does not fit the object."""
    try:
        return jsonpatch.apply_patch(dict(old), list(operations), in_place=False)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        message = f"the server rejected our request due to an error in our request: {error}"
        raise Refusal(422, "Invalid", message) from error
