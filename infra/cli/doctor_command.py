"""`dormouse doctor`: what is wrong, in a live stack or in whatever somebody posted."""

import argparse
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from infra.cli.options import add_command, open_target
from serving.errors import ConfigurationError, Fault

if TYPE_CHECKING:
    from infra.cli.options import Subparsers
    from serving.accelerators import InstanceShape
    from serving.diagnosis.finding import Finding

_DESCRIPTION = """\
Name the cause. Without FILE it looks at a live stack: states, events, logs, failed launches, metrics, manifests.

With FILE (or - for what is piped in) it recognises a log, Kubernetes manifests, a `vllm serve` command line, a
metrics page, or a request and its answer as JSON. Nothing leaves this machine. Exits 1 where something is found."""
_EXAMPLES = """\
  dormouse doctor --stack dev
  kubectl logs vllm-0 --previous | dormouse doctor -
  dormouse doctor deployment.yaml
  echo 'vllm serve moonshotai/Kimi-K2.5 -tp 4' | dormouse doctor - --machine 4xH200
  dormouse doctor --slow http://127.0.0.1:8000/metrics
  dormouse doctor --bad-answers exchange.json
"""
_LARGEST_BYTES = 64 * 1024 * 1024
_TIMEOUT_S = 15


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    parser = add_command(commands, "doctor", "name what is wrong and what helps", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", nargs="?", metavar="FILE", help="a file to look at; - reads standard input")
    parser.add_argument("--slow", metavar="METRICS", help="why answers are slow: a metrics page, as a file or URL")
    parser.add_argument("--bad-answers", metavar="FILE", help="why answers are bad: request, answer or command")
    parser.add_argument("--machine", metavar="NAME", help="what a posted command runs on: p5e.48xlarge, 4xH200, …")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Diagnose and print; 1 where anything was found."""
    given = [one for one in (arguments.file, arguments.slow, arguments.bad_answers) if one]
    if len(given) > 1:
        raise ConfigurationError([Fault("FILE", " and ".join(given), "one of FILE, --slow, --bad-answers")], _WHERE)
    if not given:
        return _live(arguments)
    from infra.cli.doctor_view import print_findings

    machine = _machine(arguments.machine)
    if arguments.slow:
        from serving.diagnosis.slow import diagnose_slow

        kind, findings = "a metrics page", diagnose_slow(_page(arguments.slow))
    elif arguments.bad_answers:
        kind, findings = _answers(_text(arguments.bad_answers))
    else:
        from serving.diagnosis.doctor import diagnose

        found = diagnose(_text(arguments.file), _parse_yaml, machine)
        kind, findings = str(found.kind), found.findings
    if arguments.json:
        print(json.dumps({"input": kind, "findings": [one.to_mapping() for one in findings]}, indent=2))
    else:
        print_findings(f"{given[0]}: {kind}", findings)
    return 1 if findings else 0


_WHERE = "the command line"


def _live(arguments: argparse.Namespace) -> int:
    from infra.cli.doctor_view import print_findings
    from infra.cli.progress_view import ProgressView
    from infra.doctor.live import examine

    target, clients = open_target(arguments)
    with ProgressView("looking at AWS, the cluster and the logs"):
        found = examine(target.outputs, clients, target.clock)
    if arguments.json:
        mapping = {
            "input": "a live stack",
            "state": str(found.state),
            "findings": [one.to_mapping() for one in found.findings],
            "unread": list(found.unread),
        }
        print(json.dumps(mapping, indent=2))
    else:
        print_findings(f"{target.outputs.environment}: {found.state}: {found.state.why}", found.findings, found.unread)
    return 1 if found.findings else 0


def _answers(text: str) -> "tuple[str, tuple[Finding, ...]]":
    from serving.diagnosis.answers import diagnose_answers_command, diagnose_exchange
    from serving.diagnosis.command_text import read_command

    command = read_command(text)
    if command is not None:
        return "a vllm serve command", diagnose_answers_command(command)
    try:
        document: Any = json.loads(text)
    except ValueError as error:
        accepted = "JSON of a request or an answer, both as request and response, or a `vllm serve` command"
        raise ConfigurationError([Fault("--bad-answers", str(error), accepted)], _WHERE) from error
    if not isinstance(document, dict):
        raise ConfigurationError([Fault("--bad-answers", "JSON that is no object", "a request or an answer")], _WHERE)
    return "a request or an answer", diagnose_exchange(cast("dict[str, Any]", document))


def _text(name: str) -> str:
    """A file's text; what is not UTF-8 in a log is shown as such and read all the same."""
    if name == "-":
        return sys.stdin.buffer.read(_LARGEST_BYTES).decode(errors="replace")
    try:
        with Path(name).open("rb") as file:
            return file.read(_LARGEST_BYTES).decode(errors="replace")
    except OSError as error:
        raise ConfigurationError(
            [Fault("FILE", f"{name} ({error.strerror})", "a file, or - to read a pipe")], _WHERE
        ) from error


def _page(name: str) -> str:
    if not name.startswith(("http://", "https://")):
        return _text(name)
    try:
        with urllib.request.urlopen(name, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - the user's own address
            return answer.read(_LARGEST_BYTES).decode(errors="replace")
    except (OSError, urllib.error.URLError) as error:
        accepted = "the address of a metrics page that answers, such as http://127.0.0.1:8000/metrics"
        raise ConfigurationError([Fault("--slow", f"{name} ({error})", accepted)], _WHERE) from error


def _machine(name: str | None) -> "InstanceShape | None":
    if name is None:
        return None
    from serving.gpu_boxes import machine

    return machine(name)


def _parse_yaml(text: str) -> list[object]:
    import yaml

    try:
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
