"""`dormouse connect`."""

import argparse
import sys
from typing import TYPE_CHECKING

from infra.cli.options import add_command, open_target

if TYPE_CHECKING:
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Open the service on this machine: 127.0.0.1:PORT is forwarded to the Service in the cluster until you interrupt it.

The default access, `cluster`, lets nobody else in from outside. Needs kubectl, and an awake service to answer."""
_EXAMPLES = """\
  dormouse connect --stack dev
  dormouse connect --stack dev --port 9000
"""
_LARGEST_PORT = 65535


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    summary = "forward a port of this machine to the service"
    parser = add_command(commands, "connect", summary, _DESCRIPTION, _EXAMPLES, prints_json=False)
    parser.add_argument("--port", type=_port, default=8000, help="the port on this machine (default: 8000)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Forward until interrupted."""
    from infra.jobs.connect import ConnectError, connect_to_service

    target, clients = open_target(arguments)
    if target.simulated:
        raise ConnectError("the sandbox runs no containers, so there is nothing to connect to; use a real stack")
    key = "pulumi config get dormouse:apiKeySecret"
    print(f"http://127.0.0.1:{arguments.port}/v1 (key: `{key}`); Ctrl-C ends it", file=sys.stderr)
    return 1 if connect_to_service(target.outputs, clients, arguments.port) else 0


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= _LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: a port from 1 to {_LARGEST_PORT}")
    return int(text)
