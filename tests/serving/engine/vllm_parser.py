"""vLLM's own argument parser, built anew from the list of its flags that was read from the program itself."""

import argparse
import json
import re
from pathlib import Path
from typing import Any, NoReturn

import pytest

FACTS = Path(__file__).parents[4] / "shared" / "facts"


def facts(name: str) -> dict[str, Any]:
    path = FACTS / name
    if not path.exists():
        pytest.skip(f"{name} is not on this machine")
    return json.loads(path.read_text(encoding="utf-8"))


class RefusedError(Exception):
    pass


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RefusedError(message)


def _human(text: str) -> int:
    if not re.fullmatch(r"\d+(\.\d+)?[kmgt]|\d+[KMGT]?", text):
        raise ValueError(text)
    if text.isdigit():
        return int(text)
    power = "kmgt".index(text[-1].lower()) + 1
    return int(float(text[:-1]) * (1000 if text[-1].islower() else 1024) ** power)


def _auto(text: str) -> int:
    return -1 if text in ("auto", "-1") else _human(text)


def vllm_parser() -> argparse.ArgumentParser:
    known = facts("vllm_0_32_flags.json")
    registries = {
        "--tool-call-parser": "tool_call_parsers",
        "--reasoning-parser": "reasoning_parsers",
        "--load-format": "load_formats",
    }
    types = {"int": int, "float": float, "json": json.loads, "human_int": _human, "str": str}
    parser = _Parser(allow_abbrev=False, add_help=False)
    parser.add_argument("model_tag", nargs="?")
    for name, row in known["flags"].items():
        spellings = [spelling for spelling in row["flags"] if not spelling.startswith("--no-")]
        if row["kind"] == "bool":
            negated = len(spellings) < len(row["flags"])
            parser.add_argument(
                *spellings,
                action=argparse.BooleanOptionalAction if negated else "store_true",
                dest=row["dest"],
            )
            continue
        kind = _auto if row["type"] == "human_readable_int_or_auto" else types[row["kind"]]
        if row["type"] == "union_dict_and_str":
            kind = str
        choices = known["registries"][registries[name]] if name in registries else row["choices"]
        choices = None if choices is None else [choice for choice in choices if choice is not None]
        parser.add_argument(*spellings, type=kind, nargs=row["nargs"], choices=choices, dest=row["dest"])
    return parser


def parsed(arguments: list[str]) -> dict[str, Any]:
    """What vLLM would read; raises RefusedError with the parser's own words."""
    return {name: value for name, value in vars(vllm_parser().parse_args(arguments)).items() if value is not None}
