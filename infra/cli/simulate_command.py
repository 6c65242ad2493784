"""`dormouse simulate`: past traffic through the brain's own decisions; what would sleeping have cost, and delayed."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from infra.cli.options import add_parser

if TYPE_CHECKING:
    from infra.brain.policy import Policy
    from infra.brain.simulate.comparison import Comparison
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Replay traffic through the same decisions that the brain takes, and compare them with a machine that is always on, with
fixed idle timers and with one who knew the traffic beforehand. No cloud is asked, and nothing is changed.

FILE is CSV with a header: `timestamp` alone (a line for each request), `timestamp` and counts, `timestamp` and a counter
such as vllm:request_success_total, or `window_start_s` and mean requests a second; every further column is one service.
Prometheus' JSON answer to a range query of a counter is read as well."""
_EXAMPLES = """\
  dormouse simulate --traffic requests.csv
  dormouse simulate --traffic requests.csv --policy eager --html sleeping.html
  dormouse simulate --traffic prometheus.json --value 0.05 --usd-per-hour 63.296 --wake-minutes 18
  dormouse simulate --traffic requests.csv --policy timer:60 --json
"""
_POLICIES = "thrifty, balanced, eager, timer:MINUTES or always"


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    summary = "replay past traffic: what sleeping costs, and whom it delays"
    parser = add_parser(commands, "simulate", summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("--traffic", metavar="FILE", required=True, help="CSV, or Prometheus JSON")
    parser.add_argument("--service", metavar="NAME", help="only this column (default: the mean over all)")
    parser.add_argument("--policy", metavar="POLICY", help=f"{_POLICIES} (default: balanced)")
    parser.add_argument("--value", metavar="USD", type=float, help="dollars that it is worth not to delay one request")
    parser.add_argument("--usd-per-hour", metavar="USD", type=float, help="of an awake machine; costs come in dollars")
    parser.add_argument(
        "--wake-minutes", metavar="MIN", type=float, default=20.0, help="asleep to serving (default: 20)"
    )
    parser.add_argument("--time-zone", metavar="ZONE", default="UTC", help="whose days are learned (default: UTC)")
    parser.add_argument("--html", metavar="FILE", help="also write a page with the comparison and the days as pictures")
    parser.add_argument("--json", action="store_true", help="print JSON with stable keys")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the comparison."""
    from pathlib import Path

    from infra.brain.simulate.comparison import Question, compare
    from infra.brain.simulate.traffic import read_traffic
    from serving.errors import ConfigurationError, Fault

    policy, name = _checked(arguments)
    services = read_traffic(Path(arguments.traffic))
    if arguments.service:
        known = ", ".join(one.name for one in services[:20])
        services = tuple(one for one in services if one.name == arguments.service)
        if not services:
            raise ConfigurationError([Fault("--service", arguments.service, f"one of: {known}")], "the command line")
    question = Question(policy, name, arguments.wake_minutes * 60, arguments.time_zone, arguments.usd_per_hour)
    shown = sys.stderr.isatty()

    def progress(done: int, of_all: int) -> None:
        if shown:
            print(f"\r\x1b[Kreplaying: {done} of {of_all} services", end="", file=sys.stderr, flush=True)

    compared = compare(services, question, progress)
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if arguments.html:
        from infra.brain.simulate.page import simulation_page

        Path(arguments.html).write_text(simulation_page(compared), encoding="utf-8")
        print(f"written: {arguments.html}", file=sys.stderr)
    if arguments.json:
        print(json.dumps(compared.to_mapping(), indent=2))
    else:
        print("\n".join(lines(compared)))
    return 0


def lines(compared: "Comparison") -> list[str]:
    """The comparison as a table, then the recommendation."""
    first = compared.services[0]
    many = f", mean of {len(compared.services)} services" if len(compared.services) > 1 else ""
    usd = compared.question.usd_per_hour
    head = f"{'policy':<22}{'awake':>8}{'÷ foreseen':>12}{'delayed':>10}{'wakes a day':>13}"
    out = [
        f"{first.days:,.1f} days{many}; a wake takes {compared.question.wake_s / 60:g} min (simulated, nothing is started)",
        "",
        head + (f"{'$ a day':>11}" if usd else ""),
    ]
    for row in compared.rows:
        if row.kind == "bound":
            continue
        cells = (
            f"{row.name + (' (asked)' if row.kind == 'chosen' else ''):<22}{row.awake_share:>8.1%}{row.multiple:>12.3f}"
            f"{row.delayed_share:>10.2%}{row.wakes_per_day:>13.1f}"
        )
        out.append(cells + (f"{row.awake_share * 24 * usd:>11,.2f}" if usd else ""))
    return [*out, "", compared.recommendation()]


def _checked(arguments: argparse.Namespace) -> "tuple[Policy, str]":
    """The policy that the options name, and its name. ConfigurationError with every fault."""
    from zoneinfo import available_timezones

    from infra.brain.policy import PRESETS, DelayValue, Mode, Policy
    from serving.errors import ConfigurationError, Fault

    faults: list[Fault] = []
    text = arguments.policy or "balanced"
    word, _, minutes = text.partition(":")
    policy = Policy()
    if word == "timer" and minutes.isdecimal() and 1 <= int(minutes) <= 10_080:
        policy = Policy(mode=Mode.TIMER, idle_s=int(minutes) * 60.0)
    elif text == "always":
        policy = Policy(mode=Mode.ALWAYS)
    elif text in PRESETS:
        policy = Policy(value=DelayValue(times_own_cost=PRESETS[text]))
    else:
        faults.append(Fault("--policy", text, f"{_POLICIES}, such as timer:60"))
    if arguments.value is not None:
        if arguments.policy:
            faults.append(Fault("--value and --policy", f"{arguments.value:g} and {text}", "one of them"))
        if not 0 <= arguments.value < 1e9:
            faults.append(Fault("--value", f"{arguments.value:g}", "dollars, such as 0.05"))
        if arguments.usd_per_hour is None:
            faults.append(Fault("--usd-per-hour", "nothing", "the machine's price, to weigh --value against"))
        policy, text = Policy(value=DelayValue(usd=arguments.value)), f"${arguments.value:g} a request"
    if arguments.usd_per_hour is not None and not 0 < arguments.usd_per_hour < 1e6:
        faults.append(Fault("--usd-per-hour", f"{arguments.usd_per_hour:g}", "dollars above 0, such as 63.296"))
    if not 1 <= arguments.wake_minutes <= 120:
        faults.append(Fault("--wake-minutes", f"{arguments.wake_minutes:g}", "1 to 120"))
    if arguments.time_zone not in available_timezones():
        faults.append(Fault("--time-zone", arguments.time_zone, "an IANA name, such as Europe/Berlin"))
    if faults:
        raise ConfigurationError(faults, "the command line")
    return policy, text
