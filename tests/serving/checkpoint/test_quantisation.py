"""What each quantisation method says about each module, and what its scales weigh."""

import pytest

from serving.checkpoint.loader import model_from_config
from serving.checkpoint.report import quantisation_report
from serving.errors import ConfigurationError, UnknownFactError
from tests.serving.checkpoint.configs import (
    INT4_GROUPS,
    KIMI_K25,
    LLAMA_70B,
    QWEN3_235B,
    SMALL_DENSE,
    SMALL_LATENT,
)

MATRIX = 1024 * 8192
KV = "model.layers.{layer}.self_attn.k_proj"


def rows(config, quantisation):
    model = model_from_config("m", {**config, "quantization_config": quantisation}, source="test")
    return model, {row.module: row for row in quantisation_report(model)}


def groups(weights, **rest):
    return {
        "quant_method": "compressed-tensors",
        "format": rest.pop("format", "pack-quantized"),
        "ignore": rest.pop("ignore", ["lm_head"]),
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, **rest}},
    }


INT4 = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128}


@pytest.mark.parametrize(
    ("quantisation", "scheme", "one_matrix"),
    [
        (groups(INT4), "int4 group 128", MATRIX // 2 + MATRIX // 128 * 2 + 8),
        (
            groups({**INT4, "symmetric": False, "actorder": "group"}),
            "int4 group 128",
            MATRIX // 2 + MATRIX // 128 * 2 + MATRIX // 128 // 2 + 8 + 8192 * 4,
        ),
        (
            groups({"num_bits": 8, "type": "float", "strategy": "channel"}, format="float-quantized"),
            "fp8 channel",
            MATRIX + 1024 * 2,
        ),
        (
            groups(
                {"num_bits": 8, "type": "float", "strategy": "tensor"},
                format="float-quantized",
                input_activations={"dynamic": False, "num_bits": 8},
            ),
            "fp8 tensor",
            MATRIX + 2 + 2,
        ),
        (
            groups(
                {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
                format="nvfp4-pack-quantized",
            ),
            "nvfp4 group 16",
            MATRIX // 2 + MATRIX // 16 + 8,
        ),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8 block 128×128", MATRIX + 8 * 64 * 4),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8 tensor", MATRIX + 4 + 4),
        (
            {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
            "awq int4 group 128",
            MATRIX // 2 + MATRIX // 128 * 2 + MATRIX // 128 // 2,
        ),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True},
            "gptq int4 group 128",
            MATRIX // 2 + MATRIX // 128 * 2 + MATRIX // 128 // 2 + 8192 * 4,
        ),
    ],
)
def test_one_key_projection_of_llama(quantisation, scheme, one_matrix):
    _, found = rows(LLAMA_70B, quantisation)

    assert found[KV].scheme == scheme
    assert found[KV].total_bytes == 80 * one_matrix
    assert not found["lm_head"].quantised
    assert not found["model.embed_tokens"].quantised
    assert not found["model.layers.{layer}.input_layernorm"].quantised


def test_a_text_models_patterns_match_inside_the_larger_model():
    model = model_from_config("k", KIMI_K25, source="test")
    found = {row.module.rpartition("{layer}.")[2]: row.quantised for row in quantisation_report(model)}
    assert found["mlp.experts.{expert}.gate_proj"]
    assert not found["language_model.lm_head"]
    assert not any(found[name] for name in ("self_attn.o_proj", "mlp.shared_experts.up_proj", "mlp.up_proj", "mlp.fc0"))


def test_layers_and_single_experts_named_by_patterns_are_counted_apart():
    ignore = [
        "lm_head",
        r"re:.*layers\.1\.self_attn.*",
        r"re:.*experts\.[01]\..*",
        "model.layers.1.mlp.experts.3.up_proj",
    ]
    model = model_from_config(
        "m", {**SMALL_LATENT, "quantization_config": {**INT4_GROUPS, "ignore": ignore}}, source="test"
    )
    attention = [tensor for tensor in model.tensors if tensor.module.endswith("o_proj")]
    assert {(tensor.quantised, tensor.layers) for tensor in attention} == {(True, (0,)), (False, (1,)), (True, (2,))}
    experts = [t for t in model.tensors if t.module.endswith("{expert}.up_proj") and 1 in t.layers]
    assert {(tensor.quantised, tensor.copies) for tensor in experts} == {(False, 3), (True, 1)}


def test_a_skipped_gate_is_not_a_gate_projection():
    quantisation = {
        "quant_method": "awq",
        "bits": 4,
        "group_size": 128,
        "modules_to_not_convert": ["gate", "model.layers.0."],
    }
    model, _ = rows(QWEN3_235B, quantisation)
    gates = [tensor for tensor in model.tensors if tensor.module.endswith("mlp.gate")]
    assert all(not tensor.quantised for tensor in gates)
    ups = {tensor.quantised: tensor.layers for tensor in model.tensors if tensor.module.endswith("{expert}.gate_proj")}
    assert ups[False] == (0,)
    assert ups[True] == tuple(range(1, 94))


def test_gptq_rules_and_a_quantised_head():
    quantisation = {
        "quant_method": "gptq",
        "bits": 4,
        "group_size": 32,
        "lm_head": True,
        "dynamic": {r"-:.*down_proj": {}},
    }
    _, found = rows(SMALL_DENSE, quantisation)
    assert found["lm_head"].quantised
    assert not found["model.layers.{layer}.mlp.down_proj"].quantised
    assert found["model.layers.{layer}.mlp.up_proj"].quantised


def test_scales_of_the_kv_cache_are_counted():
    plain, _ = rows(LLAMA_70B, groups(INT4))
    scaled, _ = rows(LLAMA_70B, {**groups(INT4), "kv_cache_scheme": {"num_bits": 8, "type": "float"}})
    assert scaled.total_bytes - plain.total_bytes == 2 * 80 * 2


def test_a_method_that_is_not_known_is_refused_by_name():
    with pytest.raises(UnknownFactError, match=r"`bitsandbytes` is not known; known: awq, compressed-tensors, fp8"):
        rows(LLAMA_70B, {"quant_method": "bitsandbytes"})


@pytest.mark.parametrize(
    ("quantisation", "fault"),
    [
        (groups({**INT4, "num_bits": -4}), "weights.num_bits: got -4; accepted: a whole number from 1 to 16"),
        (groups({**INT4, "group_size": None}), "weights.group_size: got nothing"),
        (groups({**INT4, "strategy": "spiral"}), "weights.strategy: got spiral; accepted: tensor or channel"),
        (groups(INT4, ignore=["re:(unclosed"]), "ignore: got (unclosed; accepted: a regular expression"),
        ({"quant_method": "compressed-tensors"}, "config_groups: got null"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size: got [128]; accepted: two sizes"),
        ({"quant_method": "gptq", "bits": 5, "group_size": 128}, "bits: got 5; accepted: 2, 3, 4 or 8"),
        ({"quant_method": "awq", "bits": 4}, "group_size: got nothing"),
    ],
)
def test_faults_name_key_value_and_remedy(quantisation, fault):
    with pytest.raises(ConfigurationError) as raised:
        rows(LLAMA_70B, quantisation)
    assert fault in str(raised.value)
