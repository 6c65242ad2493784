"""gpt-oss: layers with a sliding window between full ones, attention sinks, biases everywhere, fused MXFP4 experts."""

from serving.checkpoint.config import ConfigReader
from serving.checkpoint.families.blueprint import Blueprint
from serving.checkpoint.families.family import Described, Facts
from serving.checkpoint.families.grouped import kept_by
from serving.checkpoint.families.parts import (
    LAYER,
    Experts,
    add_attention,
    add_layer_norms,
    read_attention,
    read_side,
    read_sizes,
)
from serving.checkpoint.model import Family
from serving.checkpoint.weights import Kind, Shard

_LAYER_TYPES = ("full_attention", "sliding_attention")


def describe_gpt_oss(reader: ConfigReader) -> Described:
    """GptOssForCausalLM; the experts' inner size stands under `intermediate_size`."""
    sizes = read_sizes(reader)
    bias = reader.boolean("attention_bias", default=True)
    attention = read_attention(reader, sizes, bias=bias, output_bias=bias)
    count = reader.integer("num_local_experts", maximum=10_000)
    key = "num_experts_per_tok" if reader.has("num_experts_per_tok") else "experts_per_token"
    per_token = reader.integer(key, maximum=10_000)
    reader.require(per_token <= count, key, f"no more than num_local_experts, which is {count}")
    experts = Experts(count, per_token, read_side(reader, "intermediate_size"), tuple(range(sizes.layers)))
    window = reader.integer("sliding_window")
    types = reader.texts("layer_types")
    if not types:
        # Where the config names no kinds, the model alternates and begins with a window.
        types = tuple(_LAYER_TYPES[(layer + 1) % 2] for layer in range(sizes.layers))
    reader.require(len(types) == sizes.layers, "layer_types", f"one entry for each of {sizes.layers} layers")
    reader.require(set(types) <= set(_LAYER_TYPES), "layer_types", " and ".join(_LAYER_TYPES))
    narrow = sum(kind == "sliding_attention" for kind in types)
    facts = Facts(Family.WINDOW_MOE, sizes, kept_by(attention, sizes.layers - narrow, narrow, window), experts)

    def build(blueprint: Blueprint) -> None:
        every = range(sizes.layers)
        hidden = sizes.hidden
        blueprint.ends(sizes.vocabulary, hidden, tied=sizes.tied)
        add_layer_norms(blueprint, hidden, every)
        add_attention(blueprint, hidden, attention, every)
        # One learned logit for each head.
        name = f"{LAYER}.self_attn.sinks"
        blueprint.vector(name, Kind.ATTENTION, attention.heads, layers=every, shard=Shard.COLUMN)
        router = f"{LAYER}.mlp.router"
        blueprint.linear(router, Kind.ROUTER, Shard.REPLICATED, count, hidden, layers=every, bias=True)
        routed, shard = Kind.ROUTED_EXPERTS, Shard.EXPERT
        module = f"{LAYER}.mlp.experts"
        sides = (("gate_up_proj", 2 * experts.inner, hidden), ("down_proj", hidden, experts.inner))
        for part, rows, columns in sides:
            blueprint.linear(f"{module}.{part}", routed, shard, rows, columns, layers=every, copies=count)
            blueprint.stacked(f"{module}.{part}_bias", routed, shard, rows, 1, layers=every, copies=count)

    return facts, build
