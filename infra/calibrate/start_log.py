"""What the engine's log says of its start, term by term; made for vLLM 0.26 to 0.33, on GPUs and on CPUs."""

import re
from dataclasses import dataclass

from serving.measurements import Measured, StartSeconds

_NUMBER = r"(\d+(?:\.\d+)?)"
_WEIGHTS = re.compile(rf"Model loading took {_NUMBER} GiB(?: memory)? and {_NUMBER} seconds")
_AVAILABLE = re.compile(r"Available KV cache memory: (-?\d+(?:\.\d+)?) GiB")
_CPU_CACHE = re.compile(rf"Explicitly set \({_NUMBER}/{_NUMBER}\) GiB for KV cache")
_TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(rf"Maximum concurrency for [\d,]+ tokens per request: {_NUMBER}x")
_GRAPHS = re.compile(rf"Graph capturing finished in {_NUMBER} secs, took {_NUMBER} GiB")
_POOL = re.compile(rf"CUDA graph pool memory: {_NUMBER} GiB \(actual\), {_NUMBER} GiB \(estimated\)")
_COMPILE = re.compile(rf"torch\.compile took {_NUMBER} s in total")
_ENGINE = re.compile(rf"init engine \(profile, create kv cache, warmup model\) took {_NUMBER} s")
_FREE = re.compile(rf"Free memory on device \({_NUMBER}/{_NUMBER} GiB\) on startup")
# Up to 0.31 weights, activations and the rest are told apart here; later versions put weights and rest together.
_USAGE = re.compile(
    rf"Actual usage is {_NUMBER} GiB for weight, {_NUMBER} GiB for peak activation, {_NUMBER} GiB for non-torch memory"
)
_CONSUMED = re.compile(
    rf"Actual usage is {_NUMBER} GiB for consumed memory \(weights \+ non-torch\), {_NUMBER} GiB for peak activation"
)
_VERSION = re.compile(r"Initializing a V1 LLM engine \(v([^)]+)\)")
_BACKEND = re.compile(r"Using (\w+) (?:attention )?backend(?: out of potential| *\.|$)", re.MULTILINE)
_EXPERTS = re.compile(r"Using '(\w+)' \w+ MoE backend")
_READY = "Application startup complete"
_REASON = re.compile(r"(?:\b\w*(?:Error|Exception)\b: .*|vllm(?: serve)?: error: .*)")
_POINTERS = ("See root cause above", "WorkerProc initialization failed", "EngineDeadError")


@dataclass(frozen=True)
class StartLog:
    """What one log says. `attention`, `experts`: the backends chosen, empty where none is named."""

    version: str
    attention: str
    experts: str
    measured: Measured
    seconds: StartSeconds


def read_start(text: str) -> StartLog:
    """The terms in the log `text`. Of several GPUs the fullest counts for what they hold, the tightest for KV cache."""
    usage, consumed, pool = _USAGE.findall(text), _CONSUMED.findall(text), _POOL.findall(text)
    weights, graphs, free = _WEIGHTS.findall(text), _GRAPHS.findall(text), _FREE.findall(text)
    loaded = _most(weights, 0)
    activation, non_torch = _most(usage, 1), _most(usage, 2)
    if consumed and loaded is not None:
        activation, non_torch = _most(consumed, 1), round(float(consumed[0][0]) - loaded, 2)
    available = [float(one) for one in _AVAILABLE.findall(text)] + [float(one[0]) for one in _CPU_CACHE.findall(text)]
    tokens = [int(one.replace(",", "")) for one in _TOKENS.findall(text)]
    ran = bool(usage or consumed or graphs)
    measured = Measured(
        weights_gib=loaded,
        activation_gib=activation,
        non_torch_gib=non_torch,
        graphs_actual_gib=_most(graphs, 1) if graphs else 0.0 if ran else None,
        graphs_estimated_gib=_most(pool, 1),
        kv_cache_gib=min(available, default=None),
        kv_tokens=min(tokens, default=None),
        concurrency=min((float(one) for one in _CONCURRENCY.findall(text)), default=None),
        usable_gib=float(free[0][1]) if free else None,
        free_gib=min((float(one[0]) for one in free), default=None),
    )
    seconds = StartSeconds(
        load=_most(weights, 1),
        compile=max((float(one) for one in _COMPILE.findall(text)), default=None),
        graphs=_most(graphs, 0),
        engine=max((float(one) for one in _ENGINE.findall(text)), default=None),
    )
    return StartLog(_first(_VERSION, text), _first(_BACKEND, text), _first(_EXPERTS, text), measured, seconds)


def is_ready(text: str) -> bool:
    """Whether the server said that it answers."""
    return _READY in text


def reason(text: str) -> str:
    """Why a start failed, as its log says: the last error above the one that only points upwards; empty for none."""
    found = [match[0].strip() for match in _REASON.finditer(text) if not any(words in match[0] for words in _POINTERS)]
    return found[-1] if found else ""


def _most(rows: list[tuple[str, ...]], column: int) -> float | None:
    return max((float(row[column]) for row in rows), default=None)


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""
