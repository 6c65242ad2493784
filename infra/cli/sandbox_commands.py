"""`dormouse sandbox up|down|status|try`: the simulated cloud of this machine."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from infra.cli.options import add_parser

if TYPE_CHECKING:
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Run a simulated AWS account and a simulated Kubernetes control plane on this machine, and the real Pulumi program in
them. Nothing leaves the machine, nothing costs anything; time runs faster than outside."""
_EXAMPLES = """\
  dormouse sandbox try                      the whole tour, and everything is gone at its end
  dormouse sandbox up --file Pulumi.dev.yaml
  dormouse sandbox up --empty-volumes       then: dormouse weights hydrate --sandbox
  dormouse sandbox refuse spot              spot capacity runs out; `refuse none` brings it back
  dormouse sandbox refuse capacity-block    no Capacity Block is on offer any more either
  dormouse block find --sandbox             … until then, this shows the simulated market
  dormouse wake --sandbox
  dormouse sandbox down
"""


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand and what is below it."""
    summary = "run a simulated cloud on this machine"
    parser = add_parser(commands, "sandbox", summary, _DESCRIPTION, _EXAMPLES)
    inner = parser.add_subparsers(title="sandbox commands", metavar="COMMAND", dest="sandbox_command", required=True)
    for name, words, run in (
        ("up", "start it and run the program", _up),
        ("try", "the tour: up, wake, hibernate, down", _try),
    ):
        one = inner.add_parser(name, help=words)
        one.add_argument("--file", default="Pulumi.dev.yaml", help="the stack file (default: Pulumi.dev.yaml)")
        one.add_argument("--speed", type=float, default=120.0, help="simulated seconds in a real one (default: 120)")
        if name == "up":
            one.add_argument(
                "--empty-volumes",
                action="store_true",
                help="start with empty weight volumes, so that `dormouse weights hydrate` can be tried",
            )
        if name == "try":
            one.add_argument("--keep", action="store_true", help="leave the sandbox running at the end")
        one.set_defaults(run=run)
    status = inner.add_parser("status", help="what runs, since when, at which speed")
    status.add_argument("--json", action="store_true", help="print JSON with stable keys")
    status.set_defaults(run=_status)
    inner.add_parser("down", help="end it").set_defaults(run=_down)
    refuse = inner.add_parser("refuse", help="let capacity of a kind run out, or bring all of it back")
    refuse.add_argument("purchase", choices=("on-demand", "spot", "capacity-block", "all", "none"))
    refuse.add_argument("--zone", help="in this zone alone, such as us-east-2a")
    refuse.set_defaults(run=_refuse)
    interrupt = inner.add_parser("interrupt", help="let EC2 take running spot machines back, with two minutes' notice")
    interrupt.add_argument("--zone", help="in this zone alone, such as us-east-2a")
    interrupt.set_defaults(run=_interrupt)
    requests = inner.add_parser("requests", help="let callers send streaming requests")
    requests.add_argument("count", type=int, help="how many at once")
    requests.add_argument("--seconds", type=float, default=120.0, help="simulated seconds each takes (default: 120)")
    requests.set_defaults(run=_requests)


def _up(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from infra.cli.deploy_view import DeployView
    from infra.sandbox.session import up

    with DeployView() as view:
        made = up(Path(arguments.file), arguments.speed, view, empty_volumes=arguments.empty_volumes)
    print(f"simulated cloud up: {view.made} resources in {view.took_s:.0f} s. Try: dormouse status --sandbox")
    print(
        f"AWS at {made.state.aws_endpoint_url}, Kubernetes at {made.state.kubernetes_url}; dormouse sandbox down ends it"
    )
    if arguments.empty_volumes:
        print(
            "the weight volumes are empty; a wake is refused until dormouse weights hydrate --sandbox has filled them"
        )
    else:
        print("the weight volumes count as hydrated; --empty-volumes starts with empty ones")
    return 0


def _try(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from infra.sandbox.tour import tour

    return tour(Path(arguments.file), arguments.speed, keep=arguments.keep)


def _down(_arguments: argparse.Namespace) -> int:
    from infra.sandbox.session import down

    print("the sandbox is gone" if down() else "no sandbox ran")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from infra.sandbox.state import SandboxState

    state = SandboxState.load()
    facts = {
        "pid": state.pid,
        "environment": state.outputs.environment,
        "speed": state.clock.speed,
        "simulatedTime": state.clock.now().isoformat(timespec="seconds"),
        "awsEndpointUrl": state.aws_endpoint_url,
        "kubernetesUrl": state.kubernetes_url,
    }
    if arguments.json:
        print(json.dumps(facts, indent=2))
    else:
        print(f"the sandbox runs as process {state.pid}; its cloud is simulated")
        for name, value in facts.items():
            print(f"  {name:<16}{value}")
    return 0


def _refuse(arguments: argparse.Namespace) -> int:
    from infra.sandbox.controls import refuse

    print(refuse(arguments.purchase, arguments.zone))
    return 0


def _interrupt(arguments: argparse.Namespace) -> int:
    from infra.sandbox.controls import interrupt_spot

    print(interrupt_spot(arguments.zone))
    return 0


def _requests(arguments: argparse.Namespace) -> int:
    from infra.sandbox.controls import send_requests

    send_requests(arguments.count, arguments.seconds)
    print(f"{arguments.count} simulated requests run for {arguments.seconds:g} s", file=sys.stderr)
    return 0
