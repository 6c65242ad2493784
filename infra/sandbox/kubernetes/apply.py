"""Server-side apply: who owns which field, conflicts between owners, and removal of what an owner no longer applies.

Ownership is kept for appliers; fields that were written by plain updates belong to nobody here.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.patches import merge_key
from infra.sandbox.kubernetes.refusals import Refusal

Path = tuple[str, ...]

_NOT_OWNED: set[Path] = {("f:apiVersion",), ("f:kind",), ("f:metadata", "f:name"), ("f:metadata", "f:namespace")}


def apply(
    old: Mapping[str, Any] | None, applied: Mapping[str, Any], manager: str, force: bool, time: str
) -> dict[str, Any]:
    """The object after `manager` applied `applied`; `old` is None where it is created.

    Raises a 409 Refusal naming the fields that another manager applied with another value, unless `force`.
    """
    before = dict(old or {})
    owners = _owners(before)
    paths = {path for path in _leaves(applied) if path not in _NOT_OWNED}
    conflicts: list[tuple[str, Path]] = []
    for other, owned in owners.items():
        if other != manager:
            shared = sorted(paths & owned)
            conflicts += [(other, path) for path in shared if _value(before, path) != _value(applied, path)]
    if conflicts and not force:
        raise _conflict(conflicts)
    for other, path in conflicts:
        owners[other].discard(path)
    new = _merge(before, applied)
    kept = set[Path]().union(*(owned for other, owned in owners.items() if other != manager))
    for path in sorted(owners.get(manager, set()) - paths - kept, key=len, reverse=True):
        if not any(longer[: len(path)] == path for longer in paths | kept):
            _remove(new, path)
    owners[manager] = paths
    new["metadata"] = {
        **new.get("metadata", {}),
        "managedFields": [
            {
                "manager": name,
                "operation": "Apply",
                "apiVersion": str(applied.get("apiVersion", "v1")),
                "time": time,
                "fieldsType": "FieldsV1",
                "fieldsV1": _nested(owned),
            }
            for name, owned in sorted(owners.items())
            if owned
        ],
    }
    return new


def _item_key(field: str, items: Sequence[Any]) -> str | None:
    return merge_key(field, items) if items and all(isinstance(item, Mapping) for item in items) else None


def _leaves(value: Mapping[str, Any], prefix: Path = ()) -> set[Path]:
    found: set[Path] = set()
    for field, inner in value.items():
        path = (*prefix, f"f:{field}")
        if isinstance(inner, Mapping) and inner:
            found |= _leaves(cast("Mapping[str, Any]", inner), path)
        elif isinstance(inner, list) and (key := _item_key(field, cast("list[Any]", inner))):
            for item in cast("list[dict[str, Any]]", inner):
                step = "k:" + json.dumps({key: item.get(key)}, separators=(",", ":"))
                found |= _leaves(item, (*path, step)) | {(*path, step)}
        else:
            found.add(path)
    return found


def _step(value: Any, step: str) -> Any:
    if step.startswith("f:"):
        return cast("Mapping[str, Any]", value).get(step[2:]) if isinstance(value, Mapping) else None
    ((key, wanted),) = json.loads(step[2:]).items()
    items = cast("list[Any]", value) if isinstance(value, list) else []
    mappings = (cast("Mapping[str, Any]", item) for item in items if isinstance(item, Mapping))
    return next((item for item in mappings if item.get(key) == wanted), None)


def _value(obj: Any, path: Path) -> Any:
    for step in path:
        obj = _step(obj, step)
    # A list's item is owned as such; its own fields are compared one by one.
    return None if path[-1].startswith("k:") else obj


def _merge(old: Mapping[str, Any], applied: Mapping[str, Any]) -> dict[str, Any]:
    new = copy.deepcopy(dict(old))
    for field, value in applied.items():
        if isinstance(value, Mapping) and isinstance(new.get(field), dict):
            new[field] = _merge(child(new, field), cast("Mapping[str, Any]", value))
        elif isinstance(value, list) and (key := _item_key(field, cast("list[Any]", value))):
            items = children(new, field)
            for item in cast("list[dict[str, Any]]", value):
                at = next((index for index, one in enumerate(items) if one.get(key) == item.get(key)), None)
                if at is None:
                    items.append(copy.deepcopy(item))
                else:
                    items[at] = _merge(items[at], item)
            new[field] = items
        else:
            new[field] = copy.deepcopy(cast("Any", value))
    return new


def _remove(obj: dict[str, Any], path: Path) -> None:
    parent: Any = obj
    for step in path[:-1]:
        parent = _step(parent, step)
    if parent is None:
        return
    last = path[-1]
    if last.startswith("f:"):
        parent.pop(last[2:], None)
    elif (item := _step(parent, last)) is not None:
        parent.remove(item)


def _owners(obj: Mapping[str, Any]) -> dict[str, set[Path]]:
    entries: Sequence[Mapping[str, Any]] = children(child(obj, "metadata"), "managedFields")
    return {entry["manager"]: _flat(child(entry, "fieldsV1")) for entry in entries}


def _flat(nested: Mapping[str, Any], prefix: Path = ()) -> set[Path]:
    found: set[Path] = set()
    for step, inner in nested.items():
        if step == "." or not inner:
            found.add(prefix if step == "." else (*prefix, step))
        else:
            found |= _flat(inner, (*prefix, step))
    return found


def _nested(paths: set[Path]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        branch = tree
        for step in path:
            branch = branch.setdefault(step, {})
        if path[-1].startswith("k:"):
            branch["."] = {}
    return tree


def _conflict(conflicts: Sequence[tuple[str, Path]]) -> Refusal:
    by_manager: dict[str, list[str]] = {}
    for manager, path in conflicts:
        words = "".join(
            f".{step[2:]}" if step.startswith("f:") else f"[{step[3:-1].replace(':', '=')}]" for step in path
        )
        by_manager.setdefault(manager, []).append(words)
    parts: list[str] = []
    for manager, fields in by_manager.items():
        start = f'conflict with "{manager}"' if len(fields) == 1 else f'conflicts with "{manager}"'
        parts.append(f"{start}: {fields[0]}" if len(fields) == 1 else f"{start}:\n- " + "\n- ".join(fields))
    count = "1 conflict" if len(conflicts) == 1 else f"{len(conflicts)} conflicts"
    message = f"Apply failed with {count}: " + "\n".join(parts)
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{manager}"', "field": ".".join(path)}
        for manager, path in conflicts
    ]
    return Refusal(409, "Conflict", message, {"causes": causes})
