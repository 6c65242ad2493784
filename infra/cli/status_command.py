"""`dormouse status`: look, judge, show."""

import argparse
import json
from typing import TYPE_CHECKING

from infra.cli.options import add_command, open_target

if TYPE_CHECKING:
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Show in which state a stack is and why, what runs, and what it costs. Takes no lock and changes nothing.

Parts that cannot be read are shown as unknown, with the reason. Exits 1 where the state is inconsistent or unknown."""
_EXAMPLES = """\
  dormouse status --stack dev
  dormouse status --outputs outputs.json --json | jq -r .state
"""


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    parser = add_command(commands, "status", "show the state, what runs, what it costs", _DESCRIPTION, _EXAMPLES)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the status; 1 where the state needs a person."""
    from infra.cli.progress_view import ProgressView
    from infra.cli.status_view import print_status, status_mapping
    from infra.jobs.lane_state import stack_state
    from infra.jobs.observe import observe
    from infra.jobs.state import StateKind

    target, clients = open_target(arguments)
    with ProgressView("looking at AWS and the cluster"):
        seen = observe(target.outputs, clients, target.clock)
    state = stack_state(seen)
    if arguments.json:
        print(json.dumps(status_mapping(target, seen, state), indent=2))
    else:
        print_status(target, seen, state)
    return 1 if state.kind in (StateKind.INCONSISTENT, StateKind.UNKNOWN) else 0
