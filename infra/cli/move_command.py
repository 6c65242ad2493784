"""`dormouse move`."""

import argparse
from typing import TYPE_CHECKING

from infra.cli.options import add_command, open_target, seconds

if TYPE_CHECKING:
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Move the serving model to another capacity candidate: take the pod out of the Service, wait until its requests have
ended, stop it and its node, wake on the target. Where the target refuses it goes back, or on to the other candidates.
Callers get no answer meanwhile: a stack runs on one GPU node at a time.

Without --to it goes to the next candidate where EC2 takes the present machine back (a spot notice, a Capacity Block
that ends), and to a more preferred candidate otherwise. With a spot notice requests get 100 s at most.
Interrupted at any point, run it again: it goes on with the same move."""
_EXAMPLES = """\
  dormouse move --stack dev
  dormouse move --stack dev --to on-demand-use2-az2 --reason "the block ends tonight"
  dormouse move --outputs outputs.json --drain-timeout 900 --json
"""


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    summary = "drain, then go on serving on another capacity candidate"
    parser = add_command(commands, "move", summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("--to", metavar="SLOT", help="the candidate to move to; `dormouse status` lists them")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why, for whoever reads along")
    parser.add_argument(
        "--drain-timeout",
        metavar="SECONDS",
        type=seconds,
        help="how long running requests are waited for (default: as the stack is configured)",
    )
    parser.add_argument("--timeout", metavar="SECONDS", type=seconds, help="for everything together")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Move the stack and print the report."""
    from infra.cli.progress_view import ProgressView
    from infra.cli.report_view import print_report
    from infra.jobs.move import MoveRequest, move

    target, clients = open_target(arguments)
    request = MoveRequest(arguments.to, arguments.reason, arguments.drain_timeout, arguments.timeout)
    with ProgressView("looking at AWS and the cluster") as progress:
        report = move(target.outputs, clients, target.clock, progress, request)
    print_report(report, as_json=arguments.json)
    return 0
