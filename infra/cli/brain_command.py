"""`dormouse brain`: look, decide and act, once or for ever."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from infra.cli.options import EXIT_CODES, add_command, open_target, seconds

if TYPE_CHECKING:
    from infra.brain.runner import Look
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Look at the stack each minute, decide by its policy (timetable, idle time, what its own traffic taught, budget, expiry,
spot notices, the life of a Capacity Block) and act with the same jobs that you call by hand. Every decision comes with
its reason, here and in `dormouse status`. Runs anywhere that reaches AWS and the cluster; two of them never fight.

Ends with Ctrl-C or SIGTERM at any point: the next one goes on with what is there. With --once exits 1 where the job
that followed could not be ended."""
_EXAMPLES = """\
  dormouse brain run --stack dev
  dormouse brain run --outputs outputs.json --once --json      # from cron
  dormouse brain run --stack dev --dry-run --once              # what would it do now?
"""


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    group: Any = commands.add_parser(
        "brain",
        help="look, decide, wake and put to sleep by itself",
        description="Waking and sleeping by themselves.",
        epilog=EXIT_CODES,
    )
    actions = group.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    parser = add_command(actions, "run", "look, decide and act, once or for ever", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("--once", action="store_true", help="look once and end")
    parser.add_argument("--every", type=seconds, default=60.0, metavar="SECONDS", help="between looks (default: 60)")
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be done")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Look until interrupted, or once."""
    from infra.brain.runner import look
    from infra.cli.progress_view import ProgressView

    target, clients = open_target(arguments)
    every_s = max(1.0, arguments.every)
    while True:
        with ProgressView("looking at AWS and the cluster") as progress:
            seen = look(
                target.outputs, clients, target.clock, progress=progress, act=not arguments.dry_run, look_s=every_s
            )
        _print(seen, as_json=arguments.json)
        if arguments.once:
            return 1 if seen.failed else 0
        target.clock.sleep(every_s)


def _print(seen: "Look", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(seen.to_mapping()), flush=True)
        return
    words = seen.outcome
    if seen.decision is not None:
        words = f"{seen.decision.action}: {seen.decision.reason}"
        if seen.outcome not in ("nothing to do", "nothing was changed"):
            words = f"{words}\n  {seen.outcome}"
    print(f"{seen.at:%Y-%m-%d %H:%M:%S} {words}", flush=True)
    sys.stdout.flush()
