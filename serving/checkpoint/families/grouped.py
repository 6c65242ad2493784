"""Grouped-query attention: Llama, Mistral, Qwen2 and Qwen3, and with experts Qwen3-MoE and GLM-4.5 to 4.7."""

from collections.abc import Callable, Sequence

from serving.checkpoint.config import ConfigReader
from serving.checkpoint.families.blueprint import Blueprint
from serving.checkpoint.families.family import Described, Facts
from serving.checkpoint.families.latent import as_draft
from serving.checkpoint.families.parts import (
    LAYER,
    GroupedAttention,
    add_attention,
    add_gated,
    add_layer_norms,
    add_prediction_ends,
    add_routed,
    read_attention,
    read_experts,
    read_side,
    read_sizes,
)
from serving.checkpoint.model import AttentionKind, AttentionLayers, Family
from serving.checkpoint.weights import Kind


def describe_llama(reader: ConfigReader) -> Described:
    """LlamaForCausalLM: `attention_bias` is on all four projections, `mlp_bias` on the feed-forward part."""
    bias = reader.boolean("attention_bias", default=False)
    return _dense(reader, bias=bias, output_bias=bias, mlp_bias=reader.boolean("mlp_bias", default=False))


def describe_mistral(reader: ConfigReader) -> Described:
    """MistralForCausalLM: with `sliding_window` every layer keeps a window."""
    window = reader.integer("sliding_window", default=0)
    return _dense(reader, windowed=lambda _layer: window > 0, window=window)


def describe_qwen2(reader: ConfigReader) -> Described:
    """Qwen2ForCausalLM: queries, keys and values always have biases."""
    return _qwen_dense(reader, bias=True, head_norms=False)


def describe_qwen3(reader: ConfigReader) -> Described:
    """Qwen3ForCausalLM: a norm over each head's queries and keys."""
    return _qwen_dense(reader, bias=reader.boolean("attention_bias", default=False), head_norms=True)


def _qwen_dense(reader: ConfigReader, *, bias: bool, head_norms: bool) -> Described:
    used = reader.boolean("use_sliding_window", default=False)
    window = reader.integer("sliding_window", default=0) if used else 0
    first = reader.integer("max_window_layers", default=0, minimum=0) if used else 0
    output_bias = bias and head_norms
    return _dense(
        reader,
        bias=bias,
        output_bias=output_bias,
        head_norms=head_norms,
        window=window,
        windowed=lambda layer: window > 0 and layer >= first,
    )


def _dense(
    reader: ConfigReader,
    *,
    bias: bool = False,
    output_bias: bool = False,
    head_norms: bool = False,
    mlp_bias: bool = False,
    window: int = 0,
    windowed: Callable[[int], bool] = lambda _layer: False,
) -> Described:
    sizes = read_sizes(reader)
    attention = read_attention(reader, sizes, bias=bias, output_bias=output_bias, head_norms=head_norms)
    inner = read_side(reader, "intermediate_size")
    narrow = sum(windowed(layer) for layer in range(sizes.layers))
    facts = Facts(Family.GQA_DENSE, sizes, kept_by(attention, sizes.layers - narrow, narrow, window))

    def build(blueprint: Blueprint) -> None:
        every = range(sizes.layers)
        blueprint.ends(sizes.vocabulary, sizes.hidden, tied=sizes.tied)
        add_layer_norms(blueprint, sizes.hidden, every)
        add_attention(blueprint, sizes.hidden, attention, every)
        add_gated(blueprint, f"{LAYER}.mlp", Kind.DENSE_MLP, sizes.hidden, inner, every, bias=mlp_bias)

    return facts, build


def describe_qwen3_experts(reader: ConfigReader) -> Described:
    """Qwen3MoeForCausalLM: experts in every layer but those named in `mlp_only_layers`; no shared experts."""
    sizes = read_sizes(reader)
    bias = reader.boolean("attention_bias", default=False)
    attention = read_attention(reader, sizes, bias=bias, output_bias=bias, head_norms=True)
    step = reader.integer("decoder_sparse_step", default=1)
    without = set(reader.integers("mlp_only_layers"))
    layers = tuple(layer for layer in range(sizes.layers) if layer not in without and (layer + 1) % step == 0)
    experts = read_experts(reader, "num_experts", layers)
    dense = tuple(layer for layer in range(sizes.layers) if layer not in set(layers))
    inner = read_side(reader, "intermediate_size") if dense else 0
    facts = Facts(Family.GQA_MOE, sizes, kept_by(attention, sizes.layers), experts)

    def build(blueprint: Blueprint) -> None:
        blueprint.ends(sizes.vocabulary, sizes.hidden, tied=sizes.tied)
        add_layer_norms(blueprint, sizes.hidden, range(sizes.layers))
        add_attention(blueprint, sizes.hidden, attention, range(sizes.layers))
        if dense:
            add_gated(blueprint, f"{LAYER}.mlp", Kind.DENSE_MLP, sizes.hidden, inner, dense)
        if layers:
            add_routed(blueprint, sizes.hidden, experts, layers, router_is_linear=True)

    return facts, build


def describe_glm4_experts(reader: ConfigReader) -> Described:
    """Glm4MoeForCausalLM: first dense layers, shared experts, and a layer that predicts a further token."""
    sizes = read_sizes(reader)
    bias = reader.boolean("attention_bias", default=False)
    norms = reader.boolean("use_qk_norm", default=False)
    attention = read_attention(reader, sizes, bias=bias, head_norms=norms)
    dense = reader.integer("first_k_dense_replace", default=0, minimum=0)
    reader.require(dense <= sizes.layers, "first_k_dense_replace", f"no more than num_hidden_layers, {sizes.layers}")
    experts = read_experts(reader, "n_routed_experts", range(dense, sizes.layers))
    shared = reader.integer("n_shared_experts", default=0, minimum=0, maximum=1_000)
    further = reader.integer("num_nextn_predict_layers", default=0, minimum=0, maximum=100)
    inner = read_side(reader, "intermediate_size")
    facts = Facts(Family.GQA_MOE, sizes, kept_by(attention, sizes.layers), experts)

    def add_decoders(blueprint: Blueprint, layers: Sequence[int], with_experts: Sequence[int]) -> None:
        add_layer_norms(blueprint, sizes.hidden, layers)
        add_attention(blueprint, sizes.hidden, attention, layers)
        if with_experts:
            add_routed(blueprint, sizes.hidden, experts, with_experts, shared=shared, correction=True)

    def build(blueprint: Blueprint) -> None:
        blueprint.ends(sizes.vocabulary, sizes.hidden, tied=sizes.tied)
        add_decoders(blueprint, range(sizes.layers), experts.layers)
        if dense:
            add_gated(blueprint, f"{LAYER}.mlp", Kind.DENSE_MLP, sizes.hidden, inner, range(dense))
        if further:
            start = len(blueprint.tensors)
            layers = range(sizes.layers, sizes.layers + further)
            add_decoders(blueprint, layers, layers)
            add_prediction_ends(blueprint, sizes, layers)
            as_draft(blueprint, start)

    return facts, build


def kept_by(attention: GroupedAttention, full: int, windowed: int = 0, window: int = 0) -> tuple[AttentionLayers, ...]:
    """What `full` layers keep of the whole context and `windowed` layers of a window."""
    a = attention
    found = (
        AttentionLayers(AttentionKind.FULL, full, a.heads, a.kv_heads, a.head_dim),
        AttentionLayers(AttentionKind.WINDOW, windowed, a.heads, a.kv_heads, a.head_dim, window_tokens=window),
    )
    return tuple(part for part in found if part.layers)
