"""Property values as Pulumi sends them: comparing, matching against what AWS answers, and telling what is unknown."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

Properties = dict[str, Any]
"""Resource properties by their camelCase names."""

Shape = Mapping[str, "Shape | None"]
"""The argument names a table entry understands; None takes any value, a mapping describes an object or list of them."""

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""Stands for a value that a preview cannot know; the protocol of Pulumi's engine fixes the text."""

_UNKNOWNS = frozenset(
    {
        UNKNOWN,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)


def is_unknown(value: object) -> bool:
    """Whether `value` itself is one of the protocol's marks for an unknown."""
    return isinstance(value, str) and value in _UNKNOWNS


def holds_unknown(value: object) -> bool:
    """Whether an unknown stands anywhere in `value`."""
    if isinstance(value, Mapping):
        return any(holds_unknown(item) for item in cast("Mapping[str, object]", value).values())
    if isinstance(value, list):
        return any(holds_unknown(item) for item in cast("list[object]", value))
    return is_unknown(value)


def whole_numbers(value: Any) -> Any:
    """`value` with every whole float made an integer: the engine carries all numbers as doubles, boto3 wants integers."""
    if isinstance(value, Mapping):
        return {key: whole_numbers(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [whole_numbers(item) for item in cast("Sequence[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def absent(value: object) -> bool:
    """Whether `value` says no more than leaving the property out: None, False, 0 or empty."""
    return value is None or value is False or value in ("", 0) or (isinstance(value, (list, dict)) and not value)


def _json_document(value: str) -> Any:
    text = value.strip()
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def same(left: Any, right: Any, *, ordered: bool = False) -> bool:
    """Whether two property values mean the same to AWS.

    Numbers and booleans equal their text ("true", "8"), JSON texts are compared as documents, a missing key equals
    None, and lists are compared as sets unless `ordered`.
    """
    if left is right:
        return True
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        one, two = cast("Mapping[str, Any]", left), cast("Mapping[str, Any]", right)
        return all(same(one.get(key), two.get(key), ordered=ordered) for key in {*one, *two})
    if isinstance(left, list) and isinstance(right, list):
        first, second = cast("list[Any]", left), list(cast("list[Any]", right))
        if len(first) != len(second):
            return False
        for index, item in enumerate(first):
            # The same place is tried first, so that lists already in order cost no search.
            places = [index - (len(first) - len(second))] if ordered else range(len(second))
            place = next((at for at in places if same(item, second[at], ordered=ordered)), None)
            if place is None:
                return False
            second.pop(place)
        return True
    return _same_scalar(left, right)


def _same_scalar(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return str(left).lower() == str(right).lower()
    if isinstance(left, str) and isinstance(right, str):
        if left == right:
            return True
        document = _json_document(left)
        return document is not None and document == _json_document(right)
    if isinstance(left, (int, float, str)) and isinstance(right, (int, float, str)):
        try:
            return float(left) == float(right)
        except ValueError:
            return False
    return bool(left == right)


def merged(recorded: Any, live: Any) -> Any:
    """`live` as AWS answers it, written the way `recorded` was where both mean the same.

    So an order of subnets or a spacing of JSON that a user chose does not look like a change.
    """
    if same(recorded, live):
        return recorded
    if isinstance(recorded, Mapping) and isinstance(live, Mapping):
        known = cast("Mapping[str, Any]", recorded)
        return {
            key: merged(known[key], item) if key in known else item
            for key, item in cast("Mapping[str, Any]", live).items()
        }
    if isinstance(recorded, list) and isinstance(live, list):
        rest = list(cast("list[Any]", live))
        ordered: list[Any] = []
        for item in cast("list[Any]", recorded):
            place = next((at for at, other in enumerate(rest) if same(narrowed(item, other), item)), None)
            if place is not None:
                ordered.append(merged(item, rest.pop(place)))
        return ordered + rest
    return live


def narrowed(recorded: Any, live: Any, maps: Collection[str] = ()) -> Any:
    """The part of `live` that `recorded` speaks about; defaults that AWS filled in are left out.

    - `maps`: names of free-form maps (labels), where a key that was added by hand is a change.
    """
    if isinstance(recorded, Mapping) and isinstance(live, Mapping):
        wanted, found = cast("Mapping[str, Any]", recorded), cast("Mapping[str, Any]", live)
        result: Properties = {}
        for key, item in wanted.items():
            if key not in found or (found[key] is None and absent(item)):
                result[key] = item
            elif found[key] is not None:
                result[key] = found[key] if key in maps else narrowed(item, found[key], maps)
        return result
    if isinstance(recorded, list) and isinstance(live, list):
        given = cast("list[Any]", recorded)
        parts = [
            narrowed(given[min(at, len(given) - 1)], item, maps) if given else item
            for at, item in enumerate(cast("list[Any]", live))
        ]
        return given if same(given, parts) else parts
    return cast("Any", recorded if same(recorded, live) else live)


def differences(old: Any, new: Any, ordered_keys: Collection[str] = (), path: str = "") -> dict[str, str]:
    """The paths (`scalingConfig.maxSize`, `taints[0].key`) at which two values differ, each with add, delete or update."""
    last = path.rsplit(".", 1)[-1].split("[", 1)[0]
    if is_unknown(new) or is_unknown(old):
        return {path: "update"}
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        found: dict[str, str] = {}
        one, two = cast("Mapping[str, Any]", old), cast("Mapping[str, Any]", new)
        for key in [*one, *(key for key in two if key not in one)]:
            if key.startswith("__"):
                continue
            step = f'["{key}"]' if path and any(sign in key for sign in '."[]') else f".{key}" if path else key
            found.update(differences(one.get(key), two.get(key), ordered_keys, path + step))
        return found
    if same(old, new, ordered=last in ordered_keys):
        return {}
    if old is None or new is None:
        return {path: "add" if old is None else "delete"}
    if isinstance(old, list) and isinstance(new, list):
        found = {}
        first, second = cast("list[Any]", old), cast("list[Any]", new)
        for at in range(max(len(first), len(second))):
            before, after = (items[at] if at < len(items) else None for items in (first, second))
            found.update(differences(before, after, ordered_keys, f"{path}[{at}]"))
        return found
    return {path: "update"}


def unknown_keys(inputs: Mapping[str, Any], shape: Shape, prefix: str = "") -> list[tuple[str, list[str]]]:
    """Every key of `inputs` that `shape` does not have, as (path, names that are accepted there)."""
    found: list[tuple[str, list[str]]] = []
    for key, value in inputs.items():
        if key.startswith("__"):
            continue
        path = f"{prefix}{key}"
        if key not in shape:
            found.append((path, sorted(shape)))
            continue
        inner = shape[key]
        if inner is None:
            continue
        for at, item in enumerate(cast("list[Any]", value) if isinstance(value, list) else [value]):
            if isinstance(item, Mapping):
                place = f"{path}[{at}]." if isinstance(value, list) else f"{path}."
                found.extend(unknown_keys(cast("Mapping[str, Any]", item), inner, place))
    return found


def renamed(value: Any, rename: Callable[[str], str]) -> Any:
    """`value` with `rename` applied to every key at every depth; keys whose value is None are left out."""
    if isinstance(value, Mapping):
        return {
            rename(key): renamed(item, rename)
            for key, item in cast("Mapping[str, Any]", value).items()
            if item is not None
        }
    if isinstance(value, list):
        return [renamed(item, rename) for item in cast("list[Any]", value)]
    return value


def pascal(name: str) -> str:
    """`minSize` as `MinSize`."""
    return name[:1].upper() + name[1:]


def camel(name: str) -> str:
    """`MinSize` as `minSize`."""
    return name[:1].lower() + name[1:]


def picked(inputs: Mapping[str, Any], *names: str, **renames: str) -> Properties:
    """The inputs that are given, out of `names` and of `renames` (Pulumi's name = AWS's name)."""
    found = {name: inputs[name] for name in names if inputs.get(name) is not None}
    found.update({theirs: inputs[ours] for ours, theirs in renames.items() if inputs.get(ours) is not None})
    return found


def listed(mapping: Mapping[str, Any], key: str) -> list[Any]:
    """The list at `key`; empty where there is none."""
    return list(mapping.get(key) or ())


def nested(mapping: Mapping[str, Any], key: str) -> Properties:
    """The object at `key`; empty where there is none."""
    return dict(mapping.get(key) or {})


def changed(old: Mapping[str, Any], new: Mapping[str, Any], *names: str) -> bool:
    """Whether any of the top-level properties `names` differs."""
    return any(not same(old.get(name), new.get(name)) for name in names)


def covers(rule: str, path: str) -> bool:
    """Whether `rule` (without indices, or with) is `path` or something around it."""
    for candidate in (path, _without_indices(path)):
        if candidate == rule or candidate.startswith((f"{rule}.", f"{rule}[")):
            return True
    return False


def _without_indices(path: str) -> str:
    return "".join(part.split("]", 1)[-1] if at else part for at, part in enumerate(path.split("[")))
