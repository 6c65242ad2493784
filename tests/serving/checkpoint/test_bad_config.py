"""Configs that are wrong: all faults at once, each with key, value and what would be accepted."""

import pytest

from serving.checkpoint.loader import model_from_config, model_from_files
from serving.errors import ConfigurationError, UnknownFactError
from tests.serving.checkpoint.configs import DEEPSEEK_V32, GPT_OSS_120B, KIMI_K25, LLAMA_70B, QWEN3_235B


def faults_of(config):
    with pytest.raises(ConfigurationError) as raised:
        model_from_config("m", config, source="test")
    return [str(fault) for fault in raised.value.faults]


def test_every_fault_is_named_at_once():
    found = faults_of(
        {**LLAMA_70B, "hidden_size": -8192, "num_hidden_layers": 10**12, "vocab_size": "many", "num_key_value_heads": 7}
    )
    assert found == [
        "num_hidden_layers: got 1000000000000; accepted: a whole number from 1 to 1,000",
        "hidden_size: got -8192; accepted: a whole number from 1 to 10,000,000",
        "vocab_size: got many; accepted: a whole number from 1 to 1,000,000,000",
        "num_key_value_heads: got 7; accepted: a divisor of num_attention_heads, which is 64",
        "num_attention_heads: got 64; accepted: a divisor of hidden_size, which is 1, where the config gives no head_dim",
    ]


@pytest.mark.parametrize(
    ("config", "change", "fault"),
    [
        (
            LLAMA_70B,
            {"num_key_value_heads": 128},
            "num_key_value_heads: got 128; accepted: no more than num_attention_heads, 64",
        ),
        (LLAMA_70B, {"num_attention_heads": 63, "num_key_value_heads": 9}, "a divisor of hidden_size, which is 8192"),
        (
            LLAMA_70B,
            {"hidden_size": None},
            "hidden_size: got nothing; accepted: a whole number of 1 or more; the key is missing",
        ),
        (LLAMA_70B, {"hidden_size": True}, "hidden_size: got true"),
        (LLAMA_70B, {"hidden_size": 8192.0}, "hidden_size: got 8192.0"),
        (LLAMA_70B, {"torch_dtype": "float7"}, "torch_dtype: got float7; accepted: bfloat16 or float16 or float32"),
        (
            QWEN3_235B,
            {"num_experts_per_tok": 200},
            "num_experts_per_tok: got 200; accepted: no more than num_experts, which is 128",
        ),
        (
            DEEPSEEK_V32,
            {"first_k_dense_replace": 62},
            "first_k_dense_replace: got 62; accepted: no more than num_hidden_layers, 61",
        ),
        (DEEPSEEK_V32, {"index_head_dim": None}, "index_head_dim: got nothing"),
        (DEEPSEEK_V32, {"q_lora_rank": None}, "q_lora_rank: got null; accepted: a whole number of 1 or more"),
        (GPT_OSS_120B, {"layer_types": ["full_attention"]}, "accepted: one entry for each of 36 layers"),
        (GPT_OSS_120B, {"layer_types": ["chunked"] * 36}, "accepted: full_attention and sliding_attention"),
        (KIMI_K25, {"vision_config": {"vt_hidden_size": 1152}}, "vision_config.vt_intermediate_size: got nothing"),
        (KIMI_K25, {"text_config": 5}, "text_config: got 5; accepted: an object"),
        (LLAMA_70B, {"architectures": []}, "architectures: got []; accepted: a list of one name"),
    ],
)
def test_one_fault(config, change, fault):
    assert any(fault in found for found in faults_of({**config, **change}))


def test_an_architecture_that_is_not_known_is_refused_by_name():
    with pytest.raises(UnknownFactError, match=r"`MambaForCausalLM` is not known.*DeepseekV32ForCausalLM.*Qwen3Moe"):
        model_from_config("m", {"architectures": ["MambaForCausalLM"]}, source="test")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"architectures": ["LlamaFor', "bytes that are no JSON"),
        (b"", "0 bytes that are no JSON"),
        (b"\xff\xfe{}", "bytes that are no JSON"),
        (b"[1, 2]", "got [1, 2]; accepted: a JSON object"),
        (b"[" * 100_000, "no JSON"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "a Git LFS pointer"),
    ],
)
def test_a_file_that_is_no_config_is_named(tmp_path, content, said):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"config\.json") as raised:
        model_from_files(path)
    assert said in str(raised.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="No such file"):
        model_from_files(tmp_path / "config.json")
