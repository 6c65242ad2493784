"""How fast a layout answers: estimates with a wide band, of the same measurements as the memory plan.

A step of decoding reads from memory what its tokens need and costs each layer a time of its own; reading a prompt is
arithmetic. Coefficients and bands stand in `serving/data/speed.toml`, which says what they were fitted to.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from serving.accelerators import InstanceShape
from serving.checkpoint.model import CheckpointModel
from serving.checkpoint.weights import Kind
from serving.fit.kv_cache import kv_bytes_per_token
from serving.fit.layout import Layout, Stage, stages
from serving.fit.limits import EngineLimits
from serving.fit.sharding import rank_weights

_TERA = 1e12
_EXPERTS = (Kind.ROUTED_EXPERTS.value, Kind.EXPERT_SCALES.value)
_NOT_READ = (Kind.EMBEDDING.value, Kind.VISION.value)


@dataclass(frozen=True)
class Estimate:
    """A likeliest figure and the band that it was seen to lie in."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class SpeedModel:
    """The speed of one model in one layout on one kind of GPU; build it with `speed_model`.

    - `bandwidth`: bytes a second of one GPU. `flops`: dense BF16 operations a second of one GPU.
    """

    model: CheckpointModel
    layout: Layout
    limits: EngineLimits
    bandwidth: float
    flops: float

    def decode_tokens_per_s(self, requests: int, tokens_each: int) -> Estimate:
        """Tokens a second of the whole replica with `requests` at once, each `tokens_each` tokens long so far."""
        law = _law()["decode"]
        own = max(1, -(-requests // self.layout.data_parallel))
        step_s = law["layer_s"] * self.model.layers
        for stage in stages(self.model.layers, self.layout.pipeline_parallel):
            cache_bytes = own * tokens_each * kv_bytes_per_token(self.model, self.layout, self.limits)
            step_s += self._read_bytes(stage, own) / (self.bandwidth * law["bandwidth_share"])
            step_s += cache_bytes * stage.layers / self.model.layers / self.bandwidth
        step_s += own * self._active_parameters * 2 / self._shared_flops
        return _estimate(requests / step_s, law)

    def first_token_s(self, prompt_tokens: int) -> Estimate:
        """Seconds from a request alone to its first token."""
        law = _law()["prefill"]
        share = law["experts_share"] if self.model.experts else law["dense_share"]
        steps = -(-prompt_tokens // self.limits.max_batched_tokens)
        seconds = steps * law["layer_s"] * self.model.layers
        seconds += prompt_tokens * 2 * self._active_parameters / (self._shared_flops * share)
        return _estimate(seconds, law)

    @property
    def _shared_flops(self) -> float:
        # Stages work one after the other on one request; ranks of data parallel have requests of their own.
        return self.flops * self.layout.tensor_parallel

    @property
    def _active_parameters(self) -> float:
        """Parameters that one token passes through."""
        used = 0.0
        for tensor in self.model.tensors:
            if tensor.kind in (Kind.EMBEDDING, Kind.VISION, Kind.DRAFT):
                continue
            share = self.model.experts_per_token / self.model.experts if tensor.kind is Kind.ROUTED_EXPERTS else 1
            used += tensor.parameters * share
        return used

    def _read_bytes(self, stage: Stage, tokens: int) -> float:
        """Bytes of weights that one GPU reads in a step of `tokens` tokens, experts chosen evenly."""
        held = rank_weights(self.model, self.layout, stage)
        chosen = 1.0
        if self.model.experts:
            # Whole experts of one GPU see the tokens of all data-parallel ranks.
            seen = tokens * (self.layout.data_parallel if self.layout.expert_parallel else 1)
            chosen = 1 - (1 - self.model.experts_per_token / self.model.experts) ** seen
        return sum(count * (chosen if name in _EXPERTS else 1) for name, count in held.items() if name not in _NOT_READ)


def speed_model(
    model: CheckpointModel, layout: Layout, shape: InstanceShape, limits: EngineLimits
) -> SpeedModel | None:
    """The speed of `model` in `layout` on `shape`; None for a GPU whose bandwidth no data file holds."""
    row = _law()["gpu"].get(shape.gpu)
    if row is None:
        return None
    return SpeedModel(model, layout, limits, row["bandwidth_tb_per_s"] * _TERA, row["bf16_tflops"] * _TERA)


def usd_per_million_tokens(usd_per_hour: float, tokens_per_s: Estimate) -> Estimate:
    """Dollars for a million answered tokens while that many requests run at once; the faster, the cheaper."""
    hourly = (usd_per_hour / (rate * 3600) * 1e6 for rate in (tokens_per_s.value, tokens_per_s.high, tokens_per_s.low))
    return Estimate(*hourly)


def _estimate(value: float, law: Mapping[str, Any]) -> Estimate:
    return Estimate(value, value * law["low"], value * law["high"])


@cache
def _law() -> Mapping[str, Any]:
    text = (resources.files("serving") / "data" / "speed.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
