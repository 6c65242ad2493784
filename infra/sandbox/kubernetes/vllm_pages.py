"""The pages and log lines of a simulated vLLM server, in the form of vLLM 0.32."""

import json
from typing import Any

from infra.sandbox.kubernetes.documents import children
from infra.sandbox.kubernetes.simulated_requests import RequestCounts

Object = dict[str, Any]

_REASONS = ("stop", "length", "abort", "error", "repetition")


def model_name(pod: Object) -> str:
    """What the main container's command line serves: `--served-model-name`, else `--model`, else `serve MODEL`."""
    container: Object = pod["spec"]["containers"][0]
    words: list[str] = []
    for word in [*children(container, "command"), *children(container, "args")]:
        words += word.split("=", 1) if word.startswith("--") else [word]
    for before in ("--served-model-name", "--model", "serve"):
        if before in words[:-1] and not words[words.index(before) + 1].startswith("-"):
            return words[words.index(before) + 1]
    return "simulated"


def metrics_page(counts: RequestCounts, model: str) -> str:
    """The metrics page."""
    labels = f'engine="0",model_name={json.dumps(model)}'
    lines = ["# Simulated: no model runs behind this page."]

    def metric(name: str, kind: str, words: str, value: float) -> None:
        lines.extend([f"# HELP vllm:{name} {words}", f"# TYPE vllm:{name} {kind}"])
        lines.append(f"vllm:{name}{{{labels}}} {float(value)}")

    metric("num_requests_running", "gauge", "Number of requests in model execution batches.", counts.running)
    metric("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", counts.waiting)
    metric("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", counts.kv_cache_usage)
    metric("prompt_tokens_total", "counter", "Number of prefill tokens processed.", counts.prompt_tokens)
    metric("generation_tokens_total", "counter", "Number of generation tokens processed.", counts.generation_tokens)
    lines.append("# HELP vllm:request_success_total Count of successfully processed requests.")
    lines.append("# TYPE vllm:request_success_total counter")
    for reason in _REASONS:
        value = float(counts.succeeded if reason == "stop" else 0)
        fields = f'engine="0",finished_reason="{reason}",model_name={json.dumps(model)}'
        lines.append(f"vllm:request_success_total{{{fields}}} {value}")
    return "\n".join(lines) + "\n"


def models_page(model: str) -> Object:
    """What `/v1/models` answers."""
    return {"object": "list", "data": [{"id": model, "object": "model", "owned_by": "vllm", "root": model}]}


def log_lines(pod: Object) -> list[str]:
    """The main container's log so far; a loading server has not said that it is ready."""
    statuses: list[Object] = children(pod["status"], "containerStatuses")
    model = model_name(pod)
    lines = [
        "simulated: no model runs behind this log",
        f"(APIServer pid=1) INFO non-default args: {{'model': '{model}'}}",
        "(EngineCore pid=20) INFO Starting to load model",
    ]
    if statuses and statuses[0].get("ready"):
        lines += [
            "(APIServer pid=1) INFO Starting vLLM server on http://0.0.0.0:8000",
            "(APIServer pid=1) INFO:     Application startup complete.",
        ]
    return lines
