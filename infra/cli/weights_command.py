"""`dormouse weights`: fill, check, copy and speed up weight volumes."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from infra.cli.options import add_command, add_parser, open_target

if TYPE_CHECKING:
    from infra.cli.options import Subparsers

_SUMMARY = "fill, check, copy and speed up weight volumes"
_ZONE = "one zone's volume, by name or id (default: all)"


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand with its own."""
    parser = add_parser(
        commands,
        "weights",
        _SUMMARY,
        "The EBS volumes that keep a model's weights while no GPU runs.",
        "  dormouse weights status --stack dev\n  dormouse weights hydrate --stack dev",
    )
    # The words for a wrong one come from the parser that `commands` uses.
    actions: Any = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="action", required=True, parser_class=type(parser)
    )
    _status(actions)
    _hydrate(actions)
    _verify(actions)
    _clone(actions)
    _speed(actions)


def _status(actions: "Subparsers") -> None:
    parser = add_command(
        actions,
        "status",
        "what is on each volume, how fast it is, what holds it",
        "Show each weight volume: proven or not, a running download, its size and speed, snapshots and clones.\n"
        "Takes no lock and changes nothing. Exits 1 where a server could not start on some volume.",
        "  dormouse weights status --stack dev\n  dormouse weights status --sandbox --json",
    )
    parser.add_argument("--zone", metavar="ZONE", help=_ZONE)
    parser.set_defaults(run=_run_status)


def _hydrate(actions: "Subparsers") -> None:
    parser = add_command(
        actions,
        "hydrate",
        "download the weights onto the volumes and prove them",
        "Raise the zone's small machine, run the hydrator's Job, follow it, tag the volume as verified, and lower the\n"
        "machine. Interrupted at any point, run it again: it goes on, and nothing is downloaded twice.",
        "  dormouse weights hydrate --stack dev\n  dormouse weights hydrate --stack dev --zone use2-az1",
    )
    parser.add_argument("--zone", metavar="ZONE", help=_ZONE)
    parser.add_argument("--again", action="store_true", help="also volumes that are verified already")
    parser.set_defaults(run=_run_hydrate)


def _verify(actions: "Subparsers") -> None:
    parser = add_command(
        actions,
        "verify",
        "read the files again and compare their SHA-256",
        "Read what is on the volumes and compare it with the manifest. A volume with a wrong\n"
        "file, found by a full check or a sample, loses its tag: no server starts on it until it is hydrated again.",
        "  dormouse weights verify --stack dev --full\n  dormouse weights verify --stack dev --sample 8",
    )
    parser.add_argument("--zone", metavar="ZONE", help=_ZONE)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--full", action="store_true", help="every file")
    how.add_argument("--sample", metavar="N", type=_count, help="N files")
    parser.set_defaults(run=_run_verify)


def _clone(actions: "Subparsers") -> None:
    parser = add_command(
        actions,
        "clone",
        "a volume in another zone with the same weights, by snapshot",
        "Take a snapshot of a verified volume (or use the one there is) and make a volume of it in another zone.\n"
        "The clone is tagged, listed by `weights status`, and billed until it is deleted.",
        "  dormouse weights clone --stack dev --zone use2-az2 --rate 300",
    )
    parser.add_argument("--zone", metavar="ZONE", required=True, help="the zone of the new volume, by name or id")
    parser.add_argument("--rate", metavar="MIBPS", type=int, help="how fast EBS fills it, 100 to 300 MiB/s (billed)")
    parser.set_defaults(run=_run_clone)


def _speed(actions: "Subparsers") -> None:
    parser = add_command(
        actions,
        "speed",
        "raise or lower a volume's throughput",
        "Set the throughput of the volumes and the IOPS that it needs. EBS takes one change of a volume at a time and\n"
        "four in 24 hours; a change that it would refuse is refused here, with the time of the next.",
        "  dormouse weights speed --stack dev up 2000\n  dormouse weights speed --stack dev down 125",
    )
    parser.add_argument("direction", choices=("up", "down"), help="which way; a change the other way is refused")
    parser.add_argument("mib_per_s", metavar="MIBPS", type=int, help="125 to 2,000 MiB/s")
    parser.add_argument("--zone", metavar="ZONE", help=_ZONE)
    parser.set_defaults(run=_run_speed)


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}; accepted: a whole number from 1")
    return int(text)


def _run_status(arguments: argparse.Namespace) -> int:
    from infra.cli.progress_view import ProgressView
    from infra.cli.weights_view import print_weights
    from infra.jobs.weights.status import weights_status

    target, clients = open_target(arguments)
    with ProgressView("looking at the volumes"):
        report = weights_status(target.outputs, clients, target.clock, arguments.zone)
    if arguments.json:
        print(json.dumps({"simulated": target.simulated, **report.to_mapping()}, indent=2))
    else:
        print_weights(report)
    return 0 if report.ok else 1


def _run_hydrate(arguments: argparse.Namespace) -> int:
    from infra.jobs.weights.hydrate import WeightRequest, hydrate

    return _follow(arguments, hydrate, WeightRequest(arguments.zone, again=arguments.again))


def _run_verify(arguments: argparse.Namespace) -> int:
    from infra.jobs.weights.hydrate import WeightRequest, verify

    return _follow(arguments, verify, WeightRequest(arguments.zone, again=True, sample=arguments.sample or 0))


def _follow(arguments: argparse.Namespace, work: Any, request: Any) -> int:
    from infra.cli.progress_view import ProgressView
    from infra.cli.report_view import print_report

    target, clients = open_target(arguments)
    with ProgressView("looking at the volumes") as progress:
        report = work(target.outputs, clients, target.clock, progress, request)
    if target.simulated and target.aws_endpoint_url and report.goal == "weights hydrate":
        from infra.sandbox.weight_copy import fill_simulated_copy

        # The simulated hydrator moves no bytes, so its copy is only said to be whole.
        fill_simulated_copy(target.outputs, target.aws_endpoint_url, target.clock.now())
    print_report(report, as_json=arguments.json)
    return 0


def _run_clone(arguments: argparse.Namespace) -> int:
    from infra.cli.progress_view import ProgressView
    from infra.cli.report_view import print_report
    from infra.jobs.weights.clone import clone

    target, clients = open_target(arguments)
    with ProgressView("looking at the volumes") as progress:
        report = clone(target.outputs, clients, target.clock, arguments.zone, progress, rate_mib_per_s=arguments.rate)
    print_report(report, as_json=arguments.json)
    return 0


def _run_speed(arguments: argparse.Namespace) -> int:
    from infra.jobs.weights.speed import change_speed

    target, clients = open_target(arguments)
    changes = change_speed(
        target.outputs, clients, target.clock, arguments.direction, arguments.mib_per_s, arguments.zone
    )
    if arguments.json:
        found = [
            {"volumeId": one.volume_id, "changed": one.changed, "words": one.words, "left": one.left} for one in changes
        ]
        print(json.dumps(found, indent=2))
    else:
        for one in changes:
            print(one.words)
    return 0
