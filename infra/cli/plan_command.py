"""`dormouse plan`: a stack file in, fit and cost out; no cloud is asked."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from infra.cli.options import add_parser

if TYPE_CHECKING:
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Read a stack file and say whether the model fits and what the environment will cost. No cloud and no Pulumi is needed.

All faults of the file are named at once (exit code 2); a model that does not fit is refused with what would work (1)."""
_EXAMPLES = """\
  dormouse plan --stack dev
  dormouse plan Pulumi.prod.yaml --json | jq .cost.asleepUsdPerDay
"""


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    summary = "does it fit and what will it cost, without any cloud"
    parser = add_parser(commands, "plan", summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("file", nargs="?", help="a stack file (default: Pulumi.dev.yaml in this folder)")
    parser.add_argument("--stack", metavar="NAME", help="the file Pulumi.NAME.yaml in this folder")
    parser.add_argument("--json", action="store_true", help="print JSON with stable keys")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the plan."""
    from pathlib import Path

    from infra.plan import plan_file
    from serving.errors import ConfigurationError, Fault

    if arguments.file and arguments.stack:
        raise ConfigurationError(
            [Fault("FILE and --stack", f"{arguments.file} and {arguments.stack}", "one of them")], "the command line"
        )
    plan = plan_file(Path(arguments.file or f"Pulumi.{arguments.stack or 'dev'}.yaml"))
    if arguments.json:
        print(json.dumps(plan.to_mapping(), indent=2))
        return 0
    print("\n".join(plan.lines()))
    if not plan.has_api_key:
        print(
            "\nNot set yet: dormouse:apiKeySecret; `pulumi config set --secret dormouse:apiKeySecret"
            " $(openssl rand -hex 24)` sets it.",
            file=sys.stderr,
        )
    return 0
