"""Layouts that cannot run are told why, in words; those that can are not."""

import pytest

from serving.accelerators import InstanceShape, instance_shape
from serving.fit.constraints import layout_faults
from serving.fit.layout import Layout
from serving.fit.limits import EngineLimits
from serving.fit.plan import plan_fit
from serving.gpu_boxes import gpu_box
from serving.profiles import known_models, load_checkpoint

H200 = instance_shape("p5en.48xlarge")
LIMITS = EngineLimits(32_768, 64)


@pytest.mark.parametrize(
    ("model", "layout", "shape", "limits", "reason"),
    [
        ("kimi-k2.5", Layout(3), H200, LIMITS, "tensor parallel 3 does not divide the 64 attention heads; 1, 2, 4, 8"),
        ("kimi-k2.5", Layout(16), H200, LIMITS, "the layout takes 16 GPUs and p5en.48xlarge has 8"),
        ("kimi-k2.5", Layout(1, 62, nodes=4), H200, LIMITS, "pipeline parallel 62 is more than the model's 61 layers"),
        ("kimi-k2.5", Layout(8, nodes=5), H200, LIMITS, "5 machines are more than the 4"),
        ("kimi-k2.5", Layout(8, decode_context_parallel=3), H200, LIMITS, "decode context parallel 3 does not divide"),
        (
            "kimi-k2.5", Layout(64, data_parallel=2, nodes=4), gpu_box("64xH200"), LIMITS,
            "leaves 16 of the routed experts' inner size on a GPU, which is no multiple of the 32 weights that share",
        ),
        (
            "deepseek-v3", Layout(32), gpu_box("32xH200"), LIMITS,
            "tensor parallel 32 leaves 64 of the routed experts' inner size on a GPU, which is no multiple of the 128",
        ),
        ("qwen3-32b", Layout(2, expert_parallel=True), H200, LIMITS, "expert parallel needs a model with experts"),
        (
            "gpt-oss-120b", Layout(8, decode_context_parallel=2), H200, LIMITS,
            "decode context parallel 2 needs as many copies of each KV head",
        ),
        (
            "gpt-oss-120b", Layout(16, nodes=2, decode_context_parallel=2), H200, LIMITS,
            "does not work with sliding-window layers",
        ),
        (
            "kimi-k2.5", Layout(8), gpu_box("8xA100-80"), EngineLimits(32_768, 64, "fp8"),
            "an fp8 KV cache needs compute capability 8.9 or more, and A100-80 has 8.0; kvCacheDtype auto works",
        ),
        ("qwen3-32b", Layout(8), gpu_box("8xV100-32"), LIMITS, "V100-32 has compute capability 7.0, and BF16 needs 8.0"),
        ("deepseek-v3.2", Layout(8), gpu_box("8xA100-80"), LIMITS, "sparse latent attention has kernels from"),
        (
            "kimi-k2.5", Layout(8), H200, EngineLimits(32_768, 64, "fp8", block_size=16),
            "FLASHMLA takes KV blocks of 64 tokens only, not 16",
        ),
        (
            "kimi-k2.5", Layout(8), H200, EngineLimits(32_768, 64, block_size=24),
            "FLASH_ATTN_MLA takes KV blocks of a multiple of 16, not 24",
        ),
        ("kimi-k2.5", Layout(8), H200, EngineLimits(300_000, 64), "300,000 tokens is more than the 262,144"),
        (
            "kimi-k2.5", Layout(8), H200, EngineLimits(4096, 4096, max_batched_tokens=2048),
            "2,048 tokens a step are fewer than the 4,096 sequences",
        ),
        ("kimi-k2.5", Layout(0), H200, LIMITS, "tensor parallel is 0, and must be 1 or more"),
        ("kimi-k2.5", Layout(8), H200, EngineLimits(-5, 64), "context tokens is -5, and must be 1 or more"),
        (
            "kimi-k2.5", Layout(8), H200, EngineLimits(4096, 64, gpu_memory_utilization=1.2),
            "GPU memory utilisation is 1.2",
        ),
    ],
)  # fmt: skip
def test_a_layout_that_cannot_run_is_told_why(
    model: str, layout: Layout, shape: InstanceShape, limits: EngineLimits, reason: str
) -> None:
    faults = layout_faults(load_checkpoint(model), layout, shape, limits)
    assert any(reason in fault for fault in faults), faults
    assert not plan_fit(load_checkpoint(model), layout, shape, limits).fits


@pytest.mark.parametrize("model", known_models())
def test_every_known_model_can_run_over_eight_h200(model: str) -> None:
    assert layout_faults(load_checkpoint(model), Layout(8), H200, LIMITS) == ()


@pytest.mark.parametrize(
    "layout",
    [
        Layout(8, decode_context_parallel=8),
        Layout(4, pipeline_parallel=2, decode_context_parallel=2),
        Layout(1, data_parallel=8, expert_parallel=True),
        Layout(16, nodes=2),
        Layout(8, vision_mode="weights"),
        Layout(8, pipeline_parallel=4, nodes=4),
    ],
    ids=str,
)
def test_layouts_of_kimi_that_run(layout: Layout) -> None:
    assert layout_faults(load_checkpoint("kimi-k2.5"), layout, H200, LIMITS) == ()
