"""Slow, and bad answers: complaints without an error."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.diagnosis.answers import diagnose_answers_command, diagnose_exchange
from serving.diagnosis.command_text import read_command
from serving.diagnosis.doctor import InputKind, diagnose
from serving.diagnosis.prometheus import read_metrics
from serving.diagnosis.slow import diagnose_slow

METRICS = Path(__file__).parents[4] / "shared" / "facts" / "vllm_0_32_metrics.txt"
HEALTHY = {
    "num_requests_running": 8, "num_requests_waiting": 0, "kv_cache_usage_perc": 0.3, "num_preemptions_total": 0,
    "request_queue_time_seconds": (0.01, 1000), "e2e_request_latency_seconds": (12, 1000),
    "request_prompt_tokens": (900, 1000), "request_prefill_time_seconds": (0.2, 1000),
    "inter_token_latency_seconds": (0.02, 9000), "iteration_tokens_total": (40, 9000),
}  # fmt: skip


def page(**changes: Any) -> str:
    """A metrics page: numbers as they are, (mean, count) as a histogram."""
    lines = [
        "# TYPE vllm:num_requests_running gauge",
        'vllm:request_success_total{engine="0",finished_reason="stop"} 1000',
    ]
    for name, value in {**HEALTHY, **changes}.items():
        label = '{engine="0",model_name="kimi-k2.5"}'
        if isinstance(value, tuple):
            lines += [f"vllm:{name}_sum{label} {value[0] * value[1]}", f"vllm:{name}_count{label} {value[1]}"]
        else:
            lines.append(f"vllm:{name}{label} {value}")
    return "\n".join(lines)


def slow(**changes: Any) -> dict[str, Any]:
    return {one.cause_id: one for one in diagnose_slow(page(**changes))}


def test_a_healthy_server_gives_none() -> None:
    assert slow() == {}


@pytest.mark.skipif(not METRICS.is_file(), reason=f"the real page is not at {METRICS}")
def test_a_real_page_is_read() -> None:
    text = METRICS.read_text()
    assert read_metrics(text).total("vllm:generation_tokens_total") == 167
    assert [one.cause_id for one in diagnose_slow(text)] == ["slow-cut-answers"]


@pytest.mark.parametrize(
    ("changes", "cause", "words"),
    [
        ({"request_queue_time_seconds": (6, 1000)}, "slow-queue", "waited 6.0 s on average before they began, 50% of"),
        ({"num_requests_waiting": 40}, "slow-queue", "8 run and 40 wait now"),
        ({"num_preemptions_total": 120}, "slow-preemption", "120 preemptions for 1,000 requests"),
        ({"kv_cache_usage_perc": 0.97}, "slow-kv-full", "97% of the KV cache are in use with 8 requests"),
        (
            {"request_prompt_tokens": (90_000, 1000), "request_prefill_time_seconds": (9, 1000)},
            "slow-long-prompts",
            "brings 90,000 tokens on average and 9.0 s go into reading them; 0% of",
        ),
        ({"inter_token_latency_seconds": (0.09, 9000)}, "slow-tokens", "90 ms between tokens at 40.0 tokens a step"),
        ({"iteration_tokens_total": (1.5, 9000)}, "slow-low-batch", "1.5 tokens a step on average and 20 ms"),
        ({"admission_rejections_total": 7}, "slow-rejections", "7 requests were refused"),
        ({'engine_sleep_state{sleep_state="discard_all"}#': 1}, "slow-asleep", "state discard_all"),
    ],
)
def test_one_cause(changes: dict[str, Any], cause: str, words: str) -> None:
    text = page(**changes).replace('}#{engine="0",model_name="kimi-k2.5"}', "}")
    (finding,) = diagnose_slow(text)
    assert finding.cause_id == cause
    assert words in finding.cause


def test_a_page_without_vllm_is_one_that_still_loads() -> None:
    assert [one.cause_id for one in diagnose_slow("# nothing yet\n")] == ["slow-loading"]


def exchange(**parts: Any) -> dict[str, Any]:
    request = {"model": "kimi-k2.5", "messages": [], **parts.pop("request", {})}
    message = {"content": "Paris.", **parts.pop("message", {})}
    return {"request": request, "response": {"choices": [{"message": message, "finish_reason": "stop", **parts}]}}


def answers(**parts: Any) -> dict[str, Any]:
    return {one.cause_id: one for one in diagnose_exchange(exchange(**parts))}


def test_a_good_exchange_gives_none() -> None:
    assert answers() == {}
    assert answers(request={"temperature": 1.0, "top_p": 0.95}) == {}
    assert answers(request={"temperature": 0.6, "chat_template_kwargs": {"thinking": False}}) == {}


def test_sampling_is_held_against_the_maker_s() -> None:
    finding = answers(request={"temperature": 0.1})["answers-sampling"]
    assert finding.cause == "temperature is 0.1; moonshotai documents 1.0 for Kimi K2.5 (thinking)."
    instant = answers(request={"temperature": 1.0, "chat_template_kwargs": {"thinking": False}})["answers-sampling"]
    assert "documents 0.6 for Kimi K2.5 (instant)" in instant.cause


@pytest.mark.parametrize(
    ("parts", "cause"),
    [
        ({"message": {"content": "<|tool_calls_section_begin|>get_weather"}}, "answers-parser"),
        ({"message": {"content": "<think>hm</think>Paris"}}, "answers-parser"),
        ({"message": {"content": "!" * 400}}, "answers-repetition"),
        ({"message": {"content": "the same again " * 40}}, "answers-repetition"),
        ({"message": {"content": "", "reasoning": "Let me think"}}, "answers-empty"),
        ({"finish_reason": "length"}, "answers-cut"),
    ],
)
def test_one_fault_of_an_answer(parts: dict[str, Any], cause: str) -> None:
    assert list(answers(**parts)) == [cause]


def test_what_a_command_does_to_answers() -> None:
    text = "vllm serve someone/Kimi-K2.5-AWQ --kv-cache-dtype fp8 --chat-template ./chatml.jinja --rope-theta 1000000"
    command = read_command(text.replace("someone/Kimi-K2.5-AWQ", "someone/Kimi-K2.5"))
    assert command is not None
    found = {one.cause_id for one in diagnose_answers_command(command)}
    # vLLM 0.32 has no --rope-theta any more, so it is no flag that could stretch anything.
    assert found == {"answers-kv-dtype", "answers-template", "answers-requantised"}


def no_yaml(text: str) -> list[object]:
    raise ValueError(text)


def test_the_kind_of_a_text_is_recognised() -> None:
    def yaml(_: str) -> list[object]:
        return [{"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}}]

    assert diagnose("vllm serve moonshotai/Kimi-K2.5", no_yaml).kind is InputKind.COMMAND
    assert diagnose(page(), no_yaml).kind is InputKind.METRICS
    assert diagnose('{"messages": [], "model": "kimi-k2.5"}', no_yaml).kind is InputKind.EXCHANGE
    assert diagnose("apiVersion: v1\nkind: Pod\n", yaml).kind is InputKind.MANIFEST
    assert diagnose("Error 802: system not yet initialized", no_yaml).kind is InputKind.LOG
    # A log that begins with its command is a log.
    assert diagnose("$ vllm serve x\nvllm: error: unrecognized arguments: --y", no_yaml).kind is InputKind.LOG


@given(st.text(max_size=400))
def test_no_text_breaks_it(text: str) -> None:
    diagnose(text, no_yaml)
    diagnose_slow(text)
