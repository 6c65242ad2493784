"""What families share: sizes read once, grouped-query attention, gated feed-forward parts, experts, norms."""

from collections.abc import Sequence
from dataclasses import dataclass

from serving.checkpoint.config import ConfigReader
from serving.checkpoint.families.blueprint import Blueprint
from serving.checkpoint.weights import FP32, Kind, Shard

LAYER = "model.layers.{layer}"
_MOST_LAYERS = 1_000
_MOST_EXPERTS = 10_000
_LARGEST_SIDE = 10_000_000


@dataclass(frozen=True)
class Sizes:
    """What every decoder has, in the config's own terms."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    context: int
    tied: bool


@dataclass(frozen=True)
class Experts:
    """Routed experts: how many, how many a token uses, their inner size, and in which layers they are."""

    count: int
    per_token: int
    inner: int
    layers: tuple[int, ...]


def read_sizes(reader: ConfigReader) -> Sizes:
    """The sizes that every decoder has; faults go to the reader."""
    return Sizes(
        layers=reader.integer("num_hidden_layers", maximum=_MOST_LAYERS),
        hidden=reader.integer("hidden_size", maximum=_LARGEST_SIDE),
        heads=reader.integer("num_attention_heads", maximum=_LARGEST_SIDE),
        vocabulary=reader.integer("vocab_size"),
        context=reader.integer("max_position_embeddings"),
        tied=reader.boolean("tie_word_embeddings", default=False),
    )


def read_side(reader: ConfigReader, key: str, default: int | None = None) -> int:
    """A side of a matrix."""
    return reader.integer(key, default=default, maximum=_LARGEST_SIDE)


def read_experts(reader: ConfigReader, count_key: str, layers: Sequence[int]) -> Experts:
    """Routed experts as the config gives them under `count_key`, standing in `layers`."""
    count = reader.integer(count_key, maximum=_MOST_EXPERTS)
    per_token = reader.integer("num_experts_per_tok", maximum=_MOST_EXPERTS)
    reader.require(per_token <= count, "num_experts_per_tok", f"no more than {count_key}, which is {count}")
    return Experts(count, per_token, read_side(reader, "moe_intermediate_size"), tuple(layers))


@dataclass(frozen=True)
class GroupedAttention:
    """Grouped-query attention: heads, key and value heads, width of a head, and which parts it has."""

    heads: int
    kv_heads: int
    head_dim: int
    bias: bool
    output_bias: bool
    head_norms: bool


def read_attention(
    reader: ConfigReader, sizes: Sizes, *, bias: bool = False, output_bias: bool = False, head_norms: bool = False
) -> GroupedAttention:
    """Grouped-query attention out of the config; contradictions become faults."""
    kv_heads = read_side(reader, "num_key_value_heads", default=sizes.heads)
    reader.require(kv_heads <= sizes.heads, "num_key_value_heads", f"no more than num_attention_heads, {sizes.heads}")
    reader.require(
        sizes.heads % kv_heads == 0, "num_key_value_heads", f"a divisor of num_attention_heads, which is {sizes.heads}"
    )
    if not reader.has("head_dim"):
        reader.require(
            sizes.hidden % sizes.heads == 0,
            "num_attention_heads",
            f"a divisor of hidden_size, which is {sizes.hidden}, where the config gives no head_dim",
        )
    head_dim = read_side(reader, "head_dim", default=max(1, sizes.hidden // sizes.heads))
    return GroupedAttention(sizes.heads, kv_heads, head_dim, bias, output_bias, head_norms)


def add_attention(
    blueprint: Blueprint, hidden: int, attention: GroupedAttention, layers: Sequence[int], layer: str = LAYER
) -> None:
    """The projections of grouped-query attention, with biases and head norms where it has them."""
    a = attention
    base = f"{layer}.self_attn"
    kind = Kind.ATTENTION
    width = a.heads * a.head_dim
    narrow = a.kv_heads * a.head_dim
    blueprint.linear(f"{base}.q_proj", kind, Shard.COLUMN, width, hidden, layers=layers, bias=a.bias)
    blueprint.linear(f"{base}.k_proj", kind, Shard.KV_HEADS, narrow, hidden, layers=layers, bias=a.bias)
    blueprint.linear(f"{base}.v_proj", kind, Shard.KV_HEADS, narrow, hidden, layers=layers, bias=a.bias)
    blueprint.linear(f"{base}.o_proj", kind, Shard.ROW, hidden, width, layers=layers, bias=a.output_bias)
    if a.head_norms:
        for name in ("q_norm", "k_norm"):
            blueprint.vector(f"{base}.{name}", kind, a.head_dim, layers=layers)


def add_gated(
    blueprint: Blueprint,
    module: str,
    kind: Kind,
    hidden: int,
    inner: int,
    layers: Sequence[int],
    copies: int = 1,
    *,
    bias: bool = False,
) -> None:
    """Gate, up and down projections under `module`."""
    expert = kind is Kind.ROUTED_EXPERTS
    side, end = (Shard.EXPERT, Shard.EXPERT) if expert else (Shard.COLUMN, Shard.ROW)
    for name in ("gate_proj", "up_proj"):
        blueprint.linear(f"{module}.{name}", kind, side, inner, hidden, layers=layers, copies=copies, bias=bias)
    blueprint.linear(f"{module}.down_proj", kind, end, hidden, inner, layers=layers, copies=copies, bias=bias)


def add_routed(
    blueprint: Blueprint,
    hidden: int,
    experts: Experts,
    layers: Sequence[int],
    *,
    shared: int = 0,
    correction: bool = False,
    router_is_linear: bool = False,
    layer: str = LAYER,
) -> None:
    """Router and routed experts of `layers`, with `shared` experts and the router's FP32 correction where asked."""
    gate = f"{layer}.mlp.gate"
    blueprint.linear(
        gate, Kind.ROUTER, Shard.REPLICATED, experts.count, hidden, layers=layers, convertible=router_is_linear
    )
    if correction:
        name = f"{gate}.e_score_correction_bias"
        blueprint.vector(name, Kind.ROUTER, experts.count, layers=layers, storage=FP32)
    module = f"{layer}.mlp.experts.{{expert}}"
    add_gated(blueprint, module, Kind.ROUTED_EXPERTS, hidden, experts.inner, layers, experts.count)
    if shared:
        inner = shared * experts.inner
        add_gated(blueprint, f"{layer}.mlp.shared_experts", Kind.SHARED_EXPERTS, hidden, inner, layers)


def add_layer_norms(blueprint: Blueprint, hidden: int, layers: Sequence[int], layer: str = LAYER) -> None:
    """The two norms of each layer."""
    for name in ("input_layernorm", "post_attention_layernorm"):
        blueprint.vector(f"{layer}.{name}", Kind.NORMS, hidden, layers=layers)


def add_prediction_ends(blueprint: Blueprint, sizes: Sizes, layers: Sequence[int]) -> None:
    """What a layer that predicts a further token has beside a decoder layer: it takes two inputs side by side.

    Most repeat embedding and output head in the files; an engine shares the model's own.
    """
    draft, whole = Kind.DRAFT, Shard.REPLICATED
    for name in ("enorm", "hnorm", "shared_head.norm"):
        blueprint.vector(f"{LAYER}.{name}", draft, sizes.hidden, layers=layers)
    sides = [("eh_proj", sizes.hidden, 2 * sizes.hidden)]
    if blueprint.prediction_ends:
        sides += [(name, sizes.vocabulary, sizes.hidden) for name in ("embed_tokens", "shared_head.head")]
    for name, rows, columns in sides:
        blueprint.linear(f"{LAYER}.{name}", draft, whole, rows, columns, layers=layers, convertible=False)
