"""Latent attention with experts: DeepSeek-V3 and R1, Kimi K2, and DeepSeek-V3.2 with its indexer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from serving.checkpoint.config import ConfigReader
from serving.checkpoint.families.blueprint import Blueprint
from serving.checkpoint.families.family import Described, Facts
from serving.checkpoint.families.parts import (
    LAYER,
    Experts,
    Sizes,
    add_gated,
    add_layer_norms,
    add_prediction_ends,
    add_routed,
    read_experts,
    read_side,
    read_sizes,
)
from serving.checkpoint.model import AttentionKind, AttentionLayers, Family
from serving.checkpoint.weights import FP32, Kind, Shard


@dataclass(frozen=True)
class _Latent:
    sizes: Sizes
    experts: Experts
    dense_layers: int
    dense_inner: int
    shared: int
    prediction_layers: int
    correction: bool
    q_rank: int
    kv_rank: int
    nope: int
    rope: int
    value: int
    index_heads: int = 0
    index_dim: int = 0


def describe_latent(reader: ConfigReader) -> Described:
    """DeepseekV3ForCausalLM and what shares its layout."""
    return _describe(reader, sparse=False)


def describe_sparse_latent(reader: ConfigReader) -> Described:
    """DeepseekV32ForCausalLM: the same with an indexer in each layer."""
    return _describe(reader, sparse=True)


def _describe(reader: ConfigReader, *, sparse: bool) -> Described:
    sizes = read_sizes(reader)
    dense = reader.integer("first_k_dense_replace", default=0, minimum=0)
    reader.require(dense <= sizes.layers, "first_k_dense_replace", f"no more than num_hidden_layers, {sizes.layers}")
    frequency = reader.integer("moe_layer_freq", default=1)
    expert_layers = tuple(layer for layer in range(dense, sizes.layers) if layer % frequency == 0)
    shape = _Latent(
        sizes=sizes,
        experts=read_experts(reader, "n_routed_experts", expert_layers),
        dense_layers=dense,
        dense_inner=read_side(reader, "intermediate_size"),
        shared=reader.integer("n_shared_experts", default=0, minimum=0, maximum=1_000),
        prediction_layers=reader.integer("num_nextn_predict_layers", default=0, minimum=0, maximum=100),
        correction=reader.text("topk_method", default="noaux_tc") == "noaux_tc",
        q_rank=reader.integer("q_lora_rank", default=0, minimum=0, maximum=10_000_000),
        kv_rank=read_side(reader, "kv_lora_rank"),
        nope=read_side(reader, "qk_nope_head_dim"),
        rope=read_side(reader, "qk_rope_head_dim"),
        value=read_side(reader, "v_head_dim"),
        index_heads=read_side(reader, "index_n_heads") if sparse else 0,
        index_dim=read_side(reader, "index_head_dim") if sparse else 0,
    )
    if sparse:
        reader.require(shape.q_rank > 0, "q_lora_rank", "a whole number of 1 or more: the indexer reads the low rank")
    attention = AttentionLayers(
        kind=AttentionKind.SPARSE_LATENT if sparse else AttentionKind.LATENT,
        layers=sizes.layers,
        heads=sizes.heads,
        kv_heads=1,
        head_dim=shape.nope + shape.rope,
        latent_dim=shape.kv_rank + shape.rope,
        indexer_dim=shape.index_dim,
    )
    facts = Facts(
        family=Family.SPARSE_MLA_MOE if sparse else Family.MLA_MOE,
        sizes=sizes,
        attention=(attention,),
        experts=shape.experts,
    )
    return facts, lambda blueprint: _build(blueprint, shape)


def _build(blueprint: Blueprint, shape: _Latent) -> None:
    sizes = shape.sizes
    every = range(sizes.layers)
    dense = tuple(layer for layer in every if layer not in set(shape.experts.layers))
    if shape.index_dim:
        # DeepSeek-V3.2's files hold every norm in FP32, whatever the config's dtype.
        blueprint.vectors = FP32
    blueprint.ends(sizes.vocabulary, sizes.hidden, tied=sizes.tied)
    _add_layers(blueprint, shape, every)
    if dense:
        add_gated(blueprint, f"{LAYER}.mlp", Kind.DENSE_MLP, sizes.hidden, shape.dense_inner, dense)
    if shape.experts.layers:
        _add_experts(blueprint, shape, shape.experts.layers)
    if shape.prediction_layers:
        further = range(sizes.layers, sizes.layers + shape.prediction_layers)
        before = len(blueprint.tensors)
        _add_layers(blueprint, shape, further)
        _add_experts(blueprint, shape, further)
        add_prediction_ends(blueprint, sizes, further)
        as_draft(blueprint, before)


def as_draft(blueprint: Blueprint, start: int) -> None:
    """Everything from position `start` on belongs to further-token prediction, which is not loaded unless asked."""
    blueprint.tensors[start:] = [
        replace(tensor, kind=Kind.DRAFT, shard=Shard.NOT_LOADED) for tensor in blueprint.tensors[start:]
    ]


def _add_experts(blueprint: Blueprint, shape: _Latent, layers: Sequence[int]) -> None:
    add_routed(blueprint, shape.sizes.hidden, shape.experts, layers, shared=shape.shared, correction=shape.correction)


def _add_layers(blueprint: Blueprint, shape: _Latent, layers: Sequence[int]) -> None:
    hidden, heads = shape.sizes.hidden, shape.sizes.heads
    base = f"{LAYER}.self_attn"
    kind = Kind.ATTENTION
    key = shape.nope + shape.rope
    latent = shape.kv_rank + shape.rope
    add_layer_norms(blueprint, hidden, layers)
    if shape.q_rank:
        blueprint.linear(f"{base}.q_a_proj", kind, Shard.REPLICATED, shape.q_rank, hidden, layers=layers)
        blueprint.vector(f"{base}.q_a_layernorm", kind, shape.q_rank, layers=layers)
        blueprint.linear(f"{base}.q_b_proj", kind, Shard.COLUMN, heads * key, shape.q_rank, layers=layers)
    else:
        blueprint.linear(f"{base}.q_proj", kind, Shard.COLUMN, heads * key, hidden, layers=layers)
    blueprint.linear(f"{base}.kv_a_proj_with_mqa", kind, Shard.REPLICATED, latent, hidden, layers=layers)
    blueprint.vector(f"{base}.kv_a_layernorm", kind, shape.kv_rank, layers=layers)
    rows = heads * (shape.nope + shape.value)
    blueprint.linear(f"{base}.kv_b_proj", kind, Shard.COLUMN, rows, shape.kv_rank, layers=layers)
    blueprint.linear(f"{base}.o_proj", kind, Shard.ROW, hidden, heads * shape.value, layers=layers)
    if shape.index_dim:
        _add_indexer(blueprint, shape, layers)


def _add_indexer(blueprint: Blueprint, shape: _Latent, layers: Sequence[int]) -> None:
    base = f"{LAYER}.self_attn.indexer"
    kind, whole = Kind.INDEXER, Shard.REPLICATED
    rows = shape.index_heads * shape.index_dim
    blueprint.linear(f"{base}.wq_b", kind, whole, rows, shape.q_rank, layers=layers)
    blueprint.linear(f"{base}.wk", kind, whole, shape.index_dim, shape.sizes.hidden, layers=layers)
    for name in ("k_norm", "k_norm.bias"):
        blueprint.vector(f"{base}.{name}", kind, shape.index_dim, layers=layers)
    name = f"{base}.weights_proj"
    blueprint.linear(name, kind, whole, shape.index_heads, shape.sizes.hidden, layers=layers, convertible=False)
