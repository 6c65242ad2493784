"""KV cache bytes a token by attention, blocks, and what decode context parallel and stages change."""

import pytest

from serving.accelerators import instance_shape
from serving.fit.kv_cache import attention_backend, kv_bytes_per_token, kv_layout
from serving.fit.layout import Layout, stages
from serving.fit.limits import EngineLimits
from serving.fit.plan import plan_fit
from serving.gpu_boxes import gpu_box
from serving.profiles import load_checkpoint
from serving.units import GIB

H200 = instance_shape("p5en.48xlarge")
AUTO, FP8 = EngineLimits(32_768, 64), EngineLimits(32_768, 64, "fp8")


@pytest.mark.parametrize(
    ("model", "layout", "limits", "expected"),
    [
        ("kimi-k2.5", Layout(8), AUTO, 70_272),
        ("kimi-k2.5", Layout(1), FP8, 35_136),
        ("kimi-k2.5", Layout(8, decode_context_parallel=8), AUTO, 70_272 // 8),
        # Sparse latent attention keeps its own FP8 layout, and 132 bytes for the indexer.
        ("deepseek-v3.2", Layout(8), AUTO, 61 * (656 + 132)),
        ("deepseek-v3.2", Layout(8), FP8, 61 * (656 + 132)),
        ("qwen3-32b", Layout(1), AUTO, 64 * 2 * 8 * 128 * 2),
        ("qwen3-32b", Layout(8), FP8, 64 * 2 * 1 * 128),
        # Four KV heads over eight GPUs: each has one whole.
        ("qwen3-235b-a22b", Layout(8), AUTO, 94 * 2 * 1 * 128 * 2),
        # Only the full layers grow with a long request.
        ("gpt-oss-120b", Layout(1), AUTO, 18 * 2 * 8 * 64 * 2),
    ],
)
def test_bytes_a_token(model: str, layout: Layout, limits: EngineLimits, expected: int) -> None:
    assert kv_bytes_per_token(load_checkpoint(model), layout, limits) == expected


def test_block_sizes_follow_the_backend() -> None:
    kimi = load_checkpoint("kimi-k2.5")
    assert attention_backend(kimi, H200, AUTO).name == "FLASH_ATTN_MLA"
    assert attention_backend(kimi, H200, AUTO).block_tokens == 16
    assert attention_backend(kimi, H200, FP8).name == "FLASHMLA"
    assert attention_backend(kimi, H200, FP8).block_tokens == 64
    assert attention_backend(kimi, gpu_box("8xA100-80"), AUTO).name == "TRITON_MLA"
    assert attention_backend(load_checkpoint("deepseek-v3.2"), H200, AUTO).block_tokens == 64


def test_published_capacity_with_and_without_decode_context_parallel() -> None:
    # Kimi K2 Thinking on 8 × H200: 46.80 GiB hold 715,072 tokens, 5,721,088 with DCP8.
    model = load_checkpoint("kimi-k2-thinking")
    limits = EngineLimits(262_144, 64, block_size=64)
    for ranks, published in ((1, 715_072), (8, 5_721_088)):
        layout = Layout(8, decode_context_parallel=ranks)
        kv = kv_layout(model, layout, stages(61, 1)[0], H200, limits)
        tokens = kv.blocks(int(46.80 * GIB)) / kv.request_blocks(262_144, 8192) * 262_144
        assert tokens == pytest.approx(published, rel=0.0002)


def test_window_layers_hold_a_fixed_span_and_full_layers_the_length() -> None:
    model = load_checkpoint("gpt-oss-120b")
    kv = kv_layout(model, Layout(1), stages(36, 1)[0], H200, AUTO)
    assert (kv.full_groups, kv.window_groups, kv.window_tokens) == (1, 1, 128)
    window = -(-(127 + 2 * 8192) // 16) + 1
    assert kv.request_blocks(131_072, 8192) == 131_072 // 16 + window
    # A request shorter than that span keeps no more than itself.
    assert kv.request_blocks(1024, 8192) == 64 + 64 + 1


def test_the_stage_with_the_fewest_blocks_decides() -> None:
    model = load_checkpoint("kimi-k2.5")
    plan = plan_fit(model, Layout(2, pipeline_parallel=4), H200, AUTO)
    assert len(plan.ranks) == 4
    assert plan.blocks == min(rank.kv.blocks(rank.kv_bytes) for rank in plan.ranks)
    assert plan.tightest.stage.index == 2
    assert plan.kv_cache_tokens < plan.ranks[0].kv.blocks(plan.ranks[0].kv_bytes) * 16


def test_one_block_stays_empty_so_an_exact_fit_does_not_fit() -> None:
    model = load_checkpoint("kimi-k2.5")
    plan = plan_fit(model, Layout(8), H200, AUTO)
    exactly = plan.blocks * 16
    assert plan.missing_at(exactly - 16) == 0
    assert 0 < plan.missing_at(exactly) <= plan.tightest.kv.block_bytes
