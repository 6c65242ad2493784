"""Which kind of input a text is, and what is wrong in it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from serving.accelerators import InstanceShape
from serving.diagnosis.answers import diagnose_exchange
from serving.diagnosis.command import diagnose_command
from serving.diagnosis.command_text import read_command
from serving.diagnosis.finding import Finding
from serving.diagnosis.log import diagnose_log
from serving.diagnosis.manifest import diagnose_manifest
from serving.diagnosis.slow import diagnose_slow


class InputKind(StrEnum):
    """What a text is."""

    LOG = "a log"
    MANIFEST = "Kubernetes manifests"
    COMMAND = "a vllm serve command"
    METRICS = "a metrics page"
    EXCHANGE = "a request or an answer"


@dataclass(frozen=True)
class Diagnosis:
    """What one text is and what was found in it; no finding means that it looks healthy."""

    kind: InputKind
    findings: tuple[Finding, ...]


ParseYaml = Callable[[str], list[object]]
"""Reads YAML documents; raises ValueError where the text is none."""


def diagnose(text: str, parse_yaml: ParseYaml, machine: InstanceShape | None = None) -> Diagnosis:
    """Recognise the text and look for every cause in it.

    - `machine`: what a command runs on, where it is known.
    """
    exchange = _exchange(text)
    if exchange is not None:
        return Diagnosis(InputKind.EXCHANGE, diagnose_exchange(exchange))
    if "vllm:num_requests_running" in text and "# TYPE" in text:
        return Diagnosis(InputKind.METRICS, diagnose_slow(text))
    documents = _manifests(text, parse_yaml)
    if documents:
        return Diagnosis(InputKind.MANIFEST, diagnose_manifest(documents))
    command = read_command(text) if len(text.splitlines()) <= _LONGEST_COMMAND else None
    if command is not None and not diagnose_log(text):
        return Diagnosis(InputKind.COMMAND, diagnose_command(command, machine))
    return Diagnosis(InputKind.LOG, diagnose_log(text))


_LONGEST_COMMAND = 60


def _manifests(text: str, parse_yaml: ParseYaml) -> list[object]:
    """The Kubernetes objects in a text, or nothing where it is something else."""
    if "apiVersion" not in text or "kind" not in text:
        return []
    try:
        documents = parse_yaml(text)
    except ValueError:
        return []
    return [one for one in documents if isinstance(one, Mapping) and "kind" in one]


def _exchange(text: str) -> Mapping[str, Any] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        document: object = json.loads(text)
    except ValueError:
        return None
    if isinstance(document, dict) and {"messages", "choices", "request", "response", "prompt"} & set(
        cast("dict[str, Any]", document)
    ):
        return cast("Mapping[str, Any]", document)
    return None
