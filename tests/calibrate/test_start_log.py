"""What the engine's log says of its start is read term by term, from recorded logs."""

from pathlib import Path

import pytest

from infra.calibrate.start_log import is_ready, read_start, reason
from tests.calibrate.logs import ON_CPU, OUT_OF_MEMORY, QWEN, TWO_RANKS

RECORDED = Path(__file__).parents[3] / "shared" / "facts" / "vllm_logs"


def test_every_term_of_a_start_on_a_gpu() -> None:
    start = read_start(QWEN)
    assert (start.version, start.attention, start.experts) == ("0.26.0", "FLASH_ATTN", "")
    measured = start.measured
    assert (measured.weights_gib, measured.activation_gib, measured.non_torch_gib) == (61.03, 1.61, 0.22)
    assert (measured.graphs_actual_gib, measured.graphs_estimated_gib) == (1.30, None)
    assert (measured.kv_cache_gib, measured.kv_tokens, measured.concurrency) == (75.54, 309_392, 7.55)
    assert (measured.usable_gib, measured.free_gib) == (139.8, 139.29)
    seconds = start.seconds
    assert (seconds.load, seconds.compile, seconds.graphs, seconds.engine) == (2.321611, 42.12, 11, 75.47)


def test_of_several_gpus_the_fullest_and_the_tightest_count() -> None:
    start = read_start(TWO_RANKS)
    measured = start.measured
    assert start.experts == "MARLIN"
    assert measured.weights_gib == 71.12
    assert measured.kv_cache_gib == 53.69
    assert measured.graphs_estimated_gib == 1.04
    assert measured.kv_tokens == 1_640_896
    # Later versions print weights and the rest together.
    assert measured.non_torch_gib == pytest.approx(0.18)


def test_a_start_on_a_cpu_has_a_cache_and_nothing_of_a_gpu() -> None:
    start = read_start(ON_CPU)
    measured = start.measured
    assert start.attention == "CPU_MLA"
    assert (measured.kv_cache_gib, measured.kv_tokens) == (1.0, 466_032)
    assert (measured.weights_gib, measured.graphs_actual_gib, measured.usable_gib) == (None, None, None)


def test_the_reason_is_the_one_above_the_line_that_points_up() -> None:
    assert reason(OUT_OF_MEMORY) == "OutOfMemoryError: CUDA out of memory. Tried to allocate 1.31 GiB."
    assert reason("nothing went wrong") == ""


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded logs are not beside this checkout")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("h200_weights_oom_tp4", "OutOfMemoryError: CUDA out of memory. Tried to allocate 1.31 GiB"),
        ("h200_kv_too_small", "To serve at least one request with the model's max seq len (262144), (8.58 GiB"),
        ("unknown_flag", "unrecognized arguments: --max-modle-len 2048"),
        ("port_in_use", "Address already in use"),
        ("missing_tensors", "Following weights were not initialized from checkpoint"),
    ],
)
def test_recorded_failures_name_their_reason(name: str, words: str) -> None:
    text = (RECORDED / f"{name}.txt").read_text(encoding="utf-8")
    assert words in reason(text)
    assert not is_ready(text)
