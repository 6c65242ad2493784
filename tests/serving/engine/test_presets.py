"""Presets change what they say, say what they change, and leave alone what the user wrote."""

from dataclasses import replace

import pytest

from serving.accelerators import instance_shape
from serving.engine.extra_arguments import extra_argument_faults
from serving.engine.presets import PURPOSES, PresetName, apply_preset
from serving.memory import EngineLimits, plan_memory
from serving.profiles import load_model

KIMI = load_model("kimi-k2.5")
H200 = instance_shape("p5en.48xlarge")
LIMITS = EngineLimits(262_144, 64)


def test_latency() -> None:
    made = apply_preset("latency", LIMITS, KIMI, H200, ())
    assert made.limits == replace(LIMITS, max_batched_tokens=4096, max_sequences=16)
    assert made.flags == ("--performance-mode=interactivity",)
    assert made.notes == ()
    lines = made.lines()
    assert lines[0] == "Preset latency: short waits for few callers, paid with fewer at once."
    assert lines[1].startswith("  maxBatchedTokens 8,192 → 4,096: a prompt that is being read holds up")
    assert lines[2].startswith("  maxSequences 64 → 16: ")
    assert lines[3].startswith("  --performance-mode balanced → interactivity: ")


def test_throughput_changes_no_answer_and_costs_cache() -> None:
    made = apply_preset("throughput", LIMITS, KIMI, H200, ())
    assert made.limits == replace(LIMITS, max_batched_tokens=16_384, max_sequences=256)
    before, after = (plan_memory(KIMI, H200, limits).kv_cache_tokens for limits in (LIMITS, made.limits))
    assert 0.9 * before < after < before


def test_long_context_holds_twice_the_tokens_and_says_what_that_costs() -> None:
    made = apply_preset("long-context", LIMITS, KIMI, H200, ())
    assert made.limits == replace(LIMITS, kv_cache_dtype="fp8", max_sequences=16)
    before, after = (plan_memory(KIMI, H200, limits).kv_cache_tokens for limits in (LIMITS, made.limits))
    assert after == pytest.approx(2 * before, rel=0.01)
    text = "\n".join(made.lines())
    assert "not lossless, so compare answers first" in text
    assert "To be known of Kimi K2.5: the checkpoint ships no KV scales" in text


@pytest.mark.parametrize("name", PURPOSES)
def test_what_the_user_wrote_stays_and_is_said_to_stay(name: PresetName) -> None:
    written = ("maxSequences", "maxBatchedTokens", "kvCacheDtype")
    own = ("--performance-mode=throughput", "--long-prefill-token-threshold=100")
    made = apply_preset(name, LIMITS, KIMI, H200, written, own)
    assert (made.limits, made.flags, made.changes) == (LIMITS, (), ())
    assert made.notes
    assert all("you set it" in note for note in made.notes)


def test_a_value_that_is_the_preset_s_already_is_no_change() -> None:
    made = apply_preset("throughput", replace(LIMITS, max_sequences=256), KIMI, H200, ("maxSequences",))
    assert [change.setting for change in made.changes] == ["maxBatchedTokens"]
    assert made.notes == ()


def test_hardware_without_fp8_keeps_the_cache_as_it_is() -> None:
    a100 = replace(H200, gpu="A100", compute_capability=8.0)
    made = apply_preset("long-context", LIMITS, KIMI, a100, ())
    assert made.limits.kv_cache_dtype == "auto"
    assert "kvCacheDtype stays auto: the A100 has no kernels for an fp8 cache." in made.notes


@pytest.mark.parametrize("name", PURPOSES)
def test_every_change_is_told_with_both_values_and_a_reason(name: PresetName) -> None:
    made = apply_preset(name, LIMITS, KIMI, H200, ())
    assert len(made.lines()) == 1 + len(made.changes) + len(made.notes)
    for change in made.changes:
        assert change.before != change.after
        assert len(change.why) > 30
    assert extra_argument_faults(made.flags) == ()
