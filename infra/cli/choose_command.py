"""`dormouse choose`: what to buy for a model, a context and so many callers, and which engine is right for it."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from infra.cli.fit_command import add_question
from infra.cli.options import add_parser

if TYPE_CHECKING:
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Rank machine × purchase × layout for a model: what holds the context for so many callers, the cheapest first.

Every offer says which of its figures are estimates. With --hardware only what you have is looked at, and where another
engine than vLLM is right for it, that is said with the reason; what Dormouse deploys is vLLM.
Exit code 1 where nothing holds it within the budget."""
_EXAMPLES = """\
  dormouse choose --model kimi-k2.5 --context 131072 --concurrency 8
  dormouse choose --model gpt-oss-120b --context 32768 --concurrency 64 --budget 40
  dormouse choose --model kimi-k2.5 --context 32768 --concurrency 1 --hardware 2xA100-80 --host-memory 768
"""


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    summary = "what to buy for a model: machine, purchase, layout, engine"
    parser = add_parser(commands, "choose", summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("--model", metavar="MODEL", help="a known model, or a folder with its files")
    parser.add_argument("--config", metavar="FILE", help="the config.json of any model of a known architecture")
    parser.add_argument("--index", metavar="FILE", help="its model.safetensors.index.json")
    add_question(parser)
    parser.add_argument(
        "--decode-context-parallel", metavar="N", type=int, default=1, help="GPUs that share a request's tokens"
    )
    parser.add_argument("--budget", metavar="USD", type=float, help="most dollars an hour for all machines together")
    parser.add_argument("--hardware", metavar="WHAT", help="what you have: 2xA100-80, p5.48xlarge, cpu-768, mac-512")
    parser.add_argument("--host-memory", metavar="GIB", type=int, help="memory beside the GPUs of --hardware")
    parser.add_argument("--json", action="store_true", help="print JSON with stable keys")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the ranking."""
    from infra.choice import choose
    from infra.engine_advice import read_hardware
    from infra.fit_question import FitQuestion, LayoutWish, all_machines, checked_wish, find_model, limits_for
    from serving.errors import ConfigurationError, Fault

    named = find_model(arguments.model, arguments.config, arguments.index)
    budget = arguments.budget
    if budget is not None and not 0 < budget < float("inf"):
        raise ConfigurationError([Fault("--budget", f"{budget:g}", "dollars an hour above 0")], "the command line")
    host = arguments.host_memory
    if host is not None and host < 0:
        raise ConfigurationError([Fault("--host-memory", str(host), "GiB, 0 or more")], "the command line")
    hardware = read_hardware(arguments.hardware, host) if arguments.hardware else None
    limits = limits_for(
        named.checkpoint,
        context=arguments.context,
        concurrency=arguments.concurrency,
        kv_cache_dtype=arguments.kv_cache_dtype,
        max_batched_tokens=arguments.max_batched_tokens,
        gpu_memory_utilization=arguments.gpu_memory_utilization,
    )
    question = FitQuestion(
        named.checkpoint,
        named.title,
        limits,
        checked_wish(
            LayoutWish(vision_mode=named.vision_mode, decode_context_parallel=arguments.decode_context_parallel)
        ),
        all_machines(),
        arguments.concurrency or 1,
        arguments.region,
    )
    choice = choose(question, budget, hardware)
    if arguments.json:
        from infra.fit_json import choice_mapping

        print(json.dumps(choice_mapping(choice), indent=2))
    else:
        from infra.choice_text import choice_lines

        print("\n".join(choice_lines(choice)))
    if choice.offers:
        return 0
    from infra.choice_text import refusal

    print(f"dormouse: {refusal(choice)}", file=sys.stderr)
    return 1
