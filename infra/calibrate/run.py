"""Calibration: write the model's config, start the real engine on it, read its log, measure its speed, compare."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from infra.calibrate.comparison import Comparison, compare, compare_cache
from infra.calibrate.engine_process import EngineProcess, free_port
from infra.calibrate.gpus import Gpus, gpus_here, used_gib
from infra.calibrate.model_folder import write_model
from infra.calibrate.speed_probe import Endpoint, measure_speed
from infra.calibrate.start_log import read_start
from infra.clock import Clock
from serving.accelerators import InstanceShape
from serving.engine.arguments import calibration_arguments
from serving.errors import ConfigurationError, Fault
from serving.fit.layout import Layout
from serving.fit.limits import EngineLimits
from serving.fit.one_rank import rank_model, whole_model
from serving.fit.plan import FitPlan, plan_fit
from serving.gpu_boxes import gpu_box
from serving.measurements import Speed, Start
from serving.profiles import load_model
from serving.units import gib_text

_HOST = "127.0.0.1"
_SERVED_NAME = "calibrated"
_DECODE_PROMPT_TOKENS = 32
Told = Callable[[str, str], None]
"""Called with a stage and a sentence at every step."""


@dataclass(frozen=True)
class CalibrationRequest:
    """What to run.

    - `one_rank`: run what one GPU of `layout` holds, on `gpus` GPUs (1 unless more share it).
    - `concurrencies`, `answer_tokens`: of the decode probe. `prompts`: lengths in tokens of the prefill probe.
    - `vllm`: the program. `folder`: where the model's config and the engine's log go. `extra`: further arguments.
    """

    model: str
    layout: Layout
    limits: EngineLimits
    one_rank: bool
    folder: Path = Path()
    gpus: int = 1
    vllm: str = "vllm"
    concurrencies: tuple[int, ...] = (1, 8, 32, 64, 128)
    answer_tokens: int = 128
    prompts: tuple[int, ...] = (1_000, 8_000)
    start_limit_s: float = 1800.0
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class Calibration:
    """The result: the start as measured, the plan (None without GPUs), both compared, and what it cannot show."""

    start: Start
    plan: FitPlan | None
    terms: tuple[Comparison, ...]
    experts_backend: str
    cannot_show: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Whether every promise about this start holds."""
        return all(term.kept is not False for term in self.terms)


def calibrate(
    request: CalibrationRequest,
    told: Told,
    clock: Clock,
    *,
    environment: Mapping[str, str] | None = None,
    gpus: Gpus | None = None,
    poll_s: float = 0.5,
) -> Calibration:
    """Run the whole of it.

    - `environment`: stands over this process's own for the engine. `gpus`: those of this machine, looked up if None.

    Raises ConfigurationError where the machine or the layout cannot run it, JobError where the engine does not start.
    """
    here = gpus_here() if gpus is None else gpus
    profile = load_model(request.model)
    if request.one_rank:
        rank = rank_model(request.model, profile.config, request.layout, request.gpus)
    else:
        rank = whole_model(request.model, profile.config)
    used = request.gpus if request.one_rank else request.layout.gpus
    layout = Layout(used, vision_mode="none") if request.one_rank else request.layout
    shape = _shape(request, here, used)
    plan = None if shape is None else plan_fit(rank.checkpoint, layout, shape, request.limits)
    if plan is not None and not plan.fits:
        raise ConfigurationError([Fault("the layout", str(request.layout), _why_not(plan))], "the command line")

    told("folder", f"writing the config of {profile.title} as {request.layout} into {request.folder}")
    write_model(request.folder / "model", rank.config)
    port = free_port()
    arguments = calibration_arguments(
        str(request.folder / "model"), _SERVED_NAME, _HOST, port, layout, request.limits, request.extra
    )
    engine = EngineProcess([request.vllm, "serve", *arguments], request.folder / "engine.log", environment, poll_s)
    with engine:
        told("start", "starting the engine with random weights")
        ready_s = engine.wait_until_ready(request.start_limit_s, lambda line: told("start", line))
        used_ready = used_gib() if here.count else None
        endpoint = Endpoint(_HOST, port, _SERVED_NAME, rank.checkpoint.vocabulary)
        speeds = _speeds(request, endpoint, told)
        used_peak = used_gib() if here.count else None
        log = read_start(engine.log_text)
    start = Start(
        name=f"{profile.title}, {request.layout}{', one rank' if used < request.layout.gpus else ''}",
        model=request.model,
        layout=replace(request.layout, vision_mode="none"),
        gpus=used,
        limits=request.limits,
        gpu=here.name or "CPU",
        vllm=log.version,
        driver=here.driver,
        date=f"{clock.now():%Y-%m-%d}",
        source="dormouse calibrate, random weights",
        command=shlex.join(engine.command),
        backend=log.attention,
        measured=replace(log.measured, used_ready_gib=used_ready, used_peak_gib=used_peak),
        seconds=replace(log.seconds, ready=round(ready_s, 1)),
        speeds=speeds,
    )
    terms = compare_cache(start, request.limits) if plan is None else compare(plan, start.measured)
    return Calibration(start, plan, terms, log.experts, rank.cannot_show)


def _shape(request: CalibrationRequest, here: Gpus, used: int) -> InstanceShape | None:
    """The machine as far as the plan needs it; None for one without GPUs."""
    if here.count == 0:
        return None
    if here.count < used:
        given = f"{request.layout} on {used} GPUs, and this machine has {here.count}"
        accepted = f"--one-rank, which runs what one GPU of it holds, or a layout over {here.count} GPUs"
        raise ConfigurationError([Fault("--layout", given, accepted)], "the command line")
    return gpu_box(f"{used}x{here.name}")


def _why_not(plan: FitPlan) -> str:
    if plan.faults:
        return f"a layout that can run: {'; '.join(plan.faults)}"
    missing = gib_text(plan.missing_bytes, 2)
    return f"one that fits: a GPU lacks {missing}; a shorter --context, --kv-cache-dtype fp8 or a wider layout"


def _speeds(request: CalibrationRequest, endpoint: Endpoint, told: Told) -> tuple[Speed, ...]:
    speeds: list[Speed] = []
    if not request.concurrencies and not request.prompts:
        return ()
    longest = request.limits.context_tokens
    # The first answer compiles kernels and is thrown away.
    told("speed", "a first answer")
    measure_speed(endpoint, 1, min(_DECODE_PROMPT_TOKENS, longest // 2), min(8, longest // 2), seed=0)
    for requests in request.concurrencies:
        told("speed", f"{requests} at once, {request.answer_tokens} tokens each")
        seen = min(requests, request.limits.max_sequences)
        measure_speed(endpoint, seen, _DECODE_PROMPT_TOKENS, 8, seed=10_000 + seen)
        speeds.append(measure_speed(endpoint, seen, _DECODE_PROMPT_TOKENS, request.answer_tokens, seed=seen))
    for tokens in request.prompts:
        if tokens >= longest:
            continue
        told("speed", f"a prompt of {tokens:,} tokens")
        measure_speed(endpoint, 1, tokens, 1, seed=20_000 + tokens)
        speeds.append(measure_speed(endpoint, 1, tokens, 1, seed=tokens))
    return tuple(speeds)
