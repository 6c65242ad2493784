"""Bytes that must be exact, refusals that must help, and properties of the planner."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.accelerators import instance_shape, instance_shapes
from serving.errors import DoesNotFitError, UnknownFactError
from serving.memory import EngineLimits, plan_memory, require_fit
from serving.profiles import known_models, load_model

KIMI = load_model("kimi-k2.5")
H200 = instance_shape("p5en.48xlarge")
FULL = EngineLimits(context_tokens=262_144, max_sequences=64)


@pytest.mark.parametrize("name", known_models())
def test_every_known_model_is_planned_with_its_published_bytes(name: str) -> None:
    model = load_model(name)
    plan = plan_memory(model, H200, EngineLimits(32_768, 64))
    assert plan.weights_bytes == model.published_weights_bytes
    assert plan.fit.faults == ()
    assert plan.budget_bytes == plan.weights_bytes_per_gpu + plan.reserved_bytes + plan.kv_cache_bytes


def test_the_plan_follows_the_profile_s_vision_mode() -> None:
    assert plan_memory(KIMI, H200, FULL).weights_bytes_per_gpu == 77_124_881_376
    text_only = dataclasses.replace(KIMI, vision_mode="none")
    assert plan_memory(text_only, H200, FULL).weights_bytes_per_gpu == 76_182_593_536


def test_the_plan_lies_in_the_band_of_published_starts() -> None:
    plan = require_fit(KIMI, H200, FULL)
    # Published starts of this layout at 0.92 lie between 742,000 and 819,000 tokens.
    assert 742_000 < plan.kv_cache_tokens < 819_000
    assert 2.8 < plan.full_context_requests < 3.2


def test_eight_h100_are_refused_with_the_missing_gib_and_what_works() -> None:
    with pytest.raises(DoesNotFitError) as refused:
        require_fit(KIMI, instance_shape("p5.48xlarge"), FULL)
    text = str(refused.value)
    assert "Kimi K2.5 does not fit on p5.48xlarge (8 × H100) at a context of 262,144 tokens" in text
    assert "each GPU lacks 19.4 GiB" in text
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


def test_a_machine_that_cannot_run_the_layout_is_told_why() -> None:
    with pytest.raises(DoesNotFitError) as refused:
        require_fit(KIMI, instance_shape("p4de.24xlarge"), EngineLimits(32_768, 64, "fp8"))
    text = str(refused.value)
    assert "Kimi K2.5 cannot run on p4de.24xlarge (8 × A100" in text
    assert "an fp8 KV cache needs compute capability 8.9 or more" in text
    assert "p5en.48xlarge" in text


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(UnknownFactError, match="known: .*kimi-k2.5"):
        load_model("kimi-k9")
    with pytest.raises(UnknownFactError, match=r"known: .*p5en\.48xlarge"):
        instance_shape("p9.48xlarge")


def test_an_estimated_memory_size_says_so() -> None:
    assert instance_shape("p6-b200.48xlarge").usable_is_estimate
    assert not H200.usable_is_estimate
