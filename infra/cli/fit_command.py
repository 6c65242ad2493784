"""`dormouse fit`: whether a model fits in GPU memory, on which machines and with how much room; no cloud is asked."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from infra.cli.options import add_parser

if TYPE_CHECKING:
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Say to the megabyte whether a model fits: over every machine that is known, or on the ones you name.

MODEL is a known model, or a folder with config.json and safetensors files (a path with a slash, such as ./my-model).
Its weights are exact; activations, CUDA graphs and the runtime are measured and come with a range.
Exit code 1 where nothing fits, with the nearest thing that works; 2 for wrong usage or a faulty config."""
_EXAMPLES = """\
  dormouse fit kimi-k2.5
  dormouse fit kimi-k2.5 --instance-type p5.48xlarge --nodes 2
  dormouse fit qwen3-32b --instance-type 2xA100-80 --context 32768 --concurrency 8
  dormouse fit --config config.json --index model.safetensors.index.json --modules
  dormouse fit kimi-k2.5 --html fit.html
"""


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    summary = "does a model fit, on which machines, with how much room"
    parser = add_parser(commands, "fit", summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("model", metavar="MODEL", nargs="?", help="a known model, or a folder with its files")
    parser.add_argument("--config", metavar="FILE", help="the config.json of any model of a known architecture")
    parser.add_argument("--index", metavar="FILE", help="its model.safetensors.index.json, checked against the config")
    add_question(parser)
    machines = parser.add_argument_group("machines and layout")
    machines.add_argument(
        "--instance-type",
        metavar="TYPE",
        action="append",
        default=[],
        help="an EC2 type or GPUs as 2xA100-80; may be repeated (default: all)",
    )
    machines.add_argument("--nodes", metavar="N", type=int, default=1, help="machines of one replica (default: 1)")
    machines.add_argument("--tensor-parallel", metavar="N", type=int, help="GPUs that share each layer")
    machines.add_argument("--pipeline-parallel", metavar="N", type=int, help="stages that share the layers")
    machines.add_argument("--data-parallel", metavar="N", type=int, help="copies of attention with a KV cache each")
    machines.add_argument("--decode-context-parallel", metavar="N", type=int, default=1, help="GPUs that share tokens")
    machines.add_argument("--expert-parallel", action="store_true", help="whole experts on a GPU")
    machines.add_argument(
        "--draft", metavar="WHAT", help="a draft model: own (the checkpoint's), or a folder with its files"
    )
    machines.add_argument("--vision", choices=("data", "weights", "none"), help="how the vision tower is held")
    output = parser.add_argument_group("output")
    output.add_argument("--modules", action="store_true", help="list what is quantised and what is not, with bytes")
    output.add_argument("--html", metavar="FILE", help="also write a page with one bar for each machine")
    output.add_argument("--json", action="store_true", help="print JSON with stable keys")
    parser.set_defaults(run=run)


def add_question(parser: Any) -> None:
    """The options that `fit` and `choose` share: what is to fit."""
    asked = parser.add_argument_group("what is to fit")
    asked.add_argument("--context", metavar="TOKENS", type=int, help="longest request (default: the model's longest)")
    asked.add_argument("--concurrency", metavar="N", type=int, help="requests of that length at once (default: 1)")
    asked.add_argument("--kv-cache-dtype", choices=("auto", "fp8"), default="auto", help="as vLLM takes it")
    asked.add_argument("--max-batched-tokens", metavar="N", type=int, default=8192, help="in one step (default: 8192)")
    asked.add_argument(
        "--gpu-memory-utilization", metavar="SHARE", type=float, default=0.92, help="vLLM's share (default: 0.92)"
    )
    asked.add_argument("--region", metavar="NAME", help="of the prices (default: the lowest published one)")


def run(arguments: argparse.Namespace) -> int:
    """Print the answer."""
    # Imported late, and nothing of it is heavy: the answer comes in a fraction of a second.
    from infra.fit_question import FitQuestion, LayoutWish, checked_wish, find_model, limits_for, machines_named
    from infra.fit_rows import answer
    from infra.fit_text import module_lines, report_lines, row_lines
    from serving.fit.draft import draft_named

    named = find_model(arguments.model, arguments.config, arguments.index)
    if arguments.modules:
        if arguments.json:
            from infra.fit_json import modules_mapping

            print(json.dumps(modules_mapping(named.checkpoint), indent=2))
        else:
            print("\n".join(module_lines(named.checkpoint)))
        return 0
    wish = LayoutWish(
        arguments.tensor_parallel,
        arguments.pipeline_parallel,
        arguments.data_parallel,
        arguments.decode_context_parallel,
        arguments.expert_parallel,
        arguments.nodes,
        arguments.vision or named.vision_mode,
        draft_named(arguments.draft, named.checkpoint) if arguments.draft else None,
    )
    limits = limits_for(
        named.checkpoint,
        context=arguments.context,
        concurrency=arguments.concurrency,
        kv_cache_dtype=arguments.kv_cache_dtype,
        max_batched_tokens=arguments.max_batched_tokens,
        gpu_memory_utilization=arguments.gpu_memory_utilization,
    )
    machines = machines_named(arguments.instance_type)
    concurrency = arguments.concurrency or 1
    question = FitQuestion(
        named.checkpoint, named.title, limits, checked_wish(wish), machines, concurrency, arguments.region
    )
    report = answer(question)
    if arguments.html:
        from pathlib import Path

        from infra.fit_page import fit_page

        Path(arguments.html).write_text(fit_page(report), encoding="utf-8")
        print(f"written: {arguments.html}", file=sys.stderr)
    if arguments.json:
        from infra.fit_json import report_mapping

        print(json.dumps(report_mapping(report), indent=2))
    elif len(report.rows) == 1 and report.fits:
        print("\n".join(row_lines(report, report.rows[0])))
    elif len(report.rows) > 1:
        print("\n".join(report_lines(report)))
    if report.fits:
        return 0
    print(f"dormouse: {report.refusal()}", file=sys.stderr)
    return 1
