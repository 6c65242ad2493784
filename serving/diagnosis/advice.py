"""Numbers for a remedy: what the planner says about the very model and machine that a log speaks of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from serving.accelerators import InstanceShape
from serving.engine.flags import engine_flags, removed_flags
from serving.errors import DormouseError
from serving.fit.answers import largest_context, nearest_that_fit
from serving.fit.layout import Layout
from serving.fit.limits import EngineLimits
from serving.fit.plan import plan_fit
from serving.gpu_boxes import gpu_box, gpu_names
from serving.profiles import ModelProfile, known_models, load_model

# Two GPUs of one kind differ by less than this in what CUDA reports.
_SAME_GPU_GIB = 1.0
_SHOWN_MACHINES = 3


@dataclass(frozen=True)
class Circumstances:
    """What a log or a command tells of the start it is about.

    - `groups`: what the cause's pattern caught.
    - `arguments`: what vLLM was given, by the names of its own list, such as `max_model_len`.
    - `gpu_gib`: what CUDA says that one GPU holds, or None.
    """

    groups: Mapping[str, str]
    arguments: Mapping[str, Any]
    gpu_gib: float | None


def advise(name: str, told: Circumstances) -> str:
    """The sentence that the advice called `name` adds, or nothing where too little is told."""
    try:
        return _ADVICE[name](told)
    except DormouseError:
        return ""


def model_of(arguments: Mapping[str, Any]) -> ModelProfile | None:
    """The known model that a start was about, by its repository or the folder's name; None for others."""
    text = str(arguments.get("model") or arguments.get("model_tag") or "").rstrip("/").lower()
    if not text:
        return None
    for name in known_models():
        profile = load_model(name)
        repository = profile.repository.lower()
        if text in (name, repository) or text.rsplit("/", 1)[-1] == repository.rsplit("/", 1)[-1]:
            return profile
    return None


def _flags(told: Circumstances) -> str:
    words: list[str] = []
    for word in told.groups.get("flags", "").split():
        flag = word.partition("=")[0]
        if not flag.startswith("-"):
            continue
        if (removed := removed_flags().get(flag)) is not None:
            words.append(f"{flag} was {removed.gone}; in its place: {removed.instead}.".replace("was no", "is no"))
        elif near := engine_flags().nearest(flag):
            words.append(f"Instead of {flag} this was probably meant: {' or '.join(near)}.")
    return " ".join(words)


def _parsers(told: Circumstances) -> str:
    model = model_of(told.arguments)
    if model is None or not model.tool_call_parser:
        return ""
    reasoning = f", --reasoning-parser {model.reasoning_parser}" if model.reasoning_parser else ""
    return f"For {model.title}: --tool-call-parser {model.tool_call_parser}{reasoning}."


def _divisors(told: Circumstances) -> str:
    heads = int(told.groups["heads"])
    return f"That is one of {', '.join(str(n) for n in range(1, min(heads, 64) + 1) if heads % n == 0)}."


def _context(told: Circumstances) -> str:
    planned = _planned(told)
    if planned is None:
        return ""
    model, layout, shape, limits = planned
    longest = largest_context(model.checkpoint, layout, shape, limits)
    words = f"By the plan, {model.title} on {shape.name} takes at most {longest:,} tokens a request"
    if limits.kv_cache_dtype != "fp8":
        fp8 = largest_context(model.checkpoint, layout, shape, replace(limits, kv_cache_dtype="fp8"))
        if fp8 > longest:
            words += f", and {fp8:,} with an fp8 KV cache"
    return words + "."


def _layouts(told: Circumstances) -> str:
    model = model_of(told.arguments)
    if model is None:
        return ""
    context = int(told.arguments.get("max_model_len") or model.max_context_tokens)
    limits = EngineLimits(min(context, model.max_context_tokens), int(told.arguments.get("max_num_seqs") or 64))
    works = nearest_that_fit(model.checkpoint, limits, lambda _: None)
    named = [f"{one.shape.name} ({one.layout})" for one in works[:_SHOWN_MACHINES]]
    return f"{model.title} fits on {', '.join(named)}." if named else ""


def _utilization(told: Circumstances) -> str:
    given = told.arguments.get("gpu_memory_utilization")
    words = f"It was set to {given}." if isinstance(given, float) else ""
    planned = _planned(told)
    if planned is None:
        return words
    model, layout, shape, limits = planned
    safe = plan_fit(model.checkpoint, layout, shape, limits).highest_safe_utilization
    return f"{words} The highest that is safe for {model.title} on {shape.name} is {safe:.2f}.".strip()


def _pod_memory(told: Circumstances) -> str:
    model = model_of(told.arguments)
    if model is None:
        return ""
    gib = round(model.published_weights_bytes / 2**30 + 160)
    return f"For {model.title} that is {gib:,} GiB."


def _planned(told: Circumstances) -> tuple[ModelProfile, Layout, InstanceShape, EngineLimits] | None:
    """The model, layout, machine and limits of a start; None where the log does not name all of them."""
    model = model_of(told.arguments)
    gpu = None if told.gpu_gib is None else _gpu(told.gpu_gib)
    if model is None or gpu is None:
        return None
    tensor = int(told.arguments.get("tensor_parallel_size") or 1)
    limits = EngineLimits(
        int(told.arguments.get("max_model_len") or model.max_context_tokens),
        int(told.arguments.get("max_num_seqs") or 256),
        "fp8" if str(told.arguments.get("kv_cache_dtype", "")).startswith("fp8") else "auto",
        int(told.arguments.get("max_num_batched_tokens") or 8192),
        float(told.arguments.get("gpu_memory_utilization") or 0.92),
    )
    return model, Layout(tensor), gpu_box(f"{tensor}x{gpu}"), limits


def _gpu(gpu_gib: float) -> str | None:
    near = [(abs(gpu_box(name).usable_bytes_per_gpu / 2**30 - gpu_gib), name) for name in gpu_names()]
    distance, name = min(near)
    return name if distance <= _SAME_GPU_GIB else None


_ADVICE: Mapping[str, Callable[[Circumstances], str]] = {
    "flags": _flags,
    "parsers": _parsers,
    "divisors": _divisors,
    "context": _context,
    "layouts": _layouts,
    "utilization": _utilization,
    "pod-memory": _pod_memory,
}
