"""Reading component arguments as they come from any Pulumi language.

The component host hands every argument over as a plain dictionary with snake_case keys, whole numbers as floats and
enums by value, so each component takes its arguments through these functions before it registers anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pulumi


class Arguments:
    """One component's arguments: typed reads that gather every fault, raised together by `check`."""

    def __init__(self, component: str, values: Mapping[str, Any]) -> None:
        """Read from `values`; `component` names the component in messages."""
        self._component = component
        self._values = values
        self._faults: list[tuple[str, str]] = []

    def fault(self, key: str, reason: str) -> None:
        """Note that `key` is wrong; `reason` says what was given and what is accepted."""
        self._faults.append((key, reason))

    def whole_number(self, key: str, default: int | None = None, minimum: int = 0, maximum: int = 10**9) -> int:
        """An integer between `minimum` and `maximum`; a float without a fraction is one."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or int(value) != value:
            self.fault(key, f"got {value!r}; accepted: a whole number from {minimum} to {maximum}")
            return minimum
        if not minimum <= value <= maximum:
            self.fault(key, f"got {int(value)}; accepted: a whole number from {minimum} to {maximum}")
        return int(value)

    def text(self, key: str, default: str | None = None) -> str:
        """A plain, non-empty string."""
        value = self._values.get(key, default)
        if not isinstance(value, str) or not value:
            self.fault(key, f"got {value!r}; accepted: a text that is not empty")
            return ""
        return value

    def optional_text(self, key: str) -> str | None:
        """A plain string, or None where it is absent."""
        return self.text(key) if self._values.get(key) is not None else None

    def one_of(self, key: str, accepted: tuple[str, ...], default: str | None = None) -> str:
        """One of the `accepted` texts; an enum counts by its value."""
        value = self._values.get(key, default)
        value = getattr(value, "value", value)
        if value not in accepted:
            self.fault(key, f"got {value!r}; accepted: {', '.join(accepted)}")
            return accepted[0]
        return str(value)

    def texts(self, key: str, at_least: int = 0) -> list[str]:
        """A plain list of strings with `at_least` members."""
        value = self._values.get(key)
        items = list(cast("Sequence[Any]", value)) if isinstance(value, (list, tuple)) else []
        if (value is not None and not isinstance(value, (list, tuple))) or not all(isinstance(i, str) for i in items):
            self.fault(key, f"got {value!r}; accepted: a list of texts")
            return []
        if len(items) < at_least:
            self.fault(key, f"got {len(items)} entries; accepted: at least {at_least}")
        return items

    def tags(self, key: str = "tags") -> dict[str, str]:
        """A mapping of tags, empty where it is absent."""
        return dict(self._values.get(key) or {})

    def given(self, key: str) -> Any:
        """The argument as it is: a value, an Output, or None."""
        return self._values.get(key)

    def required(self, key: str) -> Any:
        """The argument as it is; a fault where it is absent."""
        value = self._values.get(key)
        if value is None:
            self.fault(key, "got nothing; it is required")
        return value

    def check(self) -> None:
        """Raise one error with every fault found so far, or return."""
        if not self._faults:
            return
        text = "; ".join(f"{key}: {reason}" for key, reason in self._faults)
        raise pulumi.InputPropertiesError(
            f"{self._component}: {text}",
            [{"property_path": key, "reason": reason} for key, reason in self._faults],
        )
