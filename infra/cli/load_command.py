"""`dormouse load`: how much a server gives, how quickly, up to which load, and for how many dollars."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.cli.options import add_parser, seconds
from infra.cli.server_options import PAGE_ERRORS, add_key_file, open_client, read_key, read_page
from serving.errors import ConfigurationError, Fault

if TYPE_CHECKING:
    from infra.cli.options import Subparsers
    from infra.load.bench import Traffic
    from infra.load.judgement import Promise
    from infra.load.levels import LevelKind, Sweep
    from infra.load.report import LoadReport
    from infra.load.watch import Pages

_DESCRIPTION = """\
Load a server level by level with `vllm bench serve` and say what it gives: latencies, throughput, use of the KV cache,
preemptions, the knee beyond which more load stops paying, whether promised latencies hold, what a million tokens costs.

The tool comes with vLLM (inside the server's container it is on the PATH) and needs no GPU. Prompts are random tokens,
others at every level, so that the prefix cache does not answer them. Exits 1 where a promise is missed or no request
succeeds. Every request is real work for the server: run it when callers can bear it, within --max-seconds."""
_EXAMPLES = """\
  dormouse load http://127.0.0.1:8000 --key-file key.txt --stack dev --trust-remote-code
  dormouse load http://127.0.0.1:8000 --concurrency 1,8,32 --slo-ttft-ms 2000 --slo-itl-ms 60 --slo-at 8
  dormouse load http://127.0.0.1:8000 --rate 0.5,1,2,4 --metrics-url http://127.0.0.1:9000/metrics --html load.html
"""
_WHERE = "the command line"


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    parser = add_parser(commands, "load", "load a server and say what it gives", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("url", metavar="URL", help="the server's address, with or without /v1")
    add_key_file(parser)
    add_traffic(parser)
    levels = parser.add_argument_group("levels, and bounds over all of them")
    levels.add_argument("--concurrency", metavar="N,N,…", help="callers at once (default: 1,2,4,8,16,32)")
    levels.add_argument("--rate", metavar="R,R,…", help="requests per second, in place of callers")
    add_bounds(levels)
    levels.add_argument("--max-requests", metavar="N", type=int, default=600, help="default: 600")
    add_promises(parser)
    server = parser.add_argument_group("the server's own figures, and prices")
    server.add_argument("--metrics-url", metavar="URL", help="vLLM's metrics page, which the gateway keeps closed")
    server.add_argument("--stack", metavar="NAME", help="the Pulumi stack that serves: its metrics and prices")
    server.add_argument("--outputs", metavar="FILE", help="the same by a file that `pulumi stack output --json` wrote")
    server.add_argument(
        "--usd-per-hour", metavar="USD", type=float, help="what the machines cost (default: the stack's)"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--html", metavar="FILE", help="also write a page with plots")
    output.add_argument("--csv", metavar="FILE", help="also write one line for each level")
    output.add_argument("--json", action="store_true", help="print JSON with stable keys")
    parser.set_defaults(run=run)


def add_traffic(parser: Any) -> None:
    """The options that say what is sent, and with which tool."""
    sent = parser.add_argument_group("what is sent")
    sent.add_argument("--model", help="the name to ask for (default: the first that is listed)")
    sent.add_argument("--input", metavar="TOKENS", type=int, default=1024, help="of each prompt (default: 1024)")
    sent.add_argument("--output", metavar="TOKENS", type=int, default=256, help="of each answer (default: 256)")
    sent.add_argument("--tokenizer", metavar="WHAT", help="a folder or repository (default: the known model's)")
    sent.add_argument(
        "--trust-remote-code", action="store_true", help="allow a tokenizer that is the model's own Python"
    )
    sent.add_argument("--insecure", action="store_true", help="accept any certificate")
    sent.add_argument("--vllm", metavar="PROGRAM", help="the vllm whose `bench serve` is used (default: on the PATH)")


def add_bounds(group: Any) -> None:
    """The bounds on each level and on the time."""
    group.add_argument("--requests", metavar="N", type=int, help="of each level (default: 4 a caller, at least 8)")
    group.add_argument("--max-seconds", metavar="S", type=seconds, default=1800.0, help="for all (default: 1800)")


def add_promises(parser: Any) -> None:
    """The latencies that have to hold."""
    slo = parser.add_argument_group("promised latencies (SLO), in milliseconds")
    slo.add_argument("--slo-ttft-ms", metavar="MS", type=float, help="time to first token")
    slo.add_argument("--slo-itl-ms", metavar="MS", type=float, help="between two tokens")
    slo.add_argument("--slo-tpot-ms", metavar="MS", type=float, help="a request's mean between tokens")
    slo.add_argument("--slo-e2e-ms", metavar="MS", type=float, help="the whole answer")
    slo.add_argument("--slo-percentile", type=int, choices=(50, 90, 95, 99), default=95, help="default: 95")
    slo.add_argument(
        "--slo-at", metavar="LEVEL", type=float, help="where they have to hold (default: the highest level)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the sweep and print what it found."""
    from infra.load.report import report_csv, report_lines, report_mapping

    report = _measured(arguments)
    if arguments.html:
        from infra.load.page import load_page

        Path(arguments.html).write_text(load_page(report), encoding="utf-8")
    if arguments.csv:
        Path(arguments.csv).write_text(report_csv(report), encoding="utf-8")
    for file in (arguments.html, arguments.csv):
        if file:
            print(f"written: {file}", file=sys.stderr)
    print(json.dumps(report_mapping(report), indent=2) if arguments.json else "\n".join(report_lines(report)))
    return 0 if report.passed else 1


def read_traffic(arguments: argparse.Namespace, key: str) -> "Traffic":
    """What is to be sent, after the server has said what it serves; raises ConfigurationError."""
    from infra.load.bench import Traffic
    from infra.load.served import ask_served, runs_own_code, tokenizer_mode, tokenizer_of

    served = ask_served(open_client(arguments, key, 60.0), arguments.model)
    tokenizer = tokenizer_of(served, arguments.tokenizer)
    faults: list[Fault] = []
    asked = arguments.input + arguments.output
    if served.context_tokens and asked >= served.context_tokens:
        accepted = f"together less than the {served.context_tokens:,} tokens that {served.name} takes"
        faults.append(Fault("--input and --output", f"{asked:,}", accepted))
    if runs_own_code(served, tokenizer) and not arguments.trust_remote_code:
        accepted = f"given: the tokenizer of {tokenizer} is Python of its own, which would run on this machine"
        faults.append(Fault("--trust-remote-code", "nothing", accepted))
    if faults:
        raise ConfigurationError(faults, _WHERE)
    return Traffic(
        url=arguments.url.rstrip("/").removesuffix("/v1"),
        model=served.name,
        tokenizer=tokenizer,
        input_tokens=arguments.input,
        output_tokens=arguments.output,
        tokenizer_mode=tokenizer_mode(served),
        trust_remote_code=arguments.trust_remote_code,
        insecure=arguments.insecure,
    )


def traffic_faults(arguments: argparse.Namespace) -> list[Fault]:
    """What is wrong with the options of `add_traffic` and `add_bounds`."""
    least = {"--input": (arguments.input, 1), "--output": (arguments.output, 2), "--requests": (arguments.requests, 1)}
    faults = [
        Fault(flag, str(value), f"a whole number of {bound} or more")
        for flag, (value, bound) in least.items()
        if value is not None and value < bound
    ]
    if "@" in arguments.url:
        # It would stand in the load generator's argument list.
        faults.append(Fault("URL", "an address with a password in it", "http://HOST:PORT; keys go into --key-file"))
    return faults


def read_promises(arguments: argparse.Namespace) -> "tuple[Promise, ...]":
    """The promised latencies."""
    from infra.load.judgement import Promise

    given = {
        "ttft": arguments.slo_ttft_ms,
        "itl": arguments.slo_itl_ms,
        "tpot": arguments.slo_tpot_ms,
        "e2el": arguments.slo_e2e_ms,
    }
    rank = arguments.slo_percentile
    return tuple(Promise(name, limit_ms, rank) for name, limit_ms in given.items() if limit_ms is not None)


def _measured(arguments: argparse.Namespace) -> "LoadReport":
    from infra.cli.progress_view import ProgressView
    from infra.clock import SystemClock
    from infra.jobs.progress import Step
    from infra.load.bench import find_vllm
    from infra.load.report import LoadReport
    from infra.load.run import run_sweep

    kind, sweep = _levels(arguments)
    vllm = find_vllm(arguments.vllm)
    key = read_key(arguments.key_file)
    traffic = read_traffic(arguments, key)
    pages, usd_per_hour, words = _server(arguments)
    clock = SystemClock()
    with ProgressView("getting ready") as progress:
        outcome = run_sweep(
            vllm,
            traffic,
            sweep,
            key,
            clock,
            lambda text, rest_s: progress(Step("level", text, clock.now(), rest_s)),
            max_s=arguments.max_seconds,
            pages=pages,
        )
    return LoadReport(
        url=traffic.url,
        model=traffic.model,
        kind=kind,
        input_tokens=traffic.input_tokens,
        output_tokens=traffic.output_tokens,
        date=f"{clock.now():%Y-%m-%d %H:%M} UTC",
        outcome=outcome,
        promises=read_promises(arguments),
        at=arguments.slo_at,
        usd_per_hour=usd_per_hour,
        price_words=words,
        tool="vllm bench serve",
    )


def _levels(arguments: argparse.Namespace) -> "tuple[LevelKind, Sweep]":
    from infra.load.levels import DEFAULT_CONCURRENCIES, plan_sweep, values_of

    faults = traffic_faults(arguments)
    if arguments.concurrency and arguments.rate:
        faults.append(Fault("--concurrency and --rate", "both", "one of them"))
    kind: LevelKind = "rate" if arguments.rate else "concurrency"
    text = arguments.rate or arguments.concurrency
    flag = f"--{kind}"
    values = values_of(text, flag, faults, whole=kind == "concurrency") if text else DEFAULT_CONCURRENCIES
    if arguments.slo_at is not None and values and arguments.slo_at not in values:
        faults.append(Fault("--slo-at", f"{arguments.slo_at:g}", f"a level: {', '.join(f'{v:g}' for v in values)}"))
    if arguments.slo_at is not None and not read_promises(arguments):
        faults.append(Fault("--slo-at", f"{arguments.slo_at:g}", "together with --slo-ttft-ms or another promise"))
    if arguments.stack and arguments.outputs:
        faults.append(Fault("--stack and --outputs", "together", "one of them"))
    if arguments.usd_per_hour is not None and not arguments.usd_per_hour > 0:
        faults.append(Fault("--usd-per-hour", f"{arguments.usd_per_hour:g}", "dollars above 0"))
    if faults:
        raise ConfigurationError(faults, _WHERE)
    return kind, plan_sweep(kind, values, arguments.requests, arguments.max_requests)


def _server(arguments: argparse.Namespace) -> "tuple[Pages | None, float | None, str]":
    """The metrics pages, the price of an hour, and whose price it is."""
    pages: Pages | None = None
    usd_per_hour: float | None = None
    words = ""
    if arguments.stack or arguments.outputs:
        from infra.cli.options import open_target
        from infra.load.stack_view import stack_pages

        arguments.sandbox = False
        target, clients = open_target(arguments)
        pages, usd_per_hour, words = stack_pages(target.outputs, clients, target.clock)
    if arguments.metrics_url:
        pages = url_pages(arguments.metrics_url)
    if arguments.usd_per_hour is not None:
        usd_per_hour, words = arguments.usd_per_hour, f"${arguments.usd_per_hour:,.2f} an hour, as given"
    return pages, usd_per_hour, words


def url_pages(url: str) -> "Pages":
    """The one page at `url`."""
    from infra.load.watch import MetricsUnreadable

    def pages() -> list[str]:
        try:
            return [read_page(url)]
        except PAGE_ERRORS as error:
            raise MetricsUnreadable(f"{url}: {error}") from error

    return pages
