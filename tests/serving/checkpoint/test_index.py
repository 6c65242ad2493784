"""`model.safetensors.index.json` against the config."""

import json

import pytest

from serving.checkpoint.loader import model_from_config, model_from_files
from serving.checkpoint.stored import stored_names, stored_parts
from serving.checkpoint.weights import Kind, Shard
from serving.errors import ConfigurationError, UnknownFactError
from tests.serving.checkpoint.configs import (
    DEEPSEEK_V3,
    KIMI_K2_THINKING,
    KIMI_K25,
    QWEN3_32B,
    QWEN3_SMALL,
    SMALL_DENSE,
    SMALL_INT4,
    SMALL_LATENT,
)


def names_of(config, **options):
    model = model_from_config("m", config, source="test", **options)
    return [
        name for tensor in model.tensors for part in stored_parts(tensor) for name in stored_names(tensor, part.suffix)
    ]


def read(tmp_path, config, names, total_size):
    (tmp_path / "config.json").write_text(json.dumps(config))
    metadata = {} if total_size is None else {"total_size": total_size}
    index = {"metadata": metadata, "weight_map": dict.fromkeys(names, "model-00001-of-00001.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    return model_from_files(tmp_path / "config.json", tmp_path / "model.safetensors.index.json")


def refused(tmp_path, config, names, total_size):
    with pytest.raises(ConfigurationError) as raised:
        read(tmp_path, config, names, total_size)
    return str(raised.value)


def test_kimi_k25_and_its_index_agree(tmp_path):
    names = names_of(KIMI_K25)
    assert len(names) == len(set(names)) == 208_550
    assert "language_model.model.layers.60.mlp.experts.383.down_proj.weight_packed" in names
    assert "vision_tower.encoder.blocks.26.mlp.fc1.bias" in names
    assert read(tmp_path, KIMI_K25, names, 595_148_192_736).total_bytes == 595_148_192_736


def test_deepseeks_own_index_counts_two_bytes_an_element_and_is_accepted(tmp_path):
    model = read(tmp_path, DEEPSEEK_V3, names_of(DEEPSEEK_V3), 1_369_062_772_000)
    assert model.total_bytes == 688_574_839_360


def test_rotary_tables_that_only_the_index_knows(tmp_path):
    tables = [f"model.layers.{layer}.self_attn.rotary_emb.inv_freq" for layer in range(61)]
    model = read(tmp_path, KIMI_K2_THINKING, names_of(KIMI_K2_THINKING) + tables, 594_205_920_512)
    assert model.total_bytes == 594_205_920_512
    assert sum(tensor.total_bytes for tensor in model.tensors if tensor.shard is Shard.NOT_LOADED) == 61 * 256


def test_the_index_decides_about_the_prediction_layer(tmp_path):
    whole = model_from_config("m", SMALL_LATENT, source="test")
    without = [name for name in names_of(SMALL_LATENT) if "layers.2." not in name]
    model = read(tmp_path, SMALL_LATENT, without, None)
    assert not [tensor for tensor in model.tensors if tensor.kind is Kind.DRAFT]
    assert model.total_bytes < whole.total_bytes
    short = [name for name in names_of(SMALL_LATENT) if "shared_head.head" not in name and "2.embed" not in name]
    assert read(tmp_path, SMALL_LATENT, short, None).total_bytes == whole.total_bytes - 2 * 512 * 256 * 2


def test_a_head_that_is_stored_although_tied(tmp_path):
    model = read(tmp_path, QWEN3_SMALL, [*names_of(QWEN3_SMALL), "lm_head.weight"], 1_503_264_768)
    assert model.parameters == 751_632_384
    (head,) = [tensor for tensor in model.tensors if tensor.kind is Kind.OUTPUT_HEAD]
    assert head.shard is Shard.NOT_LOADED


@pytest.mark.parametrize(
    ("total_size", "reason"),
    [
        (65_524_246_528 + 80_000, "count the headers of the files too"),
        (65_524_246_528 * 2, "four bytes for each parameter"),
        (65_524_246_528 - 151936 * 5120 * 2, "it lacks exactly the embedding"),
        (65_524_246_528 - 12_345, "part of the files seems to be missing"),
        (99_999_999_999, "belong to different models"),
    ],
)
def test_a_total_that_disagrees_is_told_with_both_numbers_and_the_likely_reason(tmp_path, total_size, reason):
    said = refused(tmp_path, QWEN3_32B, names_of(QWEN3_32B), total_size)
    assert f"metadata.total_size: got {total_size:,} bytes ({total_size - 65_524_246_528:+,})" in said
    assert "65,524,246,528 bytes, the sum of the tensors that the config describes" in said
    assert reason in said


@pytest.mark.parametrize("config", [SMALL_LATENT, SMALL_INT4])
def test_scales_of_another_width_are_found_from_the_total(tmp_path, config):
    model = model_from_config("m", config, source="test")
    scales = sum(t.count * t.storage.scales(t.rows, t.columns) for t in model.tensors)
    shapes = sum(t.count for t in model.tensors if t.storage.extra_bytes)
    other = -2 if config is SMALL_LATENT else 2
    for total in {model.total_bytes + other * scales, model.total_bytes + other * scales + 8 * shapes}:
        assert read(tmp_path, config, names_of(config), total).total_bytes == total
    said = refused(tmp_path, config, names_of(config), model.total_bytes + other * scales + 4)
    assert f"{model.total_bytes:,} bytes, the sum" in said


def test_norms_of_another_width_are_found_from_the_total(tmp_path):
    norms = 2 * (2 * 64 + 2 * 16) + 64
    total = model_from_config("m", SMALL_DENSE, source="test").total_bytes + 2 * norms
    model = read(tmp_path, SMALL_DENSE, names_of(SMALL_DENSE), total)
    assert model.total_bytes == total
    assert {t.storage.scheme for t in model.tensors if t.module.endswith("norm")} == {"fp32"}


def test_an_index_from_before_quantisation(tmp_path):
    quantised = {**SMALL_DENSE, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 32}}
    total = 2 * model_from_config("m", quantised, source="test").parameters
    assert "from before quantisation" in refused(tmp_path, quantised, names_of(quantised), total)


def test_names_that_are_missing_or_too_many(tmp_path):
    names = names_of(SMALL_DENSE)
    said = refused(tmp_path, SMALL_DENSE, [*names[:-2], "model.layers.7.surprise.weight"], None)
    assert "an index without 2 of the config's tensors, such as " + names[-2] in said
    assert "1 tensors that the config does not explain, such as model.layers.7.surprise.weight" in said


@pytest.mark.parametrize(
    ("index", "fault"),
    [
        ({"metadata": {"total_size": 5}}, "weight_map: got nothing"),
        ({"weight_map": {}}, "weight_map: got {}"),
        ({"weight_map": [1]}, "weight_map: got [1]"),
        ({"weight_map": {"a": "../../etc/passwd"}}, "weight_map.a: got ../../etc/passwd"),
        ({"weight_map": {"a": 5}}, "weight_map.a: got 5"),
        ({"metadata": {"total_size": -1}, "weight_map": {"a": "b"}}, "metadata.total_size: got -1"),
    ],
)
def test_an_index_that_is_none(tmp_path, index, fault):
    (tmp_path / "config.json").write_text(json.dumps(SMALL_DENSE))
    (tmp_path / "i.json").write_text(json.dumps(index))
    with pytest.raises(ConfigurationError) as raised:
        model_from_files(tmp_path / "config.json", tmp_path / "i.json")
    assert fault in str(raised.value)


def test_single_experts_that_are_stored_differently_are_not_checked_and_it_is_said(tmp_path):
    quantisation = {**SMALL_INT4["quantization_config"], "ignore": [r"re:.*experts\.[01]\..*"]}
    config = {**SMALL_INT4, "quantization_config": quantisation}
    with pytest.raises(UnknownFactError, match="single experts are quantised differently"):
        read(tmp_path, config, ["x"], None)
