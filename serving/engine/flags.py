"""What the pinned vLLM accepts: every flag of `vllm serve`, the flags that are gone, and those that Dormouse owns.

The data was read from the parser of that version; nothing here is remembered or guessed.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any, cast


class ValueKind(StrEnum):
    """What a flag's value is."""

    TEXT = "text"
    INTEGER = "int"
    NUMBER = "float"
    SWITCH = "bool"
    JSON = "json"
    JSON_OR_TEXT = "json_or_text"
    HUMAN_INTEGER = "human_int"
    """A whole number, or with a suffix: 8k is 8,000, 8K is 8,192."""
    HUMAN_INTEGER_OR_AUTO = "human_int_or_auto"


class ValueCount(StrEnum):
    """How many values follow a flag."""

    NONE = "none"
    OPTIONAL = "optional"
    ONE = "one"
    SOME = "some"


@dataclass(frozen=True)
class Flag:
    """One flag of `vllm serve`.

    - `aliases`: its short forms, such as `-tp`. `negation`: the form that turns a switch off, or None.
    - `choices`: every accepted value; empty where any value of the kind is.
    - `config_fields`: the keys of its JSON object; empty where they are not known.
    - `repeatable`: may be given several times.
    """

    name: str
    kind: ValueKind
    count: ValueCount
    aliases: tuple[str, ...]
    negation: str | None
    choices: tuple[str, ...]
    config_fields: tuple[str, ...]
    repeatable: bool


@dataclass(frozen=True)
class RemovedFlag:
    """A flag of older versions: what replaced it and since when, both as ends of sentences."""

    name: str
    instead: str
    gone: str


@dataclass(frozen=True)
class OwnedFlag:
    """A flag that a user may not set: what to use instead, and whether its value is a secret."""

    name: str
    instead: str
    secret: bool


@dataclass(frozen=True)
class EngineFlags:
    """The flags, parsers and variables of one version of vLLM; `spellings` maps every form of a flag to it."""

    version: str
    as_of: str
    source: str
    flags: Mapping[str, Flag]
    spellings: Mapping[str, Flag]
    registries: Mapping[str, tuple[str, ...]]
    environment: frozenset[str]

    def nearest(self, spelling: str) -> tuple[str, ...]:
        """Up to two flags that `spelling` may have meant: what it begins, else what looks like it."""
        begun = [name for name in self.flags if len(spelling) > 3 and name.startswith(spelling)]
        if begun:
            return tuple(sorted(begun, key=len))[:2]
        negated = spelling.startswith("--no-")
        forms = [form for form in self.spellings if form.startswith("--no-") == negated]
        return tuple(get_close_matches(spelling, forms, n=2, cutoff=0.8)) if len(spelling) > 2 else ()


@cache
def engine_flags() -> EngineFlags:
    """The flags of the vLLM that this release deploys."""
    document = cast("dict[str, Any]", json.loads(_text("vllm_flags.json")))
    rows = cast("dict[str, dict[str, Any]]", document["flags"])
    registries = {name: tuple(values) for name, values in document["registries"].items()}
    flags: dict[str, Flag] = {}
    for name, row in rows.items():
        choices = registries[row["registry"]] if "registry" in row else tuple(row.get("choices", ()))
        flags[name] = Flag(
            name=name,
            kind=ValueKind(row["kind"]),
            count=ValueCount(row["values"]),
            aliases=tuple(row.get("aliases", ())),
            negation=row.get("negation"),
            choices=choices,
            config_fields=tuple(document["config_fields"].get(row.get("config"), ())),
            repeatable=bool(row.get("repeatable")),
        )
    spellings = {
        spelling: flag
        for flag in flags.values()
        for spelling in (flag.name, *flag.aliases, *((flag.negation,) if flag.negation else ()))
    }
    return EngineFlags(
        version=document["version"],
        as_of=document["as_of"],
        source=document["source"],
        flags=flags,
        spellings=spellings,
        registries=registries,
        environment=frozenset(document["environment"]),
    )


@cache
def removed_flags() -> Mapping[str, RemovedFlag]:
    """Flags that older guides name and the pinned vLLM no longer knows."""
    version = engine_flags().version
    removed: dict[str, RemovedFlag] = {}
    for name, entry in tomllib.loads(_text("vllm_removed_flags.toml")).items():
        if not isinstance(entry, dict):
            continue
        row = cast("dict[str, str]", entry)
        if "gone_since" in row:
            gone = f"removed in vLLM {row['gone_since']}"
        elif "gone_after" in row:
            gone = f"removed from vLLM after {row['gone_after']}"
        else:
            gone = f"no longer in vLLM {version}"
        removed[name] = RemovedFlag(name, row["instead"], gone)
    return removed


@cache
def owned_flags() -> Mapping[str, OwnedFlag]:
    """Flags that Dormouse sets or guards, so that a user's own arguments may not."""
    groups = cast("list[dict[str, Any]]", tomllib.loads(_text("vllm_owned_flags.toml"))["group"])
    return {
        name: OwnedFlag(name, str(group["instead"]), bool(group.get("secret")))
        for group in groups
        for name in cast("list[str]", group["flags"])
    }


@cache
def uncounted_flags() -> frozenset[str]:
    """Flags that a user may set and whose effect on GPU memory no plan follows."""
    return frozenset(tomllib.loads(_text("vllm_owned_flags.toml"))["uncounted"])


def _text(name: str) -> str:
    return (resources.files("serving") / "data" / name).read_text(encoding="utf-8")
