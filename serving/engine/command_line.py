"""Splitting free arguments into flags and values the way vLLM's own parser does.

That parser takes `--flag=value` and `--flag value`, underscores for dashes, `--config-flag.key=value` for one key of a
JSON flag, and `-O2` for the optimisation level.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from serving.engine.flags import EngineFlags, Flag, ValueCount

_NEGATIVE_NUMBER = re.compile(r"-\d+$|-\d*\.\d+$")
_OPTIMISATION = re.compile(r"-O=?(\d+)$")


@dataclass(frozen=True)
class GivenFlag:
    """One flag as it was given.

    - `index`: its place among the arguments. `spelling`: its name as vLLM reads it, without a value.
    - `flag`: None where vLLM knows none of that name.
    - `key`: the part after the first dot of `--flag.key`, else empty.
    - `attached`: the value came after `=`. `values`: all of its values.
    """

    index: int
    spelling: str
    flag: Flag | None
    key: str
    attached: bool
    values: tuple[str, ...]


@dataclass(frozen=True)
class StrayValue:
    """An argument that is no flag and that no flag takes; `after` is the flag before it, if any."""

    index: int
    text: str
    after: GivenFlag | None


def split_arguments(arguments: Sequence[str], known: EngineFlags) -> list[GivenFlag | StrayValue]:
    """Every flag with its values, and every value without a flag, in order."""
    found: list[GivenFlag | StrayValue] = []
    before: GivenFlag | None = None
    index = 0
    while index < len(arguments):
        token = arguments[index]
        if not is_flag(token):
            found.append(StrayValue(index, token, before))
            index += 1
            continue
        before = _flag(index, token, arguments, known)
        found.append(before)
        index += 1 if before.attached else 1 + len(before.values)
    return found


def is_flag(token: str) -> bool:
    """Whether vLLM reads `token` as a flag and not as a value."""
    return len(token) > 1 and token.startswith("-") and not _NEGATIVE_NUMBER.match(token)


def _flag(index: int, token: str, arguments: Sequence[str], known: EngineFlags) -> GivenFlag:
    if level := _OPTIMISATION.match(token):
        flag = known.flags["--optimization-level"]
        return GivenFlag(index, flag.name, flag, "", attached=True, values=(level[1],))
    name, equals, value = token.partition("=")
    base, _, key = name.partition(".")
    if base.startswith("--"):
        base = base.replace("_", "-")
    flag = known.spellings.get(base)
    if equals:
        return GivenFlag(index, base, flag, key, attached=True, values=(value,))
    following: list[str] = []
    for argument in arguments[index + 1 :]:
        if is_flag(argument) or len(following) >= _most_values(flag, key):
            break
        following.append(argument)
    return GivenFlag(index, base, flag, key, attached=False, values=tuple(following))


def _most_values(flag: Flag | None, key: str) -> int:
    # A flag that nobody knows is one fault and not two: the value behind it is taken for its own.
    if flag is None or key:
        return 1
    return {ValueCount.NONE: 0, ValueCount.OPTIONAL: 1, ValueCount.ONE: 1, ValueCount.SOME: 1 << 30}[flag.count]
