"""The `dormouse` command: finds the subcommand, runs it, and turns every failure into words and an exit code.

Exit codes: 0 done, 1 a check or a job failed, 2 wrong usage, 130 interrupted.
"""

import argparse
import difflib
import importlib
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib import metadata
from types import FrameType
from typing import NoReturn

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

# A subcommand's module is imported only when it is called, so that help and completion stay quick.
_COMMANDS: dict[str, tuple[str, str]] = {
    "status": ("infra.cli.status_command", "show the state, what runs, what it costs"),
    "wake": ("infra.cli.wake_command", "bring the model up: try each capacity candidate in order"),
    "hibernate": ("infra.cli.hibernate_command", "drain, stop the pod and every GPU node, keep the weights"),
    "move": ("infra.cli.move_command", "drain, then go on serving on another capacity candidate"),
    "brain": ("infra.cli.brain_command", "look, decide, wake and put to sleep by itself"),
    "hold": ("infra.cli.hold_command", "keep things as they are, or awake, for a while"),
    "doctor": ("infra.cli.doctor_command", "name what is wrong and what helps"),
    "smoke": ("infra.cli.smoke_command", "prove that a server answers as callers expect"),
    "load": ("infra.cli.load_command", "load a server and say what it gives, how quickly, at what price"),
    "connect": ("infra.cli.connect_command", "forward a port of this machine to the service"),
    "preflight": ("infra.cli.preflight_command", "ask AWS what would stop you, before anything is spent"),
    "block": ("infra.cli.block_command", "find, buy, list and extend Capacity Blocks"),
    "weights": ("infra.cli.weights_command", "fill, check, copy and speed up weight volumes"),
    "plan": ("infra.cli.plan_command", "does it fit and what will it cost, without any cloud"),
    "fit": ("infra.cli.fit_command", "does a model fit, on which machines, with how much room"),
    "choose": ("infra.cli.choose_command", "what to buy for a model: machine, purchase, layout, engine"),
    "emit": ("infra.cli.emit_command", "units, compose file, manifests or command for one machine"),
    "calibrate": ("infra.cli.calibrate_command", "run the plan on this machine's GPUs and compare"),
    "image": ("infra.cli.image_command", "a recipe that bakes the engine's image into a disk"),
    "simulate": ("infra.cli.simulate_command", "replay past traffic: what sleeping costs, and whom it delays"),
    "sandbox": ("infra.cli.sandbox_commands", "run a simulated cloud on this machine"),
}

_EXAMPLES = """\
examples:
  dormouse status --stack dev
  dormouse wake --stack dev
  dormouse hibernate --outputs outputs.json --drain-timeout 600
  dormouse status --sandbox --json

exit codes: 0 done, 1 a check or a job failed, 2 wrong usage, 130 interrupted
`dormouse COMMAND --help` explains each command.
"""


class _Parser(argparse.ArgumentParser):
    """A parser that suggests the nearest word for an unknown one."""

    def error(self, message: str) -> NoReturn:
        """Print the message, with a suggestion, and exit with 2."""
        found = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if found and "COMMAND" in message:
            choices = [word.strip("' ") for word in found[2].split(",")]
            near = difflib.get_close_matches(found[1], choices, n=1, cutoff=0.4)
            hint = f"did you mean `{self.prog} {near[0]}`?" if near else f"commands: {', '.join(choices)}."
            message = f"unknown command {found[1]!r}; {hint}"
        self.exit(WRONG_USAGE, f"{self.prog}: {message}\n`{self.prog} --help` explains.\n")


class _Terminated(BaseException):
    """SIGTERM, raised where the program is, so that a job gives its lock back."""


def build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; only the subcommand that `argv` names is loaded in full."""
    parser = _Parser(
        prog="dormouse",
        description="Very large open models on AWS H200 machines, asleep when nobody uses them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dormouse {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=_Parser)
    called = next((word for word in argv if not word.startswith("-")), None)
    for name, (module, summary) in _COMMANDS.items():
        if name == called:
            importlib.import_module(module).add_to(commands)
        else:
            commands.add_parser(name, help=summary, add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` is without the program's name."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        parser = build_parser(arguments)
        parsed = parser.parse_args(arguments)
        if parsed.command is None:
            parser.print_help()
            return WRONG_USAGE
        return int(parsed.run(parsed))
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else WRONG_USAGE if ended.code else DONE
    except KeyboardInterrupt:
        print("\ninterrupted; run the same command again to continue.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone; what is left in the buffer must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:  # noqa: BLE001 - nobody at a terminal is to see a traceback
        return _fail(error)


def entry() -> NoReturn:
    """What the installed `dormouse` script calls."""

    def terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise _Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        code = main()
    except _Terminated:
        print("ended by SIGTERM; run the same command again to continue.", file=sys.stderr)
        code = 128 + signal.SIGTERM
    sys.exit(code)


def _fail(error: Exception) -> int:
    if os.environ.get("DORMOUSE_TRACEBACK"):
        raise error
    from infra.cli.failures import explain

    text, code = explain(error)
    print(f"dormouse: {text}", file=sys.stderr)
    return code


def _version() -> str:
    try:
        return metadata.version("dormouse")
    except metadata.PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    entry()
