"""A model folder without weights: the config, and a tokenizer of as many made-up words as the vocabulary has."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# The class that vLLM takes the text model for, where the config's own name belongs to a model around it.
_MODEL_TYPES = {"kimi_k2": "deepseek_v3"}
_ARCHITECTURES = {"KimiK25ForConditionalGeneration": "DeepseekV3ForCausalLM"}
_USUAL = {
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "initializer_range": 0.02,
    "torch_dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
    "use_cache": True,
}


def write_model(folder: Path, config: Mapping[str, Any]) -> None:
    """Write `config` (of a text model) and its tokenizer into `folder`, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    whole: dict[str, Any] = {**_USUAL, **config}
    whole["model_type"] = _MODEL_TYPES.get(whole["model_type"], whole["model_type"])
    whole["architectures"] = [_ARCHITECTURES.get(name, name) for name in whole["architectures"]]
    vocabulary = int(whole["vocab_size"])
    # Sampled tokens may be any of the vocabulary, and the beginning and the end must be among them.
    for key, token in (("bos_token_id", 0), ("eos_token_id", 1), ("pad_token_id", None)):
        if key in whole:
            whole[key] = token
    _write(folder / "config.json", whole)
    _write(folder / "tokenizer.json", _tokenizer(vocabulary))
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "w0",
            "eos_token": "w1",
            "unk_token": "w2",
            "model_max_length": int(whole["max_position_embeddings"]),
            "clean_up_tokenization_spaces": False,
            "chat_template": "{% for message in messages %}{{ message.content }} {% endfor %}",
        },
    )


def _tokenizer(vocabulary: int) -> dict[str, Any]:
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {f"w{token}": token for token in range(vocabulary)},
            "unk_token": "w2",
        },
    }


def _write(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document), encoding="utf-8")
