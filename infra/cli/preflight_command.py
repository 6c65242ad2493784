"""`dormouse preflight`: everything that would stop a stack, asked before anything is spent."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from infra.cli.options import add_parser

if TYPE_CHECKING:
    from infra.cli.options import Subparsers
    from infra.preflight.findings import Finding
    from infra.preflight.run import Preflight

_DESCRIPTION = """\
Ask AWS, the model's hub and the image registries what would stop this stack: account, zones, quotas and the nodes they
allow, Capacity Blocks and spot prices, versions, addresses, reservation ids, weights, images, clock.

Changes nothing and buys nothing. A denied permission or a missing network is a finding. Exit code 1 where something
stops you. HF_TOKEN and HF_ENDPOINT are read for the weights."""
_EXAMPLES = """\
  dormouse preflight
  dormouse preflight --stack prod
  dormouse preflight Pulumi.prod.yaml --json | jq '.findings[] | select(.level == "stops you")'
"""


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    summary = "ask AWS what would stop you, before anything is spent"
    parser = add_parser(commands, "preflight", summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", nargs="?", help="a stack file (default: Pulumi.dev.yaml in this folder)")
    parser.add_argument("--stack", metavar="NAME", help="the file Pulumi.NAME.yaml in this folder")
    parser.add_argument("--sandbox", action="store_true", help="the simulated cloud that `dormouse sandbox up` runs")
    parser.add_argument("--json", action="store_true", help="print JSON with stable keys")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Ask everything and print the findings; 1 where something stops."""
    import os

    from infra.cli.progress_view import ProgressView
    from infra.jobs.progress import Step
    from infra.preflight.question import ask
    from infra.preflight.run import CHECKS, preflight

    question = ask(arguments.file, arguments.stack, sandbox=arguments.sandbox, variables=os.environ)
    if question.simulated:
        print("simulated cloud: nothing here runs on AWS or costs anything", file=sys.stderr)
    with ProgressView(f"asking {len(CHECKS)} questions") as view:
        made = preflight(question, lambda name: view(Step("note", f"answered: {name}", question.clock.now())))
    if arguments.json:
        print(json.dumps(made.to_mapping(), indent=2))
    else:
        _print(made)
    return 1 if made.stopped else 0


def _print(made: "Preflight") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    styles = {"ok": "green", "warning": "yellow", "stops you": "bold red", "not asked": "dim"}
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in made.findings:
        table.add_row(Text(one.level.value, style=styles[one.level.value]), one.check, Text(_words(one)))
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
    else:
        # In a pipe a line is as long as it must be.
        for one in made.findings:
            print(f"{one.level.value:<10}{one.check:<20}{_words(one).replace(chr(10), ' ')}")
    counts = [f"{sum(one.level.value == level for one in made.findings)} {level}" for level in styles]
    print(f"\n{made.environment}: {', '.join(counts)}")


def _words(finding: "Finding") -> str:
    return f"{finding.words}\n→ {finding.remedy}" if finding.remedy else finding.words
