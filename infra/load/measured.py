"""What was measured at one level: the load generator's figures, and the server's own beside them."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from infra.load.levels import Level
from serving.errors import JobError

PERCENTILES = (50, 90, 95, 99)
LATENCIES = ("ttft", "tpot", "itl", "e2el")
"""As `vllm bench serve` calls them: first token, mean per later token of a request, between tokens, end to end."""
LATENCY_NAMES = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "itl": "inter-token latency",
    "e2el": "end to end",
}


@dataclass(frozen=True)
class Figures:
    """The load generator's figures of one level; latencies in milliseconds, by name and percentile."""

    completed: int
    failed: int
    duration_s: float
    requests_per_s: float
    output_tokens_per_s: float
    total_tokens_per_s: float
    input_tokens: int
    output_tokens: int
    latency_ms: Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class ServerView:
    """What the server's metrics said meanwhile; None where they could not be read.

    - `kv_cache_share`: the highest use of the KV cache, 1 is full. `running`, `waiting`: the most requests seen.
    - `preemptions`: requests thrown out of the KV cache and computed again. `prefix_hit_share`: of prompt tokens.
    - `looks`: how often the metrics were read. `problem`: why they were not.
    """

    kv_cache_share: float | None = None
    running: int | None = None
    waiting: int | None = None
    preemptions: int | None = None
    prefix_hit_share: float | None = None
    looks: int = 0
    problem: str = ""


@dataclass(frozen=True)
class LevelResult:
    """One level's outcome: `figures` is None where it was cut, and `cut` says why."""

    level: Level
    figures: Figures | None
    server: ServerView
    took_s: float
    cut: str = ""


def read_figures(text: str) -> Figures:
    """Read the JSON that `vllm bench serve --save-result` wrote; raises JobError where a figure is missing."""
    try:
        document = cast("dict[str, Any]", json.loads(text))
        latencies = {
            name: {rank: _number(document[f"p{rank}_{name}_ms"]) for rank in PERCENTILES} for name in LATENCIES
        }
        return Figures(
            completed=int(document["completed"]),
            failed=int(document.get("failed") or 0),
            duration_s=_number(document["duration"]),
            requests_per_s=_number(document["request_throughput"]),
            output_tokens_per_s=_number(document["output_throughput"]),
            total_tokens_per_s=_number(document["total_token_throughput"]),
            input_tokens=int(document["total_input_tokens"]),
            output_tokens=int(document["total_output_tokens"]),
            latency_ms=latencies,
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise JobError(
            f"the result of `vllm bench serve` cannot be read ({type(error).__name__}: {error}); it is written for vLLM "
            "0.32 and its neighbours: `--vllm` names another one"
        ) from error


def _number(value: object) -> float:
    number = float(cast("Any", value))
    if not math.isfinite(number):
        raise ValueError(f"{value} is no number")
    return number
