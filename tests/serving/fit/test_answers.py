"""What people ask: the longest context, the most requests, and what else would work, cheapest first."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.accelerators import instance_shape, instance_shapes
from serving.fit.answers import largest_concurrency, largest_context, nearest_settings, nearest_that_fit
from serving.fit.layout import Layout
from serving.fit.limits import EngineLimits
from serving.fit.plan import plan_fit
from serving.gpu_boxes import gpu_box, shown_boxes
from serving.profiles import known_models, load_checkpoint
from serving.units import GIB

KIMI = load_checkpoint("kimi-k2.5")
H100, H200 = instance_shape("p5.48xlarge"), instance_shape("p5en.48xlarge")
FULL = EngineLimits(262_144, 64)
MACHINES = [*instance_shapes().values(), *shown_boxes()]


def test_kimi_over_eight_h200_fits_three_times_the_whole_context() -> None:
    plan = plan_fit(KIMI, Layout(8), H200, FULL)
    assert plan.fits
    assert plan.missing_bytes == 0
    assert 3.0 < plan.full_context_requests < 3.3
    assert largest_context(KIMI, Layout(8), H200, FULL) == 262_144
    assert largest_concurrency(KIMI, Layout(8), H200, FULL) == 3
    assert largest_concurrency(KIMI, Layout(8), H200, FULL, 32_768) >= 3 * 8


def test_kimi_over_eight_80_gb_gpus_lacks_what_the_plan_says() -> None:
    plan = plan_fit(KIMI, Layout(8), H100, FULL)
    assert not plan.fits
    assert plan.faults == ()
    assert plan.missing_bytes / GIB == pytest.approx(19.44, abs=0.02)
    assert plan.kv_cache_tokens == 0
    assert largest_context(KIMI, Layout(8), H100, FULL) == 0
    assert largest_concurrency(KIMI, Layout(8), H100, FULL) == 0
    assert nearest_settings(KIMI, Layout(8), H100, FULL) == ()


def test_four_h200_cannot_hold_the_weights() -> None:
    plan = plan_fit(KIMI, Layout(4), gpu_box("4xH200"), FULL)
    assert plan.weights_bytes_per_gpu > plan.usable_bytes
    assert not plan.fits


def test_what_works_is_listed_cheapest_first_and_unknown_prices_last() -> None:
    prices = {"p5.48xlarge": 55.0, "p5e.48xlarge": 80.0, "p5en.48xlarge": 63.0}
    found = nearest_that_fit(KIMI, FULL, prices.get)
    assert [one.shape.name for one in found[:3]] == ["p5en.48xlarge", "p5e.48xlarge", "p5.48xlarge"]
    assert [one.usd_per_hour for one in found[:3]] == [63.0, 80.0, 110.0]
    assert found[2].layout.nodes == 2
    assert all(one.plan.fits for one in found)
    assert all(one.usd_per_hour is None for one in found[3:])
    assert "p6-b200.48xlarge" in [one.shape.name for one in found[3:]]


def test_more_requests_may_ask_for_more_machines() -> None:
    def price(_name: str) -> float:
        return 1.0

    few = nearest_that_fit(KIMI, FULL, price, shapes=[H200])
    many = nearest_that_fit(KIMI, FULL, price, shapes=[H200], concurrency=40)
    assert few[0].layout == Layout(8)
    assert many[0].layout.nodes > 1
    assert many[0].plan.full_context_requests >= 40
    assert nearest_that_fit(KIMI, FULL, price, shapes=[gpu_box("2xA100-80")], most_nodes=2) == ()


def test_settings_near_the_wish_do_fit() -> None:
    tight = replace(FULL, gpu_memory_utilization=0.62)
    assert not plan_fit(KIMI, Layout(8), H200, tight).fits
    shorter, halved = nearest_settings(KIMI, Layout(8), H200, tight)
    assert shorter.context_tokens < 262_144
    assert halved.kv_cache_dtype == "fp8"
    for limits in (shorter, halved):
        assert plan_fit(KIMI, Layout(8), H200, limits).fits


def test_the_largest_context_is_the_largest() -> None:
    tight = replace(FULL, gpu_memory_utilization=0.6)
    longest = largest_context(KIMI, Layout(8), H200, tight)
    assert 0 < longest < 262_144
    assert plan_fit(KIMI, Layout(8), H200, replace(tight, context_tokens=longest)).fits
    assert not plan_fit(KIMI, Layout(8), H200, replace(tight, context_tokens=longest + 1)).fits


def test_data_parallel_ranks_have_a_cache_each() -> None:
    limits = EngineLimits(262_144, 64, max_batched_tokens=4096)
    plan = plan_fit(KIMI, Layout(1, data_parallel=8, expert_parallel=True), H200, limits)
    assert plan.fits
    assert plan.kv_cache_tokens == 8 * plan.blocks * 16


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(known_models()),
    machine=st.sampled_from(MACHINES),
    context=st.integers(1, 200_000),
    more=st.integers(0, 100_000),
    batched=st.integers(64, 32_768),
    tensor=st.sampled_from([1, 2, 3, 4, 8]),
    pipeline=st.sampled_from([1, 2, 3]),
    dtype=st.sampled_from(["auto", "fp8"]),
)
def test_more_of_anything_never_needs_less(
    name: str, machine: object, context: int, more: int, batched: int, tensor: int, pipeline: int, dtype: str
) -> None:
    model = load_checkpoint(name)
    shape = next(one for one in MACHINES if one is machine)
    layout = Layout(tensor, pipeline)
    limits = EngineLimits(context, 64, "fp8" if dtype == "fp8" else "auto", batched)
    plan = plan_fit(model, layout, shape, limits)
    longer = plan_fit(model, layout, shape, replace(limits, context_tokens=context + more))
    wider = plan_fit(model, layout, shape, replace(limits, max_batched_tokens=batched + more))
    crowded = plan_fit(model, layout, shape, replace(limits, max_sequences=64 + more))
    assert longer.missing_bytes >= plan.missing_bytes
    assert wider.kv_cache_bytes <= plan.kv_cache_bytes
    assert crowded.kv_cache_bytes <= plan.kv_cache_bytes
    assert plan.fits == (not plan.faults and plan.missing_bytes == 0)
    assert plan.peak_used.low <= plan.peak_used_bytes <= plan.peak_used.high
    low, high = plan.kv_cache_tokens_bounds
    assert low <= plan.kv_cache_tokens <= high
    for rank in plan.ranks:
        assert sum(term.count for term in rank.budget_terms) + rank.kv_bytes == plan.budget_bytes
