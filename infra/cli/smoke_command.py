"""`dormouse smoke`: a few real requests that prove a server works."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from infra.cli.options import add_parser
from infra.cli.server_options import PAGE_ERRORS, add_key_file, open_client, read_key, read_page
from serving.errors import ConfigurationError, Fault

if TYPE_CHECKING:
    from components.programs.smoke.target import Result, Target
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Prove that a server answers as callers expect: listing, keys, chat, thinking, streaming, tools, a long prompt with a
needle, limits, unknown names, closed paths, usage numbers and cancellation. Some thirteen requests; one of them is
nearly as long as the model's context. Exits 1 where a check fails."""
_EXAMPLES = """\
  dormouse connect --stack dev &                                  # http://127.0.0.1:8000 is the service
  export DORMOUSE_API_KEY; DORMOUSE_API_KEY=$(pulumi config get dormouse:apiKeySecret)
  dormouse smoke http://127.0.0.1:8000
  dormouse smoke http://127.0.0.1:8000 --key-file key.txt --junit smoke.xml --skip needle
"""
_WHERE = "the command line"


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    parser = add_parser(commands, "smoke", "prove that a server answers as callers expect", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("url", metavar="URL", help="the server's address, with or without /v1")
    add_key_file(parser)
    parser.add_argument("--model", help="the name to ask for (default: the first that is listed)")
    parser.add_argument("--metrics-url", metavar="URL", help="vLLM's metrics page, for the check of cancellation")
    parser.add_argument("--ca-file", metavar="FILE", help="certificate authorities for https")
    parser.add_argument("--skip", action="append", default=[], metavar="CHECK", help="leave a check out; repeatable")
    parser.add_argument(
        "--long-tokens", type=int, metavar="N", help="tokens of the long prompt (default: near the limit)"
    )
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="for one answer (default: 600)")
    parser.add_argument("--no-reasoning", action="store_true", help="the model does not think")
    parser.add_argument("--no-tools", action="store_true", help="the model calls no tools")
    parser.add_argument("--json", action="store_true", help="print JSON with stable keys")
    parser.add_argument("--junit", metavar="FILE", help="write the results as a JUnit file too")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Make the checks and print each as it is done."""
    from components.programs.smoke.checks import CHECKS, run_checks
    from components.programs.smoke.report import junit, line, to_mapping

    names = {check.__name__.replace("_", "-") for check in CHECKS}
    if unknown := [name for name in arguments.skip if name not in names]:
        raise ConfigurationError([Fault("--skip", ", ".join(unknown), ", ".join(sorted(names)))], _WHERE)
    target = _target(arguments)
    results: list[Result] = []
    for result in run_checks(target, frozenset(arguments.skip)):
        results.append(result)
        if not arguments.json:
            print(line(result), flush=True)
        elif sys.stderr.isatty():
            print(line(result), file=sys.stderr)
    report = to_mapping(arguments.url, results)
    if arguments.json:
        print(json.dumps(report, indent=2))
    if arguments.junit:
        Path(arguments.junit).write_text(junit(results), encoding="utf-8")
    return 0 if report["passed"] else 1


def _target(arguments: argparse.Namespace) -> "Target":
    from components.programs.smoke.target import Target

    key = read_key(arguments.key_file)
    return Target(
        open_client(arguments, key, arguments.timeout, arguments.ca_file),
        arguments.model,
        reasoning=not arguments.no_reasoning,
        tools=not arguments.no_tools,
        metrics=None if arguments.metrics_url is None else lambda: _page(arguments.metrics_url),
        long_tokens=arguments.long_tokens,
    )


def _page(url: str) -> str:
    from components.programs.smoke.client import NoAnswer

    try:
        return read_page(url)
    except PAGE_ERRORS as error:
        raise NoAnswer(f"the metrics page: {error}") from error
