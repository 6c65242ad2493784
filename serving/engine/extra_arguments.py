"""A user's own arguments for vLLM, checked before anything is deployed.

A wrong flag shows up in vLLM only after a machine was found and the pod was started; here it is a fault of the
configuration: flags that do not exist, that are gone, that contradict the plan, or whose value cannot be read.
"""

import json
import math
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import cast

from serving.engine.command_line import GivenFlag, StrayValue, split_arguments
from serving.engine.flags import Flag, ValueCount, ValueKind, engine_flags, owned_flags, removed_flags
from serving.errors import Fault
from serving.units import GIB

_HUMAN_INTEGER = re.compile(r"\d+[KMGT]?$|\d+(\.\d+)?[kmgt]$")
_KV_OFFLOADING = "--kv-offloading-size"
_SUFFIXES = "a whole number, or with a suffix such as 8k (8,000) or 8K (8,192)"


def extra_argument_faults(
    arguments: Sequence[str], key: str = "extraArgs", *, guarded: bool = True
) -> tuple[Fault, ...]:
    """Everything wrong with `arguments`, one entry each as in a container's `args`; faults stand at `key[index]`.

    - `guarded`: refuse the flags that Dormouse sets itself; not so for a whole command line of somebody else's.

    The value of a flag that holds a secret is never repeated.
    """
    faults: list[Fault] = []
    first: dict[str, int] = {}
    for found in split_arguments(arguments, engine_flags()):
        place = f"{key}[{found.index}]"
        if isinstance(found, StrayValue):
            faults.append(Fault(place, _shown_stray(found), _stray(found)))
            continue
        shown, accepted = _fault(found, arguments[found.index], guarded)
        if accepted is None and found.flag is not None and not found.flag.repeatable:
            name = f"{found.flag.name}.{found.key}" if found.key else found.flag.name
            if name in first:
                accepted = f"{name} once; it stands at {key}[{first[name]}] already"
            first.setdefault(name, found.index)
        if accepted is not None:
            faults.append(Fault(place, shown, accepted))
    return tuple(faults)


def given_flags(arguments: Sequence[str]) -> frozenset[str]:
    """The full names of the flags that `arguments` set, such as `--enforce-eager` for `--no-enforce-eager` too."""
    found = split_arguments(arguments, engine_flags())
    return frozenset(given.flag.name for given in found if isinstance(given, GivenFlag) and given.flag is not None)


def kv_offload_bytes(arguments: Sequence[str]) -> int:
    """Bytes of host memory that `arguments` ask for as a second KV cache (`--kv-offloading-size`, GiB); else 0."""
    for given in split_arguments(arguments, engine_flags()):
        if isinstance(given, GivenFlag) and given.flag is not None and given.flag.name == _KV_OFFLOADING:
            value = _number(given.values[0]) if given.values else None
            return max(0, int((value or 0) * GIB))
    return 0


def _fault(given: GivenFlag, token: str, guarded: bool) -> tuple[str, str | None]:
    """How the argument is shown, and what would be accepted instead; None where nothing is wrong."""
    flag = given.flag
    if flag is None:
        # Without its value: it may be a misspelt --api-key.
        return given.spelling.partition(" ")[0], _unknown(given)
    owned = owned_flags().get(flag.name)
    if owned is not None and (guarded or owned.secret):
        if not guarded:
            return f"{given.spelling}=…", None
        return f"{given.spelling}=…" if owned.secret else _shown(token), owned.instead
    shown = _shown(token if given.attached else " ".join((token, *given.values)))
    texts = (token, *given.values)
    if any("$(" in text for text in texts):
        # Kubernetes replaces $(NAME) by the variable: the key would stand in the list of processes.
        return shown, "values without $(…), which Kubernetes would replace by a variable of the container"
    if given.key:
        return shown, _key_fault(flag, given)
    return shown, _count_fault(flag, given) or next(
        (fault for value in given.values if (fault := _value_fault(flag, value)) is not None), None
    )


def _unknown(given: GivenFlag) -> str:
    known = engine_flags()
    if (removed := removed_flags().get(given.spelling)) is not None:
        return f"{removed.instead} ({given.spelling} was {removed.gone})".replace("was no longer", "is no longer")
    if " " in given.spelling:
        name = given.spelling.partition(" ")[0]
        return f"the flag and its value as two entries, or one joined by an equals sign: {name}=…"
    near = known.nearest(given.spelling)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{hint}the flags of vllm serve {known.version}"


def _stray(stray: StrayValue) -> str:
    flag = stray.after.flag if stray.after is not None else None
    if stray.after is None or flag is None or flag.count is not ValueCount.NONE:
        return "a flag first; a value stands behind the flag that takes it"
    off = f", and {flag.negation} turns it off" if flag.negation else ""
    return f"nothing here: {flag.name} takes no value{off}"


def _count_fault(flag: Flag, given: GivenFlag) -> str | None:
    if flag.count is ValueCount.NONE:
        if not given.attached:
            return None
        off = f" to turn it on, {flag.negation} to turn it off" if flag.negation else ", without a value"
        return f"{flag.name}{off}"
    if flag.count in (ValueCount.ONE, ValueCount.SOME) and not given.values:
        return f"{flag.name} with {_accepted(flag)}"
    return None


def _key_fault(flag: Flag, given: GivenFlag) -> str | None:
    if flag.kind not in (ValueKind.JSON, ValueKind.JSON_OR_TEXT):
        return f"{flag.name} with {_accepted(flag)}; it has no keys"
    if not given.values:
        return f"a value for {flag.name}.{given.key}"
    return _field_fault(flag, given.key.partition(".")[0])


def _field_fault(flag: Flag, field: str) -> str | None:
    # Underscores and dashes are one in vLLM's flags, and so in the keys behind a dot.
    if not flag.config_fields or field.replace("-", "_") in flag.config_fields:
        return None
    near = get_close_matches(field, flag.config_fields, n=1)
    if near:
        return f"did you mean {near[0]}? the keys of {flag.name}"
    return f"the keys of {flag.name}: {', '.join(flag.config_fields)}"


def _value_fault(flag: Flag, value: str) -> str | None:
    if flag.choices:
        near = get_close_matches(value, flag.choices, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return None if value in flag.choices else f"{hint}{_accepted(flag)}"
    if flag.kind is ValueKind.JSON:
        return _json_fault(flag, value)
    readable = {
        ValueKind.INTEGER: bool(re.fullmatch(r"[+-]?\d+", value)),
        ValueKind.NUMBER: _number(value) is not None,
        ValueKind.HUMAN_INTEGER: bool(_HUMAN_INTEGER.match(value)),
        ValueKind.HUMAN_INTEGER_OR_AUTO: value in ("auto", "-1") or bool(_HUMAN_INTEGER.match(value)),
    }
    if flag.name == _KV_OFFLOADING and (_number(value) or 0) <= 0:
        return "GiB of host memory, above 0"
    return None if readable.get(flag.kind, bool(value)) else _accepted(flag)


def _json_fault(flag: Flag, value: str) -> str | None:
    try:
        document = cast("object", json.loads(value))
    except ValueError as error:
        return f"{_accepted(flag)} ({error})"
    if not flag.config_fields:
        return None
    if not isinstance(document, dict):
        return _accepted(flag)
    keys = cast("dict[str, object]", document)
    return next((fault for key in keys if (fault := _field_fault(flag, key)) is not None), None)


def _accepted(flag: Flag) -> str:
    if flag.choices:
        return ", ".join(flag.choices)
    return {
        ValueKind.INTEGER: "a whole number",
        ValueKind.NUMBER: "a number",
        ValueKind.JSON: "a JSON object" if flag.config_fields else "JSON",
        ValueKind.HUMAN_INTEGER: _SUFFIXES,
        ValueKind.HUMAN_INTEGER_OR_AUTO: f"{_SUFFIXES}, or auto",
    }.get(flag.kind, "a value")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _shown_stray(stray: StrayValue) -> str:
    """The value, unless it may be a secret of the flag before it."""
    after = stray.after
    if after is None or (after.flag is not None and not _secret(after.flag)):
        return _shown(stray.text)
    return "a value"


def _secret(flag: Flag) -> bool:
    owned = owned_flags().get(flag.name)
    return owned is not None and owned.secret


def _shown(text: str) -> str:
    return text if text.strip() else repr(text)
