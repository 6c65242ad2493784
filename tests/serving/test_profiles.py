"""Profiles: totals to the byte, facts a deployment relies on, and files that are refused when they are wrong."""

import json
import tomllib
from collections.abc import Callable
from fnmatch import fnmatch
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from serving.checkpoint.model import AttentionKind, Family
from serving.checkpoint.weights import Kind, Shard
from serving.errors import UnknownFactError
from serving.profiles import known_models, load_checkpoint, load_model, parse_model

FLAGS = Path(__file__).parents[3] / "shared" / "facts" / "vllm_0_32_flags.json"
EVERY = (*known_models(), "tiny-kimi")
EXPECTED = (
    "deepseek-r1", "deepseek-v3", "deepseek-v3.2", "glm-4.6", "glm-4.7", "gpt-oss-120b", "kimi-k2-instruct",
    "kimi-k2-thinking", "kimi-k2.5", "kimi-k2.6", "llama-3.3-70b", "qwen3-235b-a22b", "qwen3-32b",
)  # fmt: skip


def _document(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files("serving") / "models" / f"{name}.toml").read_text(encoding="utf-8"))


def test_the_models_that_people_may_name() -> None:
    assert known_models() == EXPECTED


def test_the_model_for_tests_loads_and_is_not_listed() -> None:
    tiny = load_checkpoint("tiny-kimi")
    assert (tiny.family, tiny.layers, tiny.experts) == (Family.MLA_MOE, 4, 16)
    assert "tiny-kimi" not in known_models()


@pytest.mark.parametrize("name", EVERY)
def test_the_tensors_add_up_to_the_published_total(name: str) -> None:
    assert load_checkpoint(name).total_bytes == load_model(name).published_weights_bytes


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("kimi-k2.5", 595_148_192_736),
        ("kimi-k2-thinking", 594_205_920_512),
        ("kimi-k2-instruct", 1_029_173_256_720),
        ("deepseek-r1", 688_574_839_360),
        ("deepseek-v3.2", 689_471_107_200),
        ("qwen3-235b-a22b", 470_187_269_120),
        ("qwen3-32b", 65_524_246_528),
        ("llama-3.3-70b", 141_107_412_992),
        ("gpt-oss-120b", 65_248_815_744),
    ],
)
def test_published_totals_are_the_published_ones(name: str, published: int) -> None:
    assert load_model(name).published_weights_bytes == published


@pytest.mark.parametrize(
    ("name", "parameters"),
    # As Hugging Face counts them; for FP8 without scales, for MXFP4 without scales.
    [
        ("deepseek-v3", 684_489_845_504),
        ("deepseek-v3.2", 685_355_329_792),
        ("glm-4.6", 356_785_898_816),
        ("glm-4.7", 358_337_791_296),
        ("qwen3-235b-a22b", 235_093_634_560),
        ("llama-3.3-70b", 70_553_706_496),
        ("gpt-oss-120b", 116_829_156_672),
        ("kimi-k2-instruct", 1_026_408_235_864),
        ("kimi-k2-thinking", 1_026_408_240_256),
        ("kimi-k2.6", 1_026_879_376_368),
    ],
)
def test_parameters_are_as_hugging_face_counts_them(name: str, parameters: int) -> None:
    assert load_checkpoint(name).parameters == parameters


@pytest.mark.parametrize(
    ("name", "kind", "layers"),
    [
        ("kimi-k2.5", AttentionKind.LATENT, 61),
        ("deepseek-v3.2", AttentionKind.SPARSE_LATENT, 61),
        ("glm-4.6", AttentionKind.FULL, 92),
        ("qwen3-32b", AttentionKind.FULL, 64),
        ("gpt-oss-120b", AttentionKind.WINDOW, 18),
    ],
)
def test_what_layers_keep_of_each_token(name: str, kind: AttentionKind, layers: int) -> None:
    found = {part.kind: part.layers for part in load_checkpoint(name).attention}
    assert found[kind] == layers


def test_context_is_the_configs_own() -> None:
    found = {name: load_model(name).max_context_tokens for name in EXPECTED}
    assert found["kimi-k2.5"] == found["kimi-k2-thinking"] == 262_144
    assert found["kimi-k2-instruct"] == found["llama-3.3-70b"] == found["gpt-oss-120b"] == 131_072
    assert found["deepseek-v3.2"] == 163_840
    assert found["glm-4.7"] == 202_752
    assert found["qwen3-32b"] == 40_960
    assert all(load_checkpoint(name).max_context_tokens == tokens for name, tokens in found.items())


def test_rotary_buffers_in_the_files_are_never_on_a_gpu() -> None:
    (buffer,) = load_model("kimi-k2-instruct").corrections.also
    assert (buffer.shard, buffer.total_bytes) == (Shard.NOT_LOADED, 6_832)


def test_only_glm_47_repeats_embedding_and_head_for_its_prediction_layer() -> None:
    def copies(name: str) -> int:
        draft = [tensor for tensor in load_checkpoint(name).tensors if tensor.kind is Kind.DRAFT]
        return sum(tensor.total_bytes for tensor in draft if tensor.rows == 151_552)

    assert (copies("glm-4.6"), copies("glm-4.7")) == (0, 2 * 151_552 * 5_120 * 2)


def test_norms_of_deepseek_v32_are_fp32_and_those_of_v3_are_not() -> None:
    def norm_bits(name: str) -> set[int]:
        return {tensor.storage.bits for tensor in load_checkpoint(name).tensors if tensor.kind is Kind.NORMS}

    assert norm_bits("deepseek-v3.2") == {32}
    assert norm_bits("deepseek-v3") == {16}


@pytest.mark.parametrize("name", EVERY)
def test_parsers_and_architectures_exist_in_the_engine(name: str) -> None:
    if not FLAGS.exists():
        pytest.skip(f"the engine's own list of names is not here: {FLAGS.name}")
    engine = json.loads(FLAGS.read_text(encoding="utf-8"))
    registries: dict[str, list[str]] = engine["registries"]
    model = load_model(name)
    assert model.config["architectures"][0] in registries["architectures"]
    assert model.tool_call_parser in registries["tool_call_parsers"]
    assert model.reasoning_parser in ("", *registries["reasoning_parsers"])
    assert model.tokenizer_mode in engine["flags"]["--tokenizer-mode"]["metavar"]


def test_remote_code_is_trusted_only_where_the_repository_brings_code() -> None:
    trusted = {name for name in EVERY if load_model(name).trust_remote_code}
    assert trusted == {name for name in EVERY if "*.py" in load_model(name).files.code}
    assert trusted == {name for name in EXPECTED if name.startswith("kimi")} | {"deepseek-v3", "deepseek-r1"}


def test_second_copies_of_weights_in_a_repository_are_not_needed() -> None:
    wanted = load_model("gpt-oss-120b").files.patterns
    assert any(fnmatch("model-00000-of-00014.safetensors", pattern) for pattern in wanted)
    assert not any(
        fnmatch(path, pattern) for path in ("original/model.safetensors", "metal/model.bin") for pattern in wanted
    )
    assert "tiktoken.model" in load_model("kimi-k2.6").files.patterns


@pytest.mark.parametrize(
    ("name", "mode", "values"),
    [
        ("kimi-k2.5", "thinking", {"temperature": 1.0, "top_p": 0.95}),
        ("kimi-k2.5", "instant", {"temperature": 0.6, "top_p": 0.95}),
        ("kimi-k2-instruct", "default", {"temperature": 0.6}),
        ("deepseek-r1", "thinking", {"temperature": 0.6, "top_p": 0.95}),
        ("glm-4.6", "code", {"temperature": 1.0, "top_p": 0.95, "top_k": 40}),
        ("qwen3-32b", "thinking", {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.0}),
        ("gpt-oss-120b", "default", {"temperature": 1.0, "top_p": 1.0}),
    ],
)
def test_sampling_is_as_the_maker_documents_it(name: str, mode: str, values: dict[str, float]) -> None:
    found = {sampling.mode: sampling for sampling in load_model(name).sampling}
    assert found[mode].values == values
    assert found[mode].source


def test_where_the_maker_says_nothing_nothing_is_made_up() -> None:
    assert load_model("llama-3.3-70b").sampling == load_model("deepseek-v3").sampling == ()


@pytest.mark.parametrize("name", EVERY)
def test_every_fact_says_where_it_comes_from(name: str) -> None:
    model = load_model(name)
    assert min(len(text) for text in (model.source, model.published_source, model.serving_source, model.licence)) > 2
    assert all(constraint.source and constraint.says for constraint in model.constraints)
    assert model.name == name
    assert model.served_name == name
    assert (model.vision_mode == "none") == (not load_checkpoint(name).vision) == (model.vision_parameters == 0)


def test_the_vision_tower_weighs_what_the_profile_says() -> None:
    tower = [tensor for tensor in load_checkpoint("kimi-k2.6").tensors if tensor.kind is Kind.VISION]
    assert sum(tensor.parameters for tensor in tower) == load_model("kimi-k2.6").vision_parameters == 471_143_920


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownFactError, match="model `kimi-k9` is not known; known: deepseek-r1, .*kimi-k2.5"):
        load_checkpoint("kimi-k9")


def _set(*path: str, to: object) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for key in path[:-1]:
            document = document[key]
        if to is None:
            del document[path[-1]]
        else:
            document[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_set("licence", to=None), "model `kimi-k2-thinking`: lacks the key `licence`"),
        (_set("config", to=None), "lacks the key `config`"),
        (_set("published", "weights_bytes", to=-1), "published: weights_bytes is -1; accepted: a whole number of 1 or"),
        (_set("published", "weights_bytes", to="594 GB"), "published: weights_bytes is '594 GB'"),
        (
            _set("serving", "trust_remote_code", to="yes"),
            "serving: trust_remote_code is 'yes'; accepted: true or false",
        ),
        (_set("serving", "vision_mode", to="tensor"), "vision_mode is 'tensor'; accepted: data or weights or none"),
        (_set("serving", "reasoning", to="kimi_k2"), "serving: has unknown keys reasoning"),
        (_set("family", to="mla-moe"), "model `kimi-k2-thinking`: has unknown keys family"),
        (
            _set("files", "weights", to="*.safetensors"),
            "files: weights is '\\*.safetensors'; accepted: a list of texts",
        ),
        (_set("serving", "sampling", to=[{"mode": "x"}]), r"sampling\[0\]: lacks the key `source`"),
        (
            _set("serving", "sampling", to=[{"mode": "x", "source": "y", "top_p": -1}]),
            "top_p is -1; accepted: a number",
        ),
        (_set("constraints", to=[{"topic": "x"}]), r"constraints\[0\]: lacks the key `says`"),
        (_set("checkpoint", "also", to=[{"module": "m", "layers": [3, 1], "kind": "norms"}]), "layers is \\[3, 1\\]"),
        (_set("checkpoint", "also", to=["m"]), "also is 'm'; accepted: a list of tables"),
    ],
)
def test_a_wrong_file_is_refused_by_the_key_that_is_wrong(change: Callable[[dict[str, Any]], None], said: str) -> None:
    document = _document("kimi-k2-thinking")
    change(document)
    with pytest.raises(UnknownFactError, match=said):
        parse_model(document)


def test_a_correction_that_matches_nothing_is_refused() -> None:
    document = _document("deepseek-v3.2")
    document["checkpoint"]["stored"][0]["modules"] = ".*no_such_norm"
    profile = parse_model(document)
    with pytest.raises(UnknownFactError, match="gives no tensor that matches `.*no_such_norm`"):
        profile.corrections.applied_to(load_checkpoint("deepseek-v3"))
