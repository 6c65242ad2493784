"""One table of a model's TOML file, read key by key; what is missing, of a wrong type or never read is refused."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from serving.errors import UnknownFactError


class Section:
    """A table and the words for where it stands; `finish` refuses keys that nothing has read."""

    def __init__(self, values: Mapping[str, Any] | None, where: str) -> None:
        """Read `values`; None stands for a table that is not there."""
        self.given = values is not None
        self._values = values or {}
        self._where = where
        self._read: set[str] = set()

    def text(self, key: str, *, default: str | None = None, empty: bool = False) -> str:
        """A text, `empty` only where that means something."""
        value = self._value(key, default)
        if not isinstance(value, str) or not (value or empty):
            raise self._wrong(key, value, "a text")
        return value

    def one_of(self, key: str, accepted: Sequence[str]) -> str:
        """One of the `accepted` texts."""
        value = self.text(key)
        if value not in accepted:
            raise self._wrong(key, value, " or ".join(accepted))
        return value

    def integer(self, key: str, *, default: int | None = None) -> int:
        """A whole number of 1 or more; `default` where the key is not there."""
        value = self._value(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or (value < 1 and value != default):
            raise self._wrong(key, value, "a whole number of 1 or more")
        return value

    def number(self, key: str) -> float | None:
        """A number of 0 or more, None where the key is not there."""
        self._read.add(key)
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value < 0:
            raise self._wrong(key, value, "a number of 0 or more")
        return float(value)

    def span(self, key: str) -> tuple[int, int]:
        """First and last of a range, both counted from 0."""
        accepted = "the first and the last, such as [0, 60]"
        items = self._items(key, accepted, None)
        whole = [item for item in items if isinstance(item, int) and not isinstance(item, bool)]
        if len(items) != 2 or len(whole) != 2 or not 0 <= whole[0] <= whole[1]:
            raise self._wrong(key, items, accepted)
        return whole[0], whole[1]

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self._value(key, None)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def texts(self, key: str, *, optional: bool = False) -> tuple[str, ...]:
        """A list of texts, empty where it is `optional` and not there."""
        items = self._items(key, "a list of texts", () if optional else None)
        texts = tuple(item for item in items if isinstance(item, str))
        if len(texts) != len(items):
            raise self._wrong(key, items, "a list of texts")
        return texts

    def mapping(self, key: str) -> Mapping[str, Any]:
        """The table under `key` as it stands."""
        value = self._value(key, None)
        if not isinstance(value, Mapping):
            raise self._wrong(key, value, "a table")
        return cast("Mapping[str, Any]", value)

    def section(self, key: str, *, optional: bool = False) -> "Section":
        """The table under `key`."""
        where = f"{self._where}, {key}"
        if optional and key not in self._values:
            return Section(None, where)
        return Section(self.mapping(key), where)

    def sections(self, key: str) -> "tuple[Section, ...]":
        """The list of tables under `key`, empty where it is not there."""
        found: list[Section] = []
        for index, item in enumerate(self._items(key, "a list of tables", ())):
            if not isinstance(item, Mapping):
                raise self._wrong(key, item, "a list of tables")
            found.append(Section(cast("Mapping[str, Any]", item), f"{self._where}, {key}[{index}]"))
        return tuple(found)

    def finish(self) -> None:
        """Raise UnknownFactError naming keys that nothing has read."""
        if unknown := self._values.keys() - self._read:
            raise UnknownFactError(f"{self._where}: has unknown keys {', '.join(sorted(unknown))}")

    def _items(self, key: str, accepted: str, default: Sequence[object] | None) -> Sequence[object]:
        value = self._value(key, default)
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self._wrong(key, value, accepted)
        return cast("Sequence[object]", value)

    def _value(self, key: str, default: object) -> object:
        self._read.add(key)
        value = self._values.get(key, default)
        if value is None:
            raise UnknownFactError(f"{self._where}: lacks the key `{key}`")
        return value

    def _wrong(self, key: str, value: object, accepted: str) -> UnknownFactError:
        return UnknownFactError(f"{self._where}: {key} is {value!r}; accepted: {accepted}")
