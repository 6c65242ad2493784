"""Slow without an error: what vLLM's own metrics say about where the time goes."""

from collections.abc import Iterator

from serving.diagnosis.checks import found
from serving.diagnosis.finding import Finding
from serving.diagnosis.prometheus import MetricsPage, read_metrics

# Below these nothing is called a cause: every busy server queues a little.
_QUEUE_S = 1.0
_QUEUE_SHARE = 0.2
_PREEMPTED_SHARE = 0.01
_KV_FULL = 0.9
_LONG_PROMPT_TOKENS = 4000
_PREFILL_S = 2.0
_CUT_SHARE = 0.2
_SLOW_TOKEN_S = 0.06
_SMALL_STEP_TOKENS = 4.0
_ENOUGH_REQUESTS = 5


def diagnose_slow(page: str) -> tuple[Finding, ...]:
    """Why answers are slow, from one metrics page; means are those since the server started. Empty where nothing shows."""
    metrics = read_metrics(page)
    if metrics.total("vllm:num_requests_running") is None:
        return (found("slow-loading", "the metrics page", "no vllm:num_requests_running"),)
    findings = [*_asleep(metrics), *_crowded(metrics), *_prompts(metrics), *_tokens(metrics), *_ends(metrics)]
    return tuple(sorted(findings, key=lambda one: one.severity == "warning"))


def _asleep(metrics: MetricsPage) -> Iterator[Finding]:
    for state in ("weights_offloaded", "discard_all"):
        if metrics.total("vllm:engine_sleep_state", sleep_state=state):
            yield found("slow-asleep", "vllm:engine_sleep_state", state, state=state)


def _crowded(metrics: MetricsPage) -> Iterator[Finding]:
    running, waiting = _now(metrics, "vllm:num_requests_running"), _now(metrics, "vllm:num_requests_waiting")
    used = metrics.total("vllm:kv_cache_usage_perc") or 0.0
    queue_s, whole_s = metrics.mean("vllm:request_queue_time_seconds"), metrics.mean("vllm:e2e_request_latency_seconds")
    share = queue_s / whole_s if queue_s and whole_s else 0.0
    if waiting > running or (queue_s is not None and queue_s > _QUEUE_S and share > _QUEUE_SHARE):
        yield found(
            "slow-queue",
            "vllm:request_queue_time_seconds",
            f"mean {queue_s or 0:.1f} s, {waiting} waiting",
            queue_s=f"{queue_s or 0:.1f}",
            share=f"{share:.0%}",
            running=running,
            waiting=waiting,
            kv=f"{used:.0%}",
        )
    preempted, requests = metrics.total("vllm:num_preemptions_total") or 0, _requests(metrics)
    if preempted and preempted > _PREEMPTED_SHARE * requests:
        yield found(
            "slow-preemption", "vllm:num_preemptions_total", f"{preempted:.0f}",
            preemptions=f"{preempted:,.0f}", requests=f"{requests:,.0f}",
        )  # fmt: skip
    elif used > _KV_FULL:
        yield found("slow-kv-full", "vllm:kv_cache_usage_perc", f"{used:.2f}", kv=f"{used:.0%}", running=running)
    refused = metrics.total("vllm:admission_rejections_total") or 0
    if refused:
        yield found(
            "slow-rejections", "vllm:admission_rejections_total", f"{refused:.0f}", rejections=f"{refused:,.0f}"
        )


def _prompts(metrics: MetricsPage) -> Iterator[Finding]:
    prompt, prefill_s = metrics.mean("vllm:request_prompt_tokens"), metrics.mean("vllm:request_prefill_time_seconds")
    asked, hit = metrics.total("vllm:prefix_cache_queries_total"), metrics.total("vllm:prefix_cache_hits_total")
    share = hit / asked if hit and asked else 0.0
    if prompt and prefill_s and prompt > _LONG_PROMPT_TOKENS and prefill_s > _PREFILL_S:
        yield found(
            "slow-long-prompts",
            "vllm:request_prefill_time_seconds",
            f"mean {prefill_s:.1f} s for {prompt:,.0f} tokens",
            prompt=f"{prompt:,.0f}",
            prefill_s=f"{prefill_s:.1f}",
            hits=f"{share:.0%}",
        )


def _tokens(metrics: MetricsPage) -> Iterator[Finding]:
    between_s, step = metrics.mean("vllm:inter_token_latency_seconds"), metrics.mean("vllm:iteration_tokens_total")
    if between_s is None or step is None or _requests(metrics) < _ENOUGH_REQUESTS:
        return
    milliseconds = f"{1000 * between_s:.0f}"
    if between_s > _SLOW_TOKEN_S:
        yield found(
            "slow-tokens", "vllm:inter_token_latency_seconds", f"mean {milliseconds} ms",
            itl_ms=milliseconds, tokens=f"{step:.1f}",
        )  # fmt: skip
    elif step < _SMALL_STEP_TOKENS and between_s > _SLOW_TOKEN_S / 4:
        yield found(
            "slow-low-batch", "vllm:iteration_tokens_total", f"mean {step:.1f}",
            itl_ms=milliseconds, tokens=f"{step:.1f}", running=_now(metrics, "vllm:num_requests_running"),
        )  # fmt: skip


def _ends(metrics: MetricsPage) -> Iterator[Finding]:
    cut = metrics.total("vllm:request_success_total", finished_reason="length") or 0
    requests = _requests(metrics)
    if requests >= _ENOUGH_REQUESTS and cut > _CUT_SHARE * requests:
        share = f"{cut / requests:.0%}"
        yield found("slow-cut-answers", "vllm:request_success_total", f"length {cut:.0f}", share=share)


def _requests(metrics: MetricsPage) -> float:
    return metrics.total("vllm:request_success_total") or 0.0


def _now(metrics: MetricsPage, name: str) -> int:
    return round(metrics.total(name) or 0)
