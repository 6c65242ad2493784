"""Reads a Hugging Face `config.json` value by value, gathers every fault in it, and remembers which keys decided.

`ConfigReader` never raises while it reads: a missing or absurd value becomes a fault and a harmless stand-in, so that
one run names everything that is wrong. `finish` raises.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from serving.errors import ConfigurationError, Fault
from serving.weights.recognise import is_lfs_pointer

_SHOWN_CHARACTERS = 80
_LARGEST = 1_000_000_000
Document = Mapping[str, Any]


class ConfigReader:
    """One level of a config: its values, the path to it, and the faults found so far."""

    def __init__(self, values: Document, path: str = "") -> None:
        """Read `values`, which stand at `path` (with a dot at its end) in the file."""
        self.values = values
        self.path = path
        self.faults: list[Fault] = []
        self.decided: dict[str, Any] = {}

    def has(self, key: str) -> bool:
        """Whether `key` is there and not null."""
        return self.values.get(key) is not None

    def take(self, key: str) -> Any:
        """The raw value of `key`, None where absent; the key counts as one that decided."""
        value = self.values.get(key)
        if value is not None:
            self.decided[key] = value
        return value

    def fault(self, key: str, value: object, accepted: str) -> None:
        """Note that `key` has the wrong `value`."""
        self.faults.append(Fault(self.path + key, shown(value), accepted))

    def require(self, condition: bool, key: str, accepted: str) -> None:
        """Note a fault of `key` where `condition` does not hold: two values contradict each other."""
        if not condition:
            self.fault(key, self.values.get(key), accepted)

    def integer(self, key: str, *, default: int | None = None, minimum: int = 1, maximum: int = _LARGEST) -> int:
        """A whole number; `default` where the key is absent, a fault where there is no default."""
        value = self.take(key)
        if value is None:
            if default is not None:
                return default
            self.fault(key, "nothing", f"a whole number of {minimum:,} or more; the key is missing")
            return minimum
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            self.fault(key, value, f"a whole number from {minimum:,} to {maximum:,}")
            return default if default is not None else minimum
        return value

    def boolean(self, key: str, *, default: bool) -> bool:
        """True or false; `default` where absent."""
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fault(key, value, "true or false")
            return default
        return value

    def text(self, key: str, *, default: str | None = None) -> str:
        """A text; `default` where absent, a fault where there is no default."""
        value = self.take(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value:
            self.fault(key, "nothing" if value is None else value, "a text")
            return default or ""
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty where absent."""
        return self._listed(key, lambda item: isinstance(item, str), "a list of texts")

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers, none below 0; empty where absent."""
        return self._listed(
            key,
            lambda item: isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= _LARGEST,
            "a list of whole numbers of 0 or more",
        )

    def section(self, key: str) -> "ConfigReader":
        """The object under `key`, empty where absent; its faults and deciding keys count here too."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, Mapping):
            self.fault(key, value, "an object")
            value = None
        inner = ConfigReader(cast("Document", value or {}), f"{self.path}{key}.")
        inner.faults = self.faults
        if value is not None:
            inner.decided = self.decided.setdefault(key, {})
        return inner

    def finish(self, where: str) -> None:
        """Raise ConfigurationError with all faults where there are any."""
        if self.faults:
            raise ConfigurationError(self.faults, where)

    def _listed(self, key: str, good: Callable[[object], bool], accepted: str) -> tuple[Any, ...]:
        value = self.take(key)
        if value is None:
            return ()
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.fault(key, cast("object", value), accepted)
            return ()
        items = tuple(cast("Sequence[object]", value))
        if not all(good(item) for item in items):
            self.fault(key, items, accepted)
            return ()
        return items


def shown(value: object) -> str:
    """`value` as a fault shows it: as JSON, shortened."""
    if isinstance(value, str):
        text = value
    else:
        try:
            text = json.dumps(value, default=str)
        except (TypeError, ValueError):
            text = str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def read_json(path: Path) -> Document:
    """The JSON object in the file at `path`.

    Raises ConfigurationError naming the file where it is missing, a Git LFS pointer, truncated, or not an object.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            [Fault(str(path), error.strerror or str(error), "a readable file")], path.name
        ) from error
    if is_lfs_pointer(raw):
        accepted = "the file itself: this is a Git LFS pointer, run `git lfs pull` or download it again"
        raise ConfigurationError([Fault(str(path), "a Git LFS pointer", accepted)], path.name)
    try:
        document: object = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        given = f"{len(raw):,} bytes that are no JSON ({error})"
        accepted = "a whole JSON file; a truncated one is to be downloaded again"
        raise ConfigurationError([Fault(str(path), given, accepted)], path.name) from error
    if not isinstance(document, Mapping):
        raise ConfigurationError([Fault(str(path), shown(document), "a JSON object")], path.name)
    return cast("Document", document)
