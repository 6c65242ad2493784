"""What the commands share: how a stack is named on the command line, and the connection to it."""

import argparse
import math
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infra.jobs.clients import Clients
    from infra.jobs.discovery import Target

    # argparse offers no public name for it.
    Subparsers = argparse._SubParsersAction[Any]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

EXIT_CODES = "exit codes: 0 done, 1 a check or a job failed, 2 wrong usage, 130 interrupted"


def add_parser(commands: "Subparsers", name: str, summary: str, description: str, examples: str) -> Any:
    """A subcommand's parser whose help ends with examples and exit codes."""
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=f"examples:\n{examples}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_command(
    commands: "Subparsers", name: str, summary: str, description: str, examples: str, *, prints_json: bool = True
) -> Any:
    """A subcommand's parser, with the stack's options and --json; its help ends with examples and exit codes."""
    parser = add_parser(commands, name, summary, description, examples)
    which = parser.add_argument_group("which stack (one of these, or the variable DORMOUSE_OUTPUTS with a file)")
    which.add_argument("--stack", metavar="NAME", help="a Pulumi stack of the project in this folder")
    which.add_argument("--outputs", metavar="FILE", help="a file that `pulumi stack output --json` wrote")
    which.add_argument("--sandbox", action="store_true", help="the simulated cloud that `dormouse sandbox up` runs")
    if prints_json:
        parser.add_argument("--json", action="store_true", help="print JSON with stable keys")
    return parser


def seconds(text: str) -> float:
    """An argparse type: a number of seconds, not below 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value < 0 or not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: seconds, such as 600")
    return value


def open_target(arguments: argparse.Namespace) -> "tuple[Target, Clients]":
    """Find the stack that the options name and connect to its account; says so where the cloud is simulated."""
    from infra.jobs.clients import connect
    from infra.jobs.discovery import discover

    target = discover(outputs_file=arguments.outputs, stack=arguments.stack, sandbox=arguments.sandbox)
    if target.simulated:
        print("simulated cloud: nothing here runs on AWS or costs anything", file=sys.stderr)
    clients = connect(target.outputs, endpoint_url=target.aws_endpoint_url, simulated=target.simulated)
    return target, clients
