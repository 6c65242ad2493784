"""`dormouse hibernate`."""

import argparse
from typing import TYPE_CHECKING

from infra.cli.options import add_command, open_target, seconds

if TYPE_CHECKING:
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Put the model to sleep: take the pod out of the Service, wait until its running requests have ended, stop it, set
every GPU node group to 0, wait until the instances are gone, and see that the weight volume is kept and free.

Requests that do not end in time are not cut: the pod goes back into the Service and the command exits 1. A loading
model is not idle: the command refuses. --force goes on in both cases; vLLM still has its grace period.
A Capacity Block is prepaid, so the command refuses to stop one that still has time, without --prepaid or --force.
Already asleep is done. Interrupted at any point, run it again."""
_EXAMPLES = """\
  dormouse hibernate --stack dev
  dormouse hibernate --stack dev --dry-run
  dormouse hibernate --outputs outputs.json --drain-timeout 900
"""


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    summary = "drain, stop the pod and every GPU node, keep the weights"
    parser = add_command(commands, "hibernate", summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("--force", action="store_true", help="stop even a loading model or running requests")
    parser.add_argument(
        "--prepaid", action="store_true", help="stop even a Capacity Block, which is paid for until its end"
    )
    parser.add_argument(
        "--replicas", metavar="K", type=int, default=0, help="leave the first K replicas awake (default: 0)"
    )
    parser.add_argument("--dry-run", action="store_true", help="only print the steps")
    parser.add_argument(
        "--drain-timeout",
        metavar="SECONDS",
        type=seconds,
        help="how long running requests are waited for (default: as the stack is configured)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Hibernate the stack and print the report."""
    from infra.cli.progress_view import ProgressView
    from infra.cli.report_view import print_report
    from infra.jobs.hibernate import HibernateRequest, hibernate

    target, clients = open_target(arguments)
    request = HibernateRequest(
        arguments.force, arguments.dry_run, arguments.drain_timeout, arguments.prepaid, arguments.replicas
    )
    with ProgressView("looking at AWS and the cluster") as progress:
        report = hibernate(target.outputs, clients, target.clock, progress, request)
    print_report(report, as_json=arguments.json)
    return 0
