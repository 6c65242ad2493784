"""`dormouse wake`."""

import argparse
from typing import TYPE_CHECKING

from infra.cli.options import add_command, open_target, seconds

if TYPE_CHECKING:
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Bring the model up: ask each capacity candidate in order for one GPU node, with its own patience, then start the pod
and wait until it serves. At most one node is up at any time; if all refuse, every node group is back at 0.

Already awake is done. Interrupted at any point, run it again: it goes on with what is there."""
_EXAMPLES = """\
  dormouse wake --stack dev
  dormouse wake --stack dev --slot spot-use2-az3
  dormouse wake --outputs outputs.json --timeout 3600 --json
"""


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    summary = "bring the model up: try each capacity candidate in order"
    parser = add_command(commands, "wake", summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("--slot", metavar="NAME", help="try this candidate alone; `dormouse status` lists them")
    parser.add_argument(
        "--replicas", metavar="K", type=int, help="have the first K replicas awake (default: all that the stack has)"
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        help="for everything together (default: every candidate's patience and the longest start)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Wake the stack and print the report."""
    from infra.cli.progress_view import ProgressView
    from infra.cli.report_view import print_report
    from infra.jobs.wake import WakeRequest, wake

    target, clients = open_target(arguments)
    request = WakeRequest(slot=arguments.slot, timeout_s=arguments.timeout, replicas=arguments.replicas)
    with ProgressView("looking at AWS and the cluster") as progress:
        report = wake(target.outputs, clients, target.clock, progress, request)
    print_report(report, as_json=arguments.json)
    return 0
