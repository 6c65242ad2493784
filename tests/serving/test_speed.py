"""The estimated speed: every measured one lies in its band, and it moves the way that it must."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.accelerators import instance_shape
from serving.fit.layout import Layout
from serving.fit.limits import EngineLimits
from serving.gpu_boxes import gpu_box
from serving.measurements import Speed, Start, measurements
from serving.profiles import load_checkpoint
from serving.speed import SpeedModel, speed_model, usd_per_million_tokens

KIMI = load_checkpoint("kimi-k2.5")
LIMITS = EngineLimits(262_144, 256)
MEASURED = [(start, speed) for start in measurements() for speed in start.speeds]


def modelled() -> SpeedModel:
    found = speed_model(KIMI, Layout(8), instance_shape("p5en.48xlarge"), LIMITS)
    assert found is not None
    return found


@pytest.mark.parametrize(("start", "speed"), MEASURED, ids=[f"{one.name}, {at.requests}" for one, at in MEASURED])
def test_every_measured_speed_lies_in_the_band(start: Start, speed: Speed) -> None:
    model = speed_model(start.checkpoint, start.run_layout, gpu_box(f"{start.gpus}x{start.gpu}"), start.limits)
    assert model is not None
    if speed.decode_tokens_per_s is not None:
        rate = model.decode_tokens_per_s(speed.requests, speed.prompt_tokens or 100)
        assert rate.low <= speed.decode_tokens_per_s <= rate.high
    elif speed.first_token_s is not None:
        first = model.first_token_s(speed.prompt_tokens or 1)
        assert first.low <= speed.first_token_s <= first.high


def test_published_speeds_of_kimi_on_eight_h200_lie_in_the_band() -> None:
    model = modelled()
    alone, crowded = model.decode_tokens_per_s(1, 1_000), model.decode_tokens_per_s(64, 1_000)
    assert alone.low <= 57.5 <= alone.high
    assert crowded.low <= 2_100
    assert crowded.high >= 2_600


@given(requests=st.integers(1, 200), tokens=st.integers(1, 100_000))
def test_more_requests_give_more_together_and_longer_ones_less(requests: int, tokens: int) -> None:
    model = modelled()
    now = model.decode_tokens_per_s(requests, tokens)
    assert now.low < now.value < now.high
    assert model.decode_tokens_per_s(requests + 1, tokens).value > now.value
    assert model.decode_tokens_per_s(requests, tokens + 1_000).value < now.value
    assert model.first_token_s(tokens + 1_000).value > model.first_token_s(tokens).value


def test_a_gpu_of_unknown_bandwidth_has_no_speed_and_a_slower_one_less() -> None:
    assert speed_model(KIMI, Layout(8), gpu_box("8xRTX-4090"), LIMITS) is None
    slower = speed_model(KIMI, Layout(8), gpu_box("8xH100"), LIMITS)
    assert slower is not None
    assert slower.decode_tokens_per_s(32, 4_000).value < modelled().decode_tokens_per_s(32, 4_000).value


def test_a_million_tokens_cost_the_hour_over_the_tokens_of_the_hour() -> None:
    rate = modelled().decode_tokens_per_s(64, 4_000)
    dollars = usd_per_million_tokens(63.30, rate)
    assert dollars.value == pytest.approx(63.30 / (rate.value * 3_600 / 1e6))
    assert dollars.low < dollars.value < dollars.high
