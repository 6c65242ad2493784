"""The sizes that `serving.memory` plans with: latent attention with INT4 experts, out of a model's config."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from serving.errors import UnknownFactError

_BF16_BYTES = 2
_WEIGHT_SHAPE_BYTES = 8


@dataclass(frozen=True)
class Architecture:
    """The sizes that decide bytes, as in the model's config.json; `dense_layers` come before the expert layers."""

    layers: int
    dense_layers: int
    hidden_size: int
    dense_intermediate_size: int
    attention_heads: int
    q_lora_rank: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    routed_experts: int
    shared_experts: int
    expert_intermediate_size: int
    vocabulary: int
    max_context_tokens: int


@dataclass(frozen=True)
class ExpertWeights:
    """How routed experts are stored: `bits` a weight, one scale of `scale_bytes` for each `group_size` weights."""

    bits: int
    group_size: int
    scale_bytes: int
    packed_shape_bytes: int


def latent_architecture(title: str, config: Mapping[str, Any]) -> Architecture:
    """The sizes out of `config`; raises UnknownFactError on a model that `serving.memory` cannot plan."""
    text, _ = _planned(title, config)
    return Architecture(
        layers=text["num_hidden_layers"],
        dense_layers=text["first_k_dense_replace"],
        hidden_size=text["hidden_size"],
        dense_intermediate_size=text["intermediate_size"],
        attention_heads=text["num_attention_heads"],
        q_lora_rank=text["q_lora_rank"],
        kv_lora_rank=text["kv_lora_rank"],
        qk_nope_head_dim=text["qk_nope_head_dim"],
        qk_rope_head_dim=text["qk_rope_head_dim"],
        v_head_dim=text["v_head_dim"],
        routed_experts=text["n_routed_experts"],
        shared_experts=text["n_shared_experts"],
        expert_intermediate_size=text["moe_intermediate_size"],
        vocabulary=text["vocab_size"],
        max_context_tokens=text["max_position_embeddings"],
    )


def latent_expert_weights(title: str, config: Mapping[str, Any]) -> ExpertWeights:
    """How experts lie; raises UnknownFactError as `latent_architecture` does."""
    _, weights = _planned(title, config)
    return ExpertWeights(weights["num_bits"], weights["group_size"], _BF16_BYTES, _WEIGHT_SHAPE_BYTES)


def _planned(title: str, config: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The text model's config and its experts' weights."""
    text = _table(config, "text_config") or config
    quantisation = _table(text, "quantization_config") or _table(config, "quantization_config")
    groups = _table(quantisation, "config_groups")
    weights = _table(_table(groups, "group_0"), "weights")
    latent = text.get("architectures") == ["DeepseekV3ForCausalLM"] and not text.get("num_nextn_predict_layers")
    if latent and weights.get("strategy") == "group" and weights.get("symmetric") is True:
        return text, weights
    stored = str(quantisation.get("quant_method", "unquantised"))
    raise UnknownFactError(
        f"{title} cannot be deployed yet: a deployment's memory is planned for latent attention with INT4 experts only"
        f" (Kimi K2.5, Kimi K2.6, Kimi K2 Thinking); this model is {', '.join(text.get('architectures', ['?']))},"
        f" {stored}"
    )


def _table(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
