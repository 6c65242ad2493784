"""Every byte of published checkpoints, from their configs alone."""

import pytest

from serving.checkpoint.loader import model_from_config
from serving.checkpoint.model import AttentionKind, Family
from serving.checkpoint.report import bytes_by_kind, quantisation_report
from serving.checkpoint.stored import stored_elements, tensor_count
from serving.checkpoint.weights import Kind, Shard
from tests.serving.checkpoint.configs import (
    DEEPSEEK_V3,
    DEEPSEEK_V32,
    EVERY,
    GLM_46,
    GPT_OSS_120B,
    KIMI_K2,
    KIMI_K2_THINKING,
    KIMI_K25,
    LLAMA_70B,
    QWEN3_32B,
    QWEN3_235B,
)

# Bytes as the files' own headers or index have them; DeepSeek: 3,918,786,560 BF16, 680,571,043,840 FP8 and 41,555,600
# FP32 elements. Numbers of tensors are published for Kimi, Qwen3-235B and Llama; the others guard against change.
PUBLISHED = [
    ("kimi-k2.5", KIMI_K25, 0, 595_148_192_736, 208_550),
    ("kimi-k2-thinking", KIMI_K2_THINKING, 256, 594_205_920_512, 208_276),
    ("kimi-k2-instruct", KIMI_K2, 112, 1_029_173_256_720, 139_644),
    ("kimi-k2-instruct-0905", KIMI_K2, 256, 1_029_173_265_504, 139_644),
    ("deepseek-v3", DEEPSEEK_V3, 0, 688_574_839_360, 91_991),
    ("deepseek-v3.2", DEEPSEEK_V32, 0, 689_471_107_200, 92_425),
    ("qwen3-32b", QWEN3_32B, 0, 65_524_246_528, 707),
    ("qwen3-235b", QWEN3_235B, 0, 470_187_269_120, 36_945),
    ("llama-3.3-70b", LLAMA_70B, 0, 141_107_412_992, 723),
    ("gpt-oss-120b", GPT_OSS_120B, 0, 65_248_815_744, 687),
]


@pytest.mark.parametrize(("name", "config", "rotary", "total", "tensors"), PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_the_bytes_and_tensors_are_the_published_ones(name, config, rotary, total, tensors):
    model = model_from_config(name, config, source="published config", rotary_table_bytes=rotary)

    assert model.total_bytes == total
    assert tensor_count(model.tensors) == tensors


@pytest.mark.parametrize(
    ("config", "ends", "parameters"),
    [
        (GLM_46, False, 356_785_898_816),
        (GLM_46, True, 358_337_791_296),  # GLM-4.5 and 4.7 repeat embedding and head in their last layer
        (DEEPSEEK_V32, True, 685_355_329_792),
        (KIMI_K25, True, 1_026_879_376_368),
    ],
)
def test_the_parameters_are_the_published_ones(config, ends, parameters):
    assert model_from_config("m", config, source="test", prediction_ends=ends).parameters == parameters


def test_deepseek_elements_with_scales_are_those_of_its_files():
    for config, elements in ((DEEPSEEK_V3, 684_531_386_000), (DEEPSEEK_V32, 685_396_921_376)):
        model = model_from_config("m", config, source="test")
        assert sum(stored_elements(tensor) for tensor in model.tensors) == elements


def test_kimi_k25_component_by_component():
    model = model_from_config("kimi-k2.5", KIMI_K25, source="test")

    assert bytes_by_kind(model) == {
        Kind.ROUTED_EXPERTS: 507_343_011_840 + 552_960,
        Kind.EXPERT_SCALES: 63_417_876_480,
        Kind.SHARED_EXPERTS: 5_284_823_040,
        Kind.ROUTER: 330_301_440 + 92_160,
        Kind.DENSE_MLP: 792_723_456,
        Kind.ATTENTION: 12_337_139_712,
        Kind.EMBEDDING: 2_348_810_240,
        Kind.OUTPUT_HEAD: 2_348_810_240,
        Kind.NORMS: 1_763_328,
        Kind.VISION: 942_287_840,
    }
    by_name = {
        row.module.removeprefix("language_model.model.layers.{layer}."): row for row in quantisation_report(model)
    }
    assert by_name["self_attn.q_a_proj"].total_bytes == 1_343_225_856
    assert by_name["self_attn.q_b_proj"].total_bytes == 2_302_672_896
    assert by_name["self_attn.kv_a_proj_with_mqa"].total_bytes == 503_709_696
    assert by_name["self_attn.kv_b_proj"].total_bytes == 1_023_410_176
    assert by_name["self_attn.o_proj"].total_bytes == 7_163_871_232
    assert by_name["mlp.gate.e_score_correction_bias"].scheme == "fp32"
    assert model.vision
    assert model.family is Family.MLA_MOE
    assert (model.experts, model.experts_per_token, model.expert_inner) == (384, 8, 2048)


def test_the_report_lists_what_is_quantised_and_adds_up():
    for name, config in EVERY.items():
        model = model_from_config(name, config, source="test")
        rows = quantisation_report(model)
        assert sum(row.total_bytes for row in rows) == model.total_bytes == sum(bytes_by_kind(model).values()), name
        assert all(row.quantised == (row.scheme not in ("bf16", "fp32")) for row in rows), name
    quantised = {
        row.module for row in quantisation_report(model_from_config("g", GPT_OSS_120B, source="t")) if row.quantised
    }
    assert quantised == {"model.layers.{layer}.mlp.experts.gate_up_proj", "model.layers.{layer}.mlp.experts.down_proj"}


def test_what_deepseek_leaves_in_bf16_and_what_it_does_not_load():
    model = model_from_config("v3.2", DEEPSEEK_V32, source="test")
    plain = {row.module.rpartition("{layer}.")[2] for row in quantisation_report(model) if not row.quantised}
    assert {"mlp.gate", "eh_proj", "self_attn.indexer.weights_proj", "model.embed_tokens", "lm_head"} <= plain
    assert not {"self_attn.kv_b_proj", "self_attn.indexer.wq_b", "self_attn.indexer.wk"} & plain
    drafts = [tensor for tensor in model.tensors if tensor.kind is Kind.DRAFT]
    assert all(tensor.layers == (61,) and tensor.shard is Shard.NOT_LOADED for tensor in drafts)
    assert model.layers == 61
    assert model.attention[0].kind is AttentionKind.SPARSE_LATENT
    assert (model.attention[0].latent_dim, model.attention[0].indexer_dim) == (576, 128)


def test_what_layers_keep_of_each_token():
    gpt = model_from_config("gpt-oss", GPT_OSS_120B, source="test").attention
    assert [(part.kind, part.layers, part.window_tokens) for part in gpt] == [
        (AttentionKind.FULL, 18, 0),
        (AttentionKind.WINDOW, 18, 128),
    ]
    qwen = model_from_config("qwen", QWEN3_235B, source="test").attention
    assert [(part.kind, part.layers, part.kv_heads, part.head_dim) for part in qwen] == [
        (AttentionKind.FULL, 94, 4, 128)
    ]
    (mistral,) = model_from_config(
        "mistral", {**LLAMA_70B, "architectures": ["MistralForCausalLM"], "sliding_window": 4096}, source="test"
    ).attention
    assert (mistral.kind, mistral.layers, mistral.window_tokens) == (AttentionKind.WINDOW, 80, 4096)
