"""Bytes of weights per GPU, to the byte, in every layout that Kimi K2.5 was worked out in, and for other families."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.accelerators import instance_shape
from serving.checkpoint.weights import Kind, Shard
from serving.fit.layout import Draft, Layout, own_draft, stages
from serving.fit.limits import EngineLimits
from serving.fit.plan import plan_fit
from serving.fit.sharding import KV_B_COPY, PADDING, Tile, rank_weights
from serving.profiles import known_models, load_checkpoint
from serving.units import GIB

KIMI = load_checkpoint("kimi-k2.5")
H200 = instance_shape("p5en.48xlarge")


def _bytes(model_name: str, layout: Layout) -> list[int]:
    model = load_checkpoint(model_name)
    return [
        sum(rank_weights(model, layout, stage).values()) for stage in stages(model.layers, layout.pipeline_parallel)
    ]


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (Layout(8), [77_124_881_376]),
        (Layout(8, vision_mode="weights"), [76_405_141_404]),
        (Layout(8, vision_mode="none"), [76_182_593_536]),
        (Layout(8, expert_parallel=True), [77_124_881_376]),
        (Layout(1, data_parallel=8, expert_parallel=True), [95_731_862_496]),
        (Layout(1, data_parallel=8, expert_parallel=True, vision_mode="none"), [94_789_574_656]),
        # Without expert parallel, data-parallel ranks divide the experts all the same.
        (Layout(1, data_parallel=8), [95_731_862_496]),
        (Layout(2, data_parallel=4, expert_parallel=True), [87_741_713_376]),
        (Layout(4, data_parallel=2, expert_parallel=True), [83_746_638_816]),
        (Layout(4, pipeline_parallel=2), [76_170_944_480, 75_899_475_936]),
        (Layout(4), [151_128_132_576]),
        (Layout(16, nodes=2), [40_123_255_776]),
    ],
    ids=str,
)
def test_kimi_per_gpu_to_the_byte(layout: Layout, expected: list[int]) -> None:
    assert _bytes("kimi-k2.5", layout) == expected


@pytest.mark.parametrize(
    ("layout", "expected_gb"),
    [
        (Layout(2, pipeline_parallel=4), [71.5, 74.8, 79.7, 75.9]),
        (Layout(1, pipeline_parallel=8), [63.1, 69.6, 79.4, 79.4, 79.4, 79.4, 79.4, 72.0]),
        (Layout(8, pipeline_parallel=2, nodes=2), [39.11, 38.96]),
    ],
    ids=str,
)
def test_kimi_stages(layout: Layout, expected_gb: list[float]) -> None:
    assert [count / 1e9 for count in _bytes("kimi-k2.5", layout)] == pytest.approx(expected_gb, abs=0.05)


def test_layers_go_to_stages_as_vllm_divides_them() -> None:
    assert [stage.layers for stage in stages(61, 2)] == [31, 30]
    assert [stage.layers for stage in stages(61, 4)] == [15, 15, 16, 15]
    assert [stage.layers for stage in stages(61, 8)] == [7, 7, 8, 8, 8, 8, 8, 7]


def test_terms_of_kimi_at_tensor_parallel_8() -> None:
    held = rank_weights(KIMI, Layout(8), stages(61, 1)[0])
    assert {name: round(count / GIB, 3) for name, count in held.items()} == {
        "embedding": 0.273,
        "norms": 0.002,
        "output head": 0.273,
        "attention, whole on every GPU": 1.720,
        "attention, divided by head": 1.221,
        "dense layers": 0.092,
        "router": 0.308,
        "routed experts": 59.062,
        "routed experts, scales": 7.383,
        "shared experts": 0.615,
        "vision tower": 0.878,
    }


def test_stages_partition_the_checkpoint_exactly() -> None:
    # Text only, the stages hold every byte once, but for the packed experts' shapes, which are read and not kept.
    shapes = sum(t.count * t.storage.extra_bytes for t in KIMI.tensors)
    vision = sum(t.total_bytes for t in KIMI.tensors if t.kind is Kind.VISION)
    for count in (1, 2, 4, 8):
        held = sum(_bytes("kimi-k2.5", Layout(1, pipeline_parallel=count, vision_mode="none")))
        assert held == KIMI.total_bytes - shapes - vision


@given(
    name=st.sampled_from(known_models()),
    tensor=st.sampled_from([1, 2, 4, 8, 16]),
    pipeline=st.sampled_from([1, 2, 3, 4]),
    data=st.sampled_from([1, 2, 4, 8]),
    whole=st.booleans(),
)
def test_all_ranks_together_hold_at_least_the_whole(
    name: str, tensor: int, pipeline: int, data: int, whole: bool
) -> None:
    model = load_checkpoint(name)
    layout = Layout(tensor, pipeline, data, expert_parallel=whole and model.experts > 0)
    kept = sum(
        t.total_bytes - t.count * t.storage.extra_bytes for t in model.tensors if t.shard is not Shard.NOT_LOADED
    )
    assert sum(_bytes(name, layout)) * tensor * data >= kept


def test_kv_heads_are_copied_beyond_their_number() -> None:
    qwen = load_checkpoint("qwen3-235b-a22b")
    kv_heads = qwen.attention[0].kv_heads
    assert kv_heads == 4
    at_4, at_8 = (rank_weights(qwen, Layout(t), stages(qwen.layers, 1)[0]) for t in (4, 8))
    keys = sum(t.total_bytes for t in qwen.tensors if t.shard is Shard.KV_HEADS)
    divided = sum(
        t.total_bytes for t in qwen.tensors if t.kind is Kind.ATTENTION and t.shard in (Shard.COLUMN, Shard.ROW)
    )
    assert at_4["attention, divided by head"] == (keys + divided) // 4
    assert at_8["attention, divided by head"] == keys // 4 + divided // 8


def test_latent_attention_in_fp8_gets_a_bf16_copy_and_in_bf16_none() -> None:
    deepseek = load_checkpoint("deepseek-v3")
    held = rank_weights(deepseek, Layout(8), stages(deepseek.layers, 1)[0])
    assert held[KV_B_COPY] == 61 * 2 * 128 * (128 + 128) * 512 // 8
    assert KV_B_COPY not in rank_weights(KIMI, Layout(8), stages(61, 1)[0])


def test_a_draft_model_adds_weights_and_a_layer_of_cache() -> None:
    # Eagle3 for Kimi K2.6: 5.62 GiB on disk, 0.76 GiB a GPU, and 71.6 kB a token with 62 layers of cache.
    eagle = Draft("eagle3", int(5.57 * GIB), int(0.05 * GIB))
    limits = EngineLimits(141_504, 32)
    plain = plan_fit(KIMI, Layout(8), H200, limits)
    drafted = plan_fit(KIMI, Layout(8, draft=eagle), H200, limits)
    assert (drafted.weights_bytes_per_gpu - plain.weights_bytes_per_gpu) / GIB == pytest.approx(0.76, abs=0.02)
    assert drafted.tightest.kv.block_bytes / plain.tightest.kv.block_bytes == pytest.approx(62 / 61)


def test_the_models_own_draft_leaves_out_what_it_shares() -> None:
    deepseek = load_checkpoint("deepseek-v3")
    draft = own_draft(deepseek)
    assert draft is not None
    assert draft.layers == 1
    shared = sum(t.total_bytes for t in deepseek.tensors if t.module.endswith((".embed_tokens", ".shared_head.head"))
                 and t.kind is Kind.DRAFT)  # fmt: skip
    whole = sum(t.total_bytes for t in deepseek.tensors if t.kind is Kind.DRAFT)
    assert draft.divided_bytes + draft.whole_bytes == whole - shared
    assert own_draft(KIMI) is None


def test_mxfp4_pads_an_uneven_slice_and_the_plan_names_it() -> None:
    model = load_checkpoint("gpt-oss-120b")
    plan = plan_fit(model, Layout(8), H200, EngineLimits(131_072, 64))
    padding = next(term.count for term in plan.terms if term.name == "padding for the kernels")
    # 2,880 / 8 = 360 become 384 on each GPU.
    experts = sum(term.count for term in plan.terms if term.name == "routed experts")
    assert padding > experts * (384 / 360 - 1)
    assert not plan.faults
    assert ceil(360 / 64) * 64 == 384


def test_int4_slices_thinner_than_the_kernel_s_tile_are_padded() -> None:
    # 2,048 / 16 = 128 is the tile; 2,048 / 32 = 64 is padded to it, which doubles the experts.
    fine = rank_weights(KIMI, Layout(16, nodes=2), stages(61, 1)[0], Tile(inner=128))
    thin = rank_weights(KIMI, Layout(32, nodes=4), stages(61, 1)[0], Tile(inner=128))
    assert PADDING not in fine
    assert thin[PADDING] == thin["routed experts"] + thin["routed experts, scales"]
