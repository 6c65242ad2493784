"""A tiny model of Kimi K2's architecture whose greedy answers are known, as a folder that real vLLM serves on CPU.

Embeddings are one-hot and the output layer is a table of next tokens, so every kernel between them really runs and the
answer is still a script: without tools "Just a greeting." as reasoning and "Hello world." as the answer; with tools the
call get_weather({"city": "Paris"}); past its end the alphabet, over and over. One byte is one token.
"""

import array
import itertools
import json
import math
import random
import struct
from pathlib import Path
from typing import Any

CONTEXT_TOKENS = 4096
_SIZE = 320
_LAYERS, _EXPERTS, _EXPERT_SIZE, _DENSE_SIZE = 2, 8, 320, 640
# Latent attention's CPU kernel is compiled for 512 + 64 alone.
_HEADS, _QUERY_RANK, _LATENT, _ROPE, _NOPE, _VALUE = 4, 64, 512, 64, 128, 128
_CONTROL = (
    "[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>", "[UNK]", "[PAD]",
    "[TOOLS]",
)  # fmt: skip
# Kimi K2's own markers, which are plain tokens there too: its parsers read them from the text.
_MARKERS = (
    "<think>", "</think>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>", "<|tool_call_end|>",
)  # fmt: skip
_WORDS = (
    "Just a greeting.", "I should call the tool.", "Hello", " world", ".\n", "functions.get_weather:0", '{"city": "Paris"}',
)  # fmt: skip
_IDS = {text: 256 + index for index, text in enumerate((*_CONTROL, *_MARKERS, *_WORDS))}
_SCRIPTS: tuple[tuple[str, ...], ...] = (
    ("<|im_middle|>", "Just a greeting.", "</think>", "Hello", " world", ".\n", "<|im_end|>", "a"),
    (
        "[TOOLS]", "I should call the tool.", "<|tool_calls_section_begin|>", "<|tool_call_begin|>",
        "functions.get_weather:0", "<|tool_call_argument_begin|>", '{"city": "Paris"}', "<|tool_call_end|>",
        "<|tool_calls_section_end|>", "<|im_end|>",
    ),
    tuple("abcdefghijklmnopqrstuvwxyza"),
)  # fmt: skip
# With a tool's result among the messages the model answers in words, as a real one does.
_TEMPLATE = """\
{%- if tools -%}<|im_system|>tool_declare<|im_middle|>{{ tools | tojson }}<|im_end|>{%- endif -%}
{%- set answered = namespace(value=false) -%}
{%- for m in messages -%}
{%- if m.role == 'tool' -%}{%- set answered.value = true -%}{%- endif -%}
<|im_{{ m.role if m.role in ('user', 'assistant') else 'system' }}|>{{ m.role }}<|im_middle|>
{%- if m.content is string -%}{{ m.content }}{%- elif m.content -%}{%- for p in m.content -%}{{ p.text }}{%- endfor -%}
{%- endif -%}<|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|>
{%- if tools and not answered.value -%}[TOOLS]{%- endif -%}{%- endif -%}"""

CONFIG: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "kimi_k2", "torch_dtype": "bfloat16", "vocab_size": _SIZE,
    "hidden_size": _SIZE, "num_hidden_layers": _LAYERS, "hidden_act": "silu", "max_position_embeddings": CONTEXT_TOKENS,
    "rms_norm_eps": 1e-6, "rope_theta": 50000.0, "tie_word_embeddings": False, "attention_bias": False,
    "bos_token_id": _IDS["[BOS]"], "eos_token_id": _IDS["<|im_end|>"], "pad_token_id": _IDS["[PAD]"],
    "intermediate_size": _DENSE_SIZE, "moe_intermediate_size": _EXPERT_SIZE, "num_attention_heads": _HEADS,
    "num_key_value_heads": _HEADS, "q_lora_rank": _QUERY_RANK, "kv_lora_rank": _LATENT, "qk_nope_head_dim": _NOPE,
    "qk_rope_head_dim": _ROPE, "v_head_dim": _VALUE, "n_routed_experts": _EXPERTS, "n_shared_experts": 1,
    "num_experts_per_tok": 2, "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_group": 1, "topk_group": 1,
    "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True, "routed_scaling_factor": 2.827,
    "num_nextn_predict_layers": 0, "ep_size": 1,
    "rope_scaling": {
        "type": "yarn", "factor": 2.0, "original_max_position_embeddings": CONTEXT_TOKENS // 2, "beta_fast": 1.0,
        "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
    },
}  # fmt: skip

Tensor = tuple[str, list[int], bytes]


def write_model(folder: Path) -> int:
    """Write config, tokenizer and two shards with their index; gives the bytes of all tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder, "config.json", CONFIG)
    tokens = {"bos_token_id": _IDS["[BOS]"], "eos_token_id": _IDS["<|im_end|>"], "pad_token_id": _IDS["[PAD]"]}
    _write(folder, "generation_config.json", tokens)
    _write(folder, "tokenizer.json", _tokenizer())
    _write(
        folder,
        "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "[BOS]", "eos_token": "<|im_end|>",
            "pad_token": "[PAD]", "unk_token": "[UNK]", "model_max_length": CONTEXT_TOKENS,
            "clean_up_tokenization_spaces": False, "chat_template": _TEMPLATE,
        },
    )  # fmt: skip
    return _write_shards(folder, _tensors())


def _tokenizer() -> dict[str, Any]:
    def added(number: int, content: str, *, special: bool) -> dict[str, Any]:
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": special}
        return {"id": number, "content": content, **flags}

    known = [added(number, text, special=text in _CONTROL) for text, number in _IDS.items()]
    spare = [added(number, f"<|reserved_{number}|>", special=True) for number in range(256 + len(_IDS), _SIZE)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
        "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": _byte_vocabulary(), "merges": [],
    }  # fmt: skip
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": known + spare, "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level, "model": model,
    }  # fmt: skip


def _byte_vocabulary() -> dict[str, int]:
    """Byte-level BPE's letters, each with its byte as id."""
    shown = {byte: chr(byte) for byte in (*range(33, 127), *range(161, 173), *range(174, 256))}
    hidden = [byte for byte in range(256) if byte not in shown]
    return {letter: byte for byte, letter in {**shown, **{b: chr(256 + n) for n, b in enumerate(hidden)}}.items()}


def _tensors() -> dict[str, Tensor]:
    draw = random.Random(0)
    made: dict[str, Tensor] = {}

    def linear(name: str, rows: int, columns: int) -> None:
        values = [draw.gauss(0, 0.01) for _ in range(rows * columns)]
        made[f"{name}.weight"] = ("BF16", [rows, columns], _bf16(values))

    def norm(name: str, size: int) -> None:
        made[f"{name}.weight"] = ("BF16", [size], _bf16([1.0] * size))

    made["model.embed_tokens.weight"] = _table([(token, token, 8.0) for token in range(_SIZE)])
    made["lm_head.weight"] = _table([(following, token, 4.0) for token, following in _next_tokens().items()])
    norm("model.norm", _SIZE)
    for layer in range(_LAYERS):
        at = f"model.layers.{layer}."
        norm(at + "input_layernorm", _SIZE)
        norm(at + "post_attention_layernorm", _SIZE)
        linear(at + "self_attn.q_a_proj", _QUERY_RANK, _SIZE)
        norm(at + "self_attn.q_a_layernorm", _QUERY_RANK)
        linear(at + "self_attn.q_b_proj", _HEADS * (_NOPE + _ROPE), _QUERY_RANK)
        linear(at + "self_attn.kv_a_proj_with_mqa", _LATENT + _ROPE, _SIZE)
        norm(at + "self_attn.kv_a_layernorm", _LATENT)
        linear(at + "self_attn.kv_b_proj", _HEADS * (_NOPE + _VALUE), _LATENT)
        linear(at + "self_attn.o_proj", _SIZE, _HEADS * _VALUE)
        parts = [("mlp", _DENSE_SIZE)]
        if layer:
            linear(at + "mlp.gate", _EXPERTS, _SIZE)
            bias = struct.pack(f"<{_EXPERTS}f", *[0.0] * _EXPERTS)
            made[at + "mlp.gate.e_score_correction_bias"] = ("F32", [_EXPERTS], bias)
            parts = [(f"mlp.experts.{expert}", _EXPERT_SIZE) for expert in range(_EXPERTS)]
            parts.append(("mlp.shared_experts", _EXPERT_SIZE))
        for part, size in parts:
            linear(f"{at}{part}.gate_proj", size, _SIZE)
            linear(f"{at}{part}.up_proj", size, _SIZE)
            linear(f"{at}{part}.down_proj", _SIZE, size)
    return made


def _next_tokens() -> dict[int, int]:
    following = dict.fromkeys(range(_SIZE), ord("a"))
    for script in _SCRIPTS:
        numbers = [_IDS[text] if text in _IDS else ord(text) for text in script]
        following.update(itertools.pairwise(numbers))
    return following


def _table(cells: list[tuple[int, int, float]]) -> Tensor:
    values = [0.0] * (_SIZE * _SIZE)
    for row, column, value in cells:
        values[row * _SIZE + column] = value
    return "BF16", [_SIZE, _SIZE], _bf16(values)


def _bf16(values: list[float]) -> bytes:
    """The upper halves of 32-bit floats."""
    whole = array.array("f", values).tobytes()
    halves = bytearray(len(whole) // 2)
    halves[0::2], halves[1::2] = whole[2::4], whole[3::4]
    return bytes(halves)


def _write_shards(folder: Path, tensors: dict[str, Tensor]) -> int:
    names = list(tensors)
    places: dict[str, str] = {}
    total = 0
    for number, part in enumerate((names[: len(names) // 2], names[len(names) // 2 :]), 1):
        file = f"model-{number:05d}-of-00002.safetensors"
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        offset = 0
        for name in part:
            kind, shape, raw = tensors[name]
            assert len(raw) == math.prod(shape) * (4 if kind == "F32" else 2)
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + len(raw)]}
            offset += len(raw)
            places[name] = file
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (folder / file).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(tensors[name][2] for name in part))
        total += offset
    _write(folder, "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": places})
    return total


def _write(folder: Path, name: str, document: Any) -> None:
    (folder / name).write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
