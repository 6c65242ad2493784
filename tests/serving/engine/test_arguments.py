"""Everything that Dormouse tells vLLM is something that vLLM understands, for every model, preset and layout."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest

from serving.accelerators import instance_shape
from serving.engine.arguments import (
    EngineOptions,
    Node,
    calibration_arguments,
    engine_arguments,
    engine_environment,
    layout_arguments,
    model_arguments,
    model_environment,
    node_arguments,
    start_notes,
)
from serving.engine.extra_arguments import given_flags
from serving.engine.flags import engine_flags, owned_flags
from serving.engine.presets import PURPOSES, apply_preset
from serving.errors import ConfigurationError
from serving.fit.limits import EngineLimits as FitLimits
from serving.memory import EngineLimits
from serving.profiles import known_models, load_model
from serving.service_plan import plan_service
from tests.serving.engine.vllm_parser import parsed

KIMI = load_model("kimi-k2.5")
SHAPE = instance_shape("p5en.48xlarge")
LIMITS = EngineLimits(262_144, 64)
PLAN = plan_service(KIMI, SHAPE, LIMITS, 1000, 600)
MODELS = (*known_models(), "tiny-kimi")


@dataclass(frozen=True)
class Layout:
    tensor_parallel: int = 8
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: bool = False
    decode_context_parallel: int = 1
    nodes: int = 1
    vision_mode: str = "data"


LAYOUTS = (
    Layout(),
    Layout(expert_parallel=True),
    Layout(decode_context_parallel=8),
    Layout(tensor_parallel=4, pipeline_parallel=2, vision_mode="weights"),
    Layout(tensor_parallel=1, data_parallel=8, expert_parallel=True, vision_mode="none"),
    Layout(tensor_parallel=2, data_parallel=4, expert_parallel=True),
    Layout(tensor_parallel=16, nodes=2),
    Layout(tensor_parallel=8, pipeline_parallel=4, nodes=4),
    Layout(tensor_parallel=8, data_parallel=2, expert_parallel=True, nodes=2),
    Layout(tensor_parallel=1, data_parallel=32, expert_parallel=True, nodes=4),
)


def test_kimi_on_eight_h200() -> None:
    assert engine_arguments(KIMI, PLAN) == [
        "/models/kimi-k2.5",
        "--served-model-name=kimi-k2.5",
        "--host=0.0.0.0",
        "--port=8000",
        "--tensor-parallel-size=8",
        "--max-model-len=262144",
        "--max-num-seqs=64",
        "--max-num-batched-tokens=8192",
        "--gpu-memory-utilization=0.92",
        "--kv-cache-dtype=auto",
        "--shutdown-timeout=600",
        "--tool-call-parser=kimi_k2",
        "--enable-auto-tool-choice",
        "--reasoning-parser=kimi_k2",
        "--mm-encoder-tp-mode=data",
        "--trust-remote-code",
        '--override-generation-config={"temperature":1.0,"top_p":0.95}',
    ]


@pytest.mark.parametrize("name", MODELS)
def test_vllm_understands_every_model_with_every_preset_and_layout(name: str) -> None:
    model = load_model(name)
    for preset, layout in product((None, *PURPOSES), (None, *LAYOUTS)):
        extra: tuple[str, ...] = ()
        limits = LIMITS
        if preset is not None:
            applied = apply_preset(preset, LIMITS, model, SHAPE, ())
            extra, limits = applied.flags, applied.limits
        plan = replace(PLAN, memory=replace(PLAN.memory, limits=limits))
        for rank in range(layout.nodes if layout else 1):
            options = EngineOptions(layout, Node(rank, "10.40.0.7"), extra)
            arguments = engine_arguments(model, plan, options)
            read = parsed(arguments)
            assert read["model_tag"] == f"/models/{name}"
            assert read["max_num_batched_tokens"] == limits.max_batched_tokens
            assert read["max_num_seqs"] == limits.max_sequences
            assert read["kv_cache_dtype"] == limits.kv_cache_dtype
            assert read["shutdown_timeout"] == 600
            flags = [argument.partition("=")[0] for argument in arguments[1:]]
            assert len(flags) == len(set(flags)), "a flag given twice: the last one wins silently"
            assert read.get("enable_auto_tool_choice", False) == bool(model.tool_call_parser)
            assert read.get("trust_remote_code", False) == model.trust_remote_code


def test_what_the_plan_passes_a_user_cannot_pass_again() -> None:
    """The last of two equal flags wins in vLLM; sampling defaults and the chat template are the user's to overrule."""
    passed: set[str] = set()
    for name, layout in product(MODELS, LAYOUTS):
        node = Node(layout.nodes - 1, "10.40.0.7")
        passed |= given_flags(engine_arguments(load_model(name), PLAN, EngineOptions(layout, node))[1:])
    assert passed - set(owned_flags()) == {
        "--override-generation-config",
        "--tokenizer-mode",
        "--chat-template",
    }


def test_a_template_that_tool_calls_need_comes_from_the_image_unless_the_user_has_one() -> None:
    wanted = "--chat-template=/vllm-workspace/examples/tool_chat_template_deepseekr1.jinja"
    assert wanted in engine_arguments(load_model("deepseek-r1"), PLAN)
    own = EngineOptions(extra=("--chat-template=/models/mine.jinja",))
    assert wanted not in engine_arguments(load_model("deepseek-r1"), PLAN, own)
    assert not any("--chat-template" in word for word in engine_arguments(load_model("kimi-k2.5"), PLAN))


def test_a_chat_format_that_reads_a_file_at_start_is_told_where_and_so_is_the_user() -> None:
    model = load_model("gpt-oss-120b")
    assert model_environment(model) == {"TIKTOKEN_ENCODINGS_BASE": "/models/gpt-oss-120b/encodings"}
    (note,) = start_notes(model)
    assert "put o200k_base.tiktoken into /models/gpt-oss-120b/encodings" in note
    assert (model_environment(load_model("kimi-k2.5")), start_notes(load_model("kimi-k2.5"))) == ({}, ())


@pytest.mark.parametrize("layout", [Layout(tensor_parallel=8), Layout(data_parallel=8, expert_parallel=True)])
def test_vllm_understands_the_start_of_a_calibration(layout: Layout) -> None:
    limits = FitLimits(32_768, 64, "fp8", 4_096, enforce_eager=True, custom_all_reduce=False, block_size=64)
    read = parsed(calibration_arguments("/tmp/m", "one", "127.0.0.1", 8123, layout, limits, ("--seed=7",)))
    assert (read["model_tag"], read["load_format"], read["port"], read["seed"]) == ("/tmp/m", "dummy", 8123, 7)
    assert (read["max_num_seqs"], read["max_num_batched_tokens"], read["kv_cache_dtype"]) == (64, 4_096, "fp8")
    assert read["enforce_eager"]
    assert read["disable_custom_all_reduce"]
    assert read["data_parallel_size"] == layout.data_parallel if layout.data_parallel > 1 else True


@pytest.mark.parametrize(
    ("layout", "wanted"),
    [
        (Layout(), ["--tensor-parallel-size=8"]),
        (
            Layout(tensor_parallel=2, data_parallel=4, expert_parallel=True),
            [
                "--tensor-parallel-size=2",
                "--data-parallel-size=4",
                "--enable-expert-parallel",
                "--enable-ep-weight-filter",
            ],
        ),
        (
            Layout(tensor_parallel=4, pipeline_parallel=2, decode_context_parallel=2),
            ["--tensor-parallel-size=4", "--pipeline-parallel-size=2", "--decode-context-parallel-size=2"],
        ),
    ],
)
def test_layouts(layout: Layout, wanted: list[str]) -> None:
    assert layout_arguments(layout) == wanted
    assert node_arguments(layout, Node()) == []


def test_one_replica_over_two_machines() -> None:
    layout = Layout(tensor_parallel=16, nodes=2)
    assert node_arguments(layout, Node(0, "10.40.0.7")) == [
        "--nnodes=2",
        "--node-rank=0",
        "--master-addr=10.40.0.7",
        "--master-port=29501",
    ]
    assert "--headless" in node_arguments(layout, Node(1, "10.40.0.7"))


def test_data_parallel_ranks_are_numbered_over_the_machines() -> None:
    layout = Layout(tensor_parallel=1, data_parallel=16, expert_parallel=True, nodes=2)
    first, second = (node_arguments(layout, Node(rank, "10.40.0.7")) for rank in (0, 1))
    assert "--data-parallel-size-local=8" in first
    assert not any(argument.startswith("--data-parallel-start-rank") for argument in first)
    assert {"--data-parallel-start-rank=8", "--headless", "--data-parallel-address=10.40.0.7"} <= set(second)


def test_data_parallel_ranks_that_do_not_divide_over_the_machines_are_refused() -> None:
    with pytest.raises(ConfigurationError) as refused:
        node_arguments(Layout(tensor_parallel=8, data_parallel=3, nodes=2), Node())
    assert "data parallel size: got 3 over 2 machines; accepted: a multiple of 2" in str(refused.value)


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        (None, "--mm-encoder-tp-mode=data"),
        ("weights", "--mm-encoder-tp-mode=weights"),
        ("none", "--language-model-only"),
    ],
)
def test_vision_modes(mode: str | None, wanted: str) -> None:
    arguments = model_arguments(KIMI, mode)
    assert wanted in arguments
    assert sum("mm-encoder" in argument or "language-model-only" in argument for argument in arguments) == 1


def test_a_text_model_hears_nothing_of_vision_and_a_plain_one_nothing_of_parsers() -> None:
    llama = model_arguments(load_model("llama-3.3-70b"), "data")
    assert llama == ["--tool-call-parser=llama3_json", "--enable-auto-tool-choice"]
    assert model_arguments(replace(load_model("llama-3.3-70b"), tool_call_parser="")) == []


def test_a_tokenizer_mode_is_passed_where_the_model_needs_one() -> None:
    assert "--tokenizer-mode=deepseek_v32" in model_arguments(load_model("deepseek-v3.2"))
    assert not any("tokenizer-mode" in argument for argument in model_arguments(KIMI))


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("kimi-k2.5", '{"temperature":1.0,"top_p":0.95}'),
        ("qwen3-32b", '{"min_p":0.0,"temperature":0.6,"top_k":20,"top_p":0.95}'),
        ("llama-3.3-70b", None),
    ],
)
def test_sampling_defaults_are_the_makers_for_the_default_mode(model: str, wanted: str | None) -> None:
    arguments = engine_arguments(load_model(model), PLAN)
    given = [argument for argument in arguments if argument.startswith("--override-generation-config")]
    assert given == ([] if wanted is None else [f"--override-generation-config={wanted}"])


@pytest.mark.parametrize(
    "own",
    [
        '--override-generation-config={"temperature":0.2}',
        "--override-generation-config.temperature=0.2",
        "--generation-config=vllm",
    ],
)
def test_the_user_s_own_sampling_defaults_win(own: str) -> None:
    arguments = engine_arguments(KIMI, PLAN, EngineOptions(extra=(own,)))
    assert [argument for argument in arguments if "generation-config" in argument] == [own]


def test_every_variable_for_vllm_is_one_that_it_reads() -> None:
    for name in engine_environment(PLAN):
        if name.startswith("VLLM_"):
            assert name in engine_flags().environment, name


def test_prefix_caching_and_chunked_prefill_stay_as_vllm_has_them() -> None:
    everything: set[Any] = given_flags(engine_arguments(KIMI, PLAN)[1:])  # type: ignore[assignment]
    assert everything.isdisjoint({"--enable-prefix-caching", "--enable-chunked-prefill", "--async-scheduling"})
