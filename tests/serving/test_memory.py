"""Bytes that must be exact, refusals that must help, and properties of the planner."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.accelerators import instance_shape, instance_shapes
from serving.errors import DoesNotFitError, UnknownFactError
from serving.memory import EngineLimits, kv_bytes_per_token, plan_memory, require_fit, weight_terms
from serving.profiles import load_model
from serving.units import GIB

KIMI = load_model("kimi-k2.5")
H200 = instance_shape("p5en.48xlarge")
FULL = EngineLimits(context_tokens=262_144, max_sequences=64)


@pytest.mark.parametrize("name", ["kimi-k2.5", "kimi-k2.6", "kimi-k2-thinking", "tiny-kimi"])
def test_the_sum_of_shapes_is_the_published_checkpoint(name: str) -> None:
    model = load_model(name)
    beside = sum(tensor.total_bytes for tensor in model.corrections.also)
    assert sum(term.total_bytes for term in weight_terms(model, 8)) + beside == model.published_weights_bytes


@pytest.mark.parametrize("name", ["deepseek-v3", "kimi-k2-instruct", "qwen3-32b", "glm-4.6", "gpt-oss-120b"])
def test_what_cannot_be_planned_yet_is_refused_in_words(name: str) -> None:
    model = load_model(name)
    with pytest.raises(UnknownFactError, match=f"{model.title} cannot be deployed yet: .*Kimi K2.5"):
        require_fit(model, H200, FULL)


def test_kimi_k25_terms_are_the_ones_worked_out_from_its_tensors() -> None:
    totals = {term.name: term.total_bytes for term in weight_terms(KIMI, 8)}
    assert totals["routed experts, packed"] == 507_343_011_840
    assert totals["routed experts, scales"] == 63_417_876_480
    assert totals["shared experts"] == 5_284_823_040
    assert totals["dense layers"] == 792_723_456
    assert totals["embedding"] == totals["output head"] == 2_348_810_240
    assert totals["vision tower"] == 942_287_840


@pytest.mark.parametrize(
    ("tensor_parallel", "vision_mode", "bytes_per_gpu"),
    [(8, "data", 77_124_881_376), (16, "data", 40_123_255_776)],
)
def test_weights_per_gpu_are_exact(tensor_parallel: int, vision_mode: str, bytes_per_gpu: int) -> None:
    model = dataclasses.replace(KIMI, vision_mode=vision_mode)
    assert sum(term.bytes_per_gpu for term in weight_terms(model, tensor_parallel)) == bytes_per_gpu


def test_text_only_weights_per_gpu_are_exact() -> None:
    model = dataclasses.replace(KIMI, vision_parameters=0)
    assert sum(term.bytes_per_gpu for term in weight_terms(model, 8)) == 76_182_593_536


def test_kv_cache_bytes_a_token() -> None:
    assert kv_bytes_per_token(KIMI, "auto") == 70_272
    assert kv_bytes_per_token(KIMI, "fp8") == 35_136


def test_the_plan_lies_in_the_band_of_published_starts() -> None:
    plan = require_fit(KIMI, H200, FULL)
    # Published starts of this layout at 0.92 lie between 742,000 and 819,000 tokens.
    assert 742_000 < plan.kv_cache_tokens < 819_000
    assert 2.8 < plan.full_context_requests < 3.2


def test_a_measured_start_is_met_within_three_percent() -> None:
    # One rank of eight, text only, FP8 cache, vLLM 0.26 on H200: 53.71 GiB and 1,641,280 tokens.
    model = dataclasses.replace(KIMI, vision_parameters=0)
    plan = plan_memory(model, H200, EngineLimits(262_144, 256, "fp8"))
    assert abs(plan.kv_cache_bytes / GIB - 53.71) < 0.2
    assert abs(plan.kv_cache_tokens / 1_641_280 - 1) < 0.003


def test_eight_h100_are_refused_with_the_missing_gib_and_what_works() -> None:
    with pytest.raises(DoesNotFitError) as refused:
        require_fit(KIMI, instance_shape("p5.48xlarge"), FULL)
    text = str(refused.value)
    assert "Kimi K2.5 does not fit on p5.48xlarge (8 × H100) at a context of 262,144 tokens" in text
    assert "each GPU lacks 20.2 GiB" in text
    assert "What works: the same settings on p5e.48xlarge, p5en.48xlarge, p6-b200.48xlarge" in text


def test_what_is_proposed_does_fit() -> None:
    tight = EngineLimits(262_144, 64, gpu_memory_utilization=0.62)
    with pytest.raises(DoesNotFitError) as refused:
        require_fit(KIMI, H200, tight)
    tokens = int(str(refused.value).split("with a context of ")[1].split(" ")[0].replace(",", ""))
    assert plan_memory(KIMI, H200, dataclasses.replace(tight, context_tokens=tokens)).fits


@given(
    context=st.integers(1024, 262_144),
    more=st.integers(0, 100_000),
    batched=st.integers(1024, 65_536),
    dtype=st.sampled_from(["auto", "fp8"]),
    name=st.sampled_from(list(instance_shapes())),
)
def test_more_of_anything_never_needs_less(context: int, more: int, batched: int, dtype: str, name: str) -> None:
    shape = instance_shape(name)
    limits = EngineLimits(context, 64, "fp8" if dtype == "fp8" else "auto", batched)
    plan = plan_memory(KIMI, shape, limits)
    longer = plan_memory(KIMI, shape, dataclasses.replace(limits, context_tokens=context + more))
    wider = plan_memory(KIMI, shape, dataclasses.replace(limits, max_batched_tokens=batched + more))
    assert longer.missing_bytes >= plan.missing_bytes
    assert wider.kv_cache_bytes <= plan.kv_cache_bytes
    assert plan.fits == (plan.missing_bytes == 0)


@given(tensor_parallel=st.sampled_from([1, 2, 4, 8, 16, 32, 64]))
def test_all_ranks_together_hold_at_least_the_whole(tensor_parallel: int) -> None:
    for term in weight_terms(KIMI, tensor_parallel):
        if term.bytes_per_gpu:
            assert term.bytes_per_gpu * tensor_parallel >= term.total_bytes


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(UnknownFactError, match="known: .*kimi-k2.5"):
        load_model("kimi-k9")
    with pytest.raises(UnknownFactError, match=r"known: .*p5en\.48xlarge"):
        instance_shape("p9.48xlarge")


def test_an_estimated_memory_size_says_so() -> None:
    assert instance_shape("p6-b200.48xlarge").usable_is_estimate
    assert not H200.usable_is_estimate
