"""Starts of vLLM 0.26.0 on H200 (139.80 GiB usable), 2026-11-29, as its log printed them."""

from dataclasses import dataclass

from serving.fit.layout import Layout
from serving.fit.limits import EngineLimits


@dataclass(frozen=True)
class Start:
    """One start; all sizes in GiB per GPU. `real_tensor_parallel`: whether more than one GPU took part."""

    name: str
    model: str
    layout: Layout
    limits: EngineLimits
    weights: float
    activation: float
    non_torch: float
    graphs_actual: float
    graphs_estimated: float
    kv_cache: float
    kv_tokens: int
    concurrency: float
    real_tensor_parallel: bool = False


_RANK = Layout(8, vision_mode="none")
_FULL = 262_144

STARTS = (
    Start(
        "Kimi, BF16 cache, eager", "kimi-k2.5", _RANK, EngineLimits(_FULL, 256, enforce_eager=True),
        71.14, 2.44, 0.22, 0, 0, 54.82, 837_584, 3.20,
    ),
    Start(
        "Kimi, FP8 cache", "kimi-k2.5", _RANK, EngineLimits(_FULL, 256, "fp8"),
        71.10, 2.60, 0.26, 1.34, 0.95, 53.71, 1_641_280, 6.26,
    ),
    Start(
        "Kimi, real tensor parallel", "kimi-k2.5", _RANK, EngineLimits(_FULL, 256, "fp8"),
        71.10, 2.60, 0.18, 1.37, 1.04, 53.70, 1_640_896, 6.26, True,
    ),
    Start(
        "Kimi, no custom all-reduce", "kimi-k2.5", _RANK, EngineLimits(_FULL, 256, "fp8", custom_all_reduce=False),
        71.10, 2.60, 0.18, 3.04, 2.61, 52.13, 1_592_896, 6.08, True,
    ),
    Start(
        "Kimi, 16,384 tokens a step", "kimi-k2.5", _RANK, EngineLimits(_FULL, 256, "fp8", 16_384),
        71.10, 5.14, 0.26, 1.34, 0.94, 51.17, 1_563_712, 5.97,
    ),
    Start(
        "Qwen3-32B", "qwen3-32b", Layout(1), EngineLimits(40_960, 256),
        61.03, 1.61, 0.22, 1.30, 0, 65.75, 269_312, 6.58,
    ),
    Start(
        "gpt-oss-120b", "gpt-oss-120b", Layout(1), EngineLimits(131_072, 256),
        61.43, 1.17, 0.24, 0.77, 0.56, 65.22, 1_686_885, 12.87,
    ),
)  # fmt: skip
