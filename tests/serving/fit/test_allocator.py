"""PyTorch's rounding, against the blocks of a real start and against properties that any allocator has."""

from hypothesis import given
from hypothesis import strategies as st

from serving.fit.allocator import allocated_bytes, rotary_bytes, rounding_bytes
from serving.fit.layout import Layout, stages
from serving.fit.overheads import overheads
from serving.gpu_boxes import gpu_box
from serving.profiles import load_checkpoint
from serving.units import MIB

# gpt-oss-120b with four layers on an H200 with vLLM 0.26 (2026-12-01): tensors and the blocks that held them.
BLOCKS = {
    128 * 5760 * 1440: 1_063_256_064,
    128 * 2880 * 1440: 532_676_608,
    128 * 5888 * 92: 71_303_168,
    128 * 3072 * 92: 37_748_736,
    5120 * 2880 * 2: 31_457_280,
    4096 * 2880 * 2: 25_165_824,
    201_088 * 2880 * 2: 1_159_725_056,
    128 * 5760 * 4: 2_949_120,
    128 * 2880 * 4: 1_474_560,
    128 * 2880 * 2: 737_280,
    5120 * 2: 10_240,
}


def test_each_tensor_takes_the_block_that_was_seen() -> None:
    assert {size: allocated_bytes([size]) for size in BLOCKS} == BLOCKS


def test_a_rest_of_one_mib_stays_with_its_block_and_a_larger_one_is_used_again() -> None:
    nine = 9 * MIB
    assert allocated_bytes([nine, nine]) == 18 * MIB
    # 2 MiB are left of the segment: 1.5 leave half a MiB, which is too little to be cut off.
    assert allocated_bytes([nine, nine, 3 * MIB // 2]) == 20 * MIB
    assert allocated_bytes([19 * MIB]) == 20 * MIB


@given(st.lists(st.integers(1, 64 * MIB), max_size=60))
def test_blocks_hold_their_tensors_and_waste_little(sizes: list[int]) -> None:
    held = allocated_bytes(sizes)
    assert sum(sizes) <= held <= sum(sizes) + sum(512 if size <= MIB else 2 * MIB for size in sizes)


def test_rounding_of_kimi_differs_between_layouts_and_llama_has_none() -> None:
    box = gpu_box("8xH200")

    def rounding(name: str, layout: Layout) -> float:
        model = load_checkpoint(name)
        (stage,) = stages(model.layers, 1)
        return rounding_bytes(model, layout, stage, overheads().tile(model, box)) / MIB

    eight, sixteen = (rounding("kimi-k2.5", Layout(t, vision_mode="none", nodes=t // 8)) for t in (8, 16))
    assert 85 < eight < 100
    assert 140 < sixteen < 150
    assert rounding("llama-3.3-70b", Layout(2)) < 1


def test_the_rotary_table_has_a_row_for_every_position() -> None:
    kimi = load_checkpoint("kimi-k2.5")
    assert rotary_bytes(kimi, enforce_eager=False) == 262_144 * 64 * 2
    assert rotary_bytes(kimi, enforce_eager=True) == 262_144 * 64 * 4
    assert rotary_bytes(load_checkpoint("llama-3.3-70b"), enforce_eager=True) == 131_072 * 128 * 2
