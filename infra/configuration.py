"""Typed reads of a stack's configuration that gather every fault instead of stopping at the first.

Values come as Pulumi's engine hands them over (text, with JSON inside for numbers and lists) or as a YAML file holds
them; both read the same.
"""

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast

from serving.errors import Fault

NAMESPACE = "dormouse"
_MISSING = object()


class ConfigurationReader:
    """The `dormouse:` keys of one stack, read with types; `faults` grows as reads find something wrong."""

    def __init__(self, values: Mapping[str, Any], known_keys: Sequence[str]) -> None:
        """Read from `values` by key without namespace; a key outside `known_keys` is a fault."""
        self._values = {key: value for key, value in values.items() if value not in ("", None)}
        self.faults: list[Fault] = []
        for key in values:
            if key not in known_keys:
                near = get_close_matches(key, known_keys, n=1)
                hint = f"did you mean {near[0]}? " if near else ""
                self.fault(key, "a key that nothing reads", f"{hint}the keys in Pulumi.yaml")

    def fault(self, key: str, value: str, accepted: str) -> None:
        """Note that `key`, given as `value`, is wrong."""
        self.faults.append(Fault(f"{NAMESPACE}:{key}", value, accepted))

    def has(self, key: str) -> bool:
        """True where the key has a value."""
        return key in self._values

    def text(self, key: str, accepted: str, default: str | None = None) -> str:
        """A text; `accepted` describes it in the fault of a missing one."""
        value = self._values.get(key, default)
        if value is None:
            self.fault(key, "nothing", accepted)
            return ""
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            self.fault(key, repr(value), accepted)
            return ""
        return str(value)

    def choice(self, key: str, accepted: Sequence[str], default: str | None = None) -> str:
        """One of the `accepted` texts."""
        value = self.text(key, ", ".join(accepted), default)
        if value and value not in accepted:
            near = get_close_matches(value, accepted, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            self.fault(key, value, ", ".join(accepted) + hint)
        return value

    def whole_number(self, key: str, minimum: int, maximum: int, default: int, unit: str = "") -> int:
        """A whole number between `minimum` and `maximum`."""
        value = _number(self._values.get(key, default))
        accepted = f"a whole number from {minimum:,} to {maximum:,}{' ' + unit if unit else ''}"
        if value is None or value != int(value) or not minimum <= value <= maximum:
            self.fault(key, str(self._values.get(key)), accepted)
            return default
        return int(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._values.get(key, default)
        if value in (True, "true"):
            return True
        if value not in (False, "false"):
            self.fault(key, repr(value), "true or false")
        return False

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty where the key is absent."""
        items = self._list(key, "a list of texts")
        if not all(isinstance(item, str) for item in items):
            self.fault(key, json.dumps(items), "a list of texts")
            return ()
        return tuple(str(item) for item in items)

    def objects(self, key: str, accepted: str) -> list[dict[str, Any]]:
        """A list of objects; at least one."""
        items = self._list(key, accepted)
        if not items and not any(fault.key == f"{NAMESPACE}:{key}" for fault in self.faults):
            self.fault(key, "nothing", accepted)
        objects: list[dict[str, Any]] = []
        for index, item in enumerate(items):
            if isinstance(item, dict):
                objects.append(cast("dict[str, Any]", item))
            else:
                self.fault(f"{key}[{index}]", repr(item), accepted)
        return objects

    def _list(self, key: str, accepted: str) -> list[object]:
        value = self._values.get(key, _MISSING)
        if value is _MISSING:
            return []
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                self.fault(key, value, accepted)
                return []
        if not isinstance(value, list):
            self.fault(key, repr(value), accepted)
            return []
        return list(cast("list[object]", value))


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None
