"""`dormouse hold`: a person's word against the brain's."""

import argparse
import getpass
import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from infra.cli.options import add_command, open_target
from serving.errors import ConfigurationError, Fault

if TYPE_CHECKING:
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Keep things as they are for a while (--for 2h): nothing wakes, sleeps or moves by itself. With --awake the model is kept
awake for that time, woken if need be. --release ends both; --wake asks for a wake as a caller would.

The wishes stand on a ConfigMap of the stack's namespace, which the brain reads each minute."""
_EXAMPLES = """\
  dormouse hold --stack dev --for 2h
  dormouse hold --stack dev --for 4h --awake
  dormouse hold --stack dev --wake
  dormouse hold --stack dev --release
"""
_UNITS = {"m": 60, "h": 3600, "d": 86400}
_LONGEST_S = 31 * 86400


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    parser = add_command(commands, "hold", "keep things as they are, or awake, for a while", _DESCRIPTION, _EXAMPLES)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--for", dest="span_s", type=_span, metavar="TIME", help="how long: 90m, 2h, 3d")
    what.add_argument("--release", action="store_true", help="end the hold")
    what.add_argument("--wake", action="store_true", help="ask for a wake now")
    parser.add_argument("--awake", action="store_true", help="keep it awake, instead of as it is")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the wish."""
    from infra.brain.wishes import AWAKE_UNTIL, HELD_BY, HOLD_UNTIL, WAKE_REQUESTED, note

    if arguments.awake and arguments.span_s is None:
        raise ConfigurationError([Fault("--awake", "without --for", "--awake --for TIME")], "the command line")
    target, clients = open_target(arguments)
    now = target.clock.now()
    wishes: dict[str, str | None]
    if arguments.release:
        wishes = {HOLD_UNTIL: None, HELD_BY: None, AWAKE_UNTIL: None}
        sentence = "released: the brain decides again"
    elif arguments.wake:
        wishes = {WAKE_REQUESTED: _text(now)}
        sentence = "a wake is asked for; the brain answers at its next look"
    else:
        until = now + timedelta(seconds=arguments.span_s)
        key = AWAKE_UNTIL if arguments.awake else HOLD_UNTIL
        wishes = {key: _text(until), HELD_BY: getpass.getuser()}
        sentence = f"{'kept awake' if arguments.awake else 'held as it is'} until {until:%Y-%m-%d %H:%M %Z}"
    note(clients.kubernetes, target.outputs.namespace, wishes)
    print(json.dumps({"wishes": wishes, "sentence": sentence}, indent=2) if arguments.json else sentence)
    return 0


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _span(text: str) -> float:
    found = re.fullmatch(r"(\d{1,4})([mhd])", text)
    span_s = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < span_s <= _LONGEST_S:
        raise argparse.ArgumentTypeError(
            f"{text!r}; accepted: minutes, hours or days up to 31 days, such as 90m, 2h, 3d"
        )
    return float(span_s)
