"""`dormouse calibrate`: the plan against the hardware, before a single weight is downloaded."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from infra.cli.options import add_parser, seconds

if TYPE_CHECKING:
    from infra.calibrate.run import Calibration, CalibrationRequest
    from infra.cli.options import Subparsers

_DESCRIPTION = """\
Start the real vLLM with random weights on this machine and compare, term by term, what it took with the plan.

Needs vLLM and its GPUs, and neither the weights nor a network. Where fewer GPUs are here than the layout has,
--one-rank runs the model that one GPU of the layout holds, and says what that cannot show. Only the text model is run.
Exit code 1 where the engine does not start or the plan misses weights by 0.1 % or KV tokens by 0.3 %."""
_EXAMPLES = """\
  dormouse calibrate kimi-k2.5 --layout TP8
  dormouse calibrate kimi-k2.5 --layout TP8 --one-rank --kv-cache-dtype fp8 --into measurements.toml
  dormouse calibrate deepseek-v3 --layout DP8+EP --one-rank --context 32768 --json
"""


def add_to(commands: "Subparsers") -> None:
    """Add the subcommand."""
    summary = "run the plan on this machine's GPUs and compare"
    parser = add_parser(commands, "calibrate", summary, _DESCRIPTION, _EXAMPLES)
    parser.add_argument("model", metavar="MODEL", help="a known model")
    parser.add_argument("--layout", metavar="LAYOUT", required=True, help="such as TP8, DP8+EP, PP2xTP8, TP8+DCP8")
    parser.add_argument("--one-rank", action="store_true", help="run what one GPU of the layout holds")
    parser.add_argument("--gpus", metavar="N", type=int, help="with --one-rank: GPUs that take part (default: 1)")
    engine = parser.add_argument_group("what the engine is asked for")
    engine.add_argument("--context", metavar="TOKENS", type=int, help="longest request (default: the model's longest)")
    engine.add_argument("--max-num-seqs", metavar="N", type=int, default=256, help="requests at once (default: 256)")
    engine.add_argument("--max-num-batched-tokens", metavar="N", type=int, default=8192, help="default: 8192")
    engine.add_argument("--kv-cache-dtype", choices=("auto", "fp8"), default="auto", help="as vLLM takes it")
    engine.add_argument("--gpu-memory-utilization", metavar="SHARE", type=float, default=0.92, help="default: 0.92")
    engine.add_argument("--eager", action="store_true", help="no compilation and no CUDA graphs")
    engine.add_argument("--no-custom-all-reduce", action="store_true", help="NCCL alone")
    engine.add_argument("--vllm", metavar="PROGRAM", default="vllm", help="the vLLM to start (default: on the PATH)")
    engine.add_argument("--extra", metavar="ARGUMENT", action="append", default=[], help="further argument for vLLM")
    engine.add_argument("--start-limit", metavar="SECONDS", type=seconds, default=1800.0, help="default: 1800")
    speed = parser.add_argument_group("speed")
    speed.add_argument("--at-once", metavar="N", type=int, action="append", help="default: 1, 8, 32, 64 and 128")
    speed.add_argument("--answer", metavar="TOKENS", type=int, default=128, help="of each answer (default: 128)")
    speed.add_argument("--prompt", metavar="TOKENS", type=int, action="append", help="default: 1000 and 8000")
    speed.add_argument("--no-speed", action="store_true", help="memory alone")
    output = parser.add_argument_group("output")
    output.add_argument("--into", metavar="FILE", help="append the start to this file of measurements")
    output.add_argument("--folder", metavar="FOLDER", help="keep the config and the engine's log here")
    output.add_argument("--json", action="store_true", help="print JSON with stable keys")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Calibrate and print the comparison."""
    import shutil
    import tempfile
    from dataclasses import replace
    from pathlib import Path

    from infra.calibrate.report import refusal, report_lines, report_mapping
    from serving.measurements import start_rows

    # The log of a start that failed outlives this command; that of one that did not is in the way.
    request = _request(arguments)
    folder = Path(arguments.folder or tempfile.mkdtemp(prefix="dormouse-calibrate-"))
    succeeded = False
    try:
        result = _shown(replace(request, folder=folder))
        succeeded = True
    finally:
        if not arguments.folder and (succeeded or not (folder / "engine.log").exists()):
            shutil.rmtree(folder)
    if arguments.into:
        with Path(arguments.into).open("a", encoding="utf-8") as file:
            file.write("\n" + start_rows(result.start))
        print(f"appended to {arguments.into}", file=sys.stderr)
    if arguments.json:
        print(json.dumps(report_mapping(result), indent=2))
    else:
        print("\n".join(report_lines(result)))
    if result.kept:
        return 0
    print(f"dormouse: {refusal(result)}", file=sys.stderr)
    return 1


def _shown(request: "CalibrationRequest") -> "Calibration":
    from infra.calibrate.run import calibrate
    from infra.cli.progress_view import ProgressView
    from infra.clock import SystemClock
    from infra.jobs.progress import Step

    clock = SystemClock()
    with ProgressView("looking at this machine") as progress:
        return calibrate(request, lambda stage, text: progress(Step(stage, text, clock.now())), clock)


def _request(arguments: argparse.Namespace) -> "CalibrationRequest":
    from infra.calibrate.run import CalibrationRequest
    from serving.errors import ConfigurationError, Fault
    from serving.fit.layout_text import layout_from_text
    from serving.fit.limits import EngineLimits
    from serving.profiles import known_models, load_model

    faults: list[Fault] = []
    if arguments.model not in known_models():
        faults.append(Fault("MODEL", arguments.model, f"one of {', '.join(known_models())}"))
    numbers = {
        "--gpus": (arguments.gpus, 1),
        "--max-num-seqs": (arguments.max_num_seqs, 1),
        "--max-num-batched-tokens": (arguments.max_num_batched_tokens, 256),
        "--answer": (arguments.answer, 2),
        "--context": (arguments.context, 256),
        **{f"--at-once {n}": (n, 1) for n in arguments.at_once or ()},
        **{f"--prompt {n}": (n, 1) for n in arguments.prompt or ()},
    }
    faults += [
        Fault(flag, str(value), f"a whole number of {least} or more")
        for flag, (value, least) in numbers.items()
        if value is not None and value < least
    ]
    if arguments.gpus is not None and not arguments.one_rank:
        faults.append(Fault("--gpus", str(arguments.gpus), "a number together with --one-rank"))
    if not 0.1 <= arguments.gpu_memory_utilization <= 0.99:
        faults.append(Fault("--gpu-memory-utilization", f"{arguments.gpu_memory_utilization:g}", "0.1 to 0.99"))
    if faults:
        raise ConfigurationError(faults, "the command line")
    return CalibrationRequest(
        model=arguments.model,
        layout=layout_from_text(arguments.layout),
        limits=EngineLimits(
            context_tokens=arguments.context or load_model(arguments.model).max_context_tokens,
            max_sequences=arguments.max_num_seqs,
            kv_cache_dtype=arguments.kv_cache_dtype,
            max_batched_tokens=arguments.max_num_batched_tokens,
            gpu_memory_utilization=arguments.gpu_memory_utilization,
            enforce_eager=arguments.eager,
            custom_all_reduce=not arguments.no_custom_all_reduce,
        ),
        one_rank=arguments.one_rank,
        gpus=arguments.gpus or 1,
        vllm=arguments.vllm,
        concurrencies=() if arguments.no_speed else tuple(arguments.at_once or (1, 8, 32, 64, 128)),
        answer_tokens=arguments.answer,
        prompts=() if arguments.no_speed else tuple(arguments.prompt or (1_000, 8_000)),
        start_limit_s=arguments.start_limit,
        extra=tuple(arguments.extra),
    )
