"""MoonViT, the vision tower of Kimi K2.5, with the projector that leads into the text model. Never quantised."""

from dataclasses import dataclass

from serving.checkpoint.config import ConfigReader
from serving.checkpoint.families.blueprint import Blueprint
from serving.checkpoint.weights import Kind, Shard

_COLOURS = 3
_BLOCK = "vision_tower.encoder.blocks.{layer}"


@dataclass(frozen=True)
class Vision:
    """Sizes of the tower: `merged` patches of `hidden` each go into the projector and come out as `text_hidden`."""

    hidden: int
    inner: int
    blocks: int
    patch: int
    positions: int
    merged: int
    text_hidden: int


def read_vision(reader: ConfigReader, text_hidden: int) -> Vision:
    """The tower out of a `vision_config`; faults go to the reader."""
    side = 10_000_000
    hidden = reader.integer("vt_hidden_size", maximum=side)
    heads = reader.integer("vt_num_attention_heads", maximum=side)
    reader.require(hidden % heads == 0, "vt_num_attention_heads", f"a divisor of vt_hidden_size, which is {hidden}")
    given = reader.integer("text_hidden_size", default=text_hidden, maximum=side)
    reader.require(given == text_hidden, "text_hidden_size", f"the text model's hidden_size, which is {text_hidden}")
    merge = reader.integers("merge_kernel_size") or (2, 2)
    reader.require(len(merge) == 2 and all(merge), "merge_kernel_size", "two sizes such as [2, 2]")
    height = reader.integer("init_pos_emb_height", default=64, maximum=100_000)
    return Vision(
        hidden=hidden,
        inner=reader.integer("vt_intermediate_size", maximum=side),
        blocks=reader.integer("vt_num_hidden_layers", maximum=1_000),
        patch=reader.integer("patch_size", default=14, maximum=10_000),
        positions=height * reader.integer("init_pos_emb_width", default=64, maximum=100_000),
        merged=merge[0] * merge[-1] * hidden,
        text_hidden=text_hidden,
    )


def add_vision(blueprint: Blueprint, vision: Vision) -> None:
    """All of the tower's tensors and the projector's."""
    kind, whole, h = Kind.VISION, Shard.REPLICATED, vision.hidden
    blocks = range(vision.blocks)

    def plain(module: str, rows: int, columns: int, shard: Shard = whole, layers: range = range(0)) -> None:
        blueprint.linear(module, kind, shard, rows, columns, layers=layers, bias=True, convertible=False)

    def norm(module: str, layers: range = range(0)) -> None:
        for name in (module, f"{module}.bias"):
            blueprint.vector(name, kind, h, layers=layers)

    plain(f"{_BLOCK}.wqkv", 3 * h, h, Shard.COLUMN, blocks)
    plain(f"{_BLOCK}.wo", h, h, Shard.ROW, blocks)
    plain(f"{_BLOCK}.mlp.fc0", vision.inner, h, Shard.COLUMN, blocks)
    plain(f"{_BLOCK}.mlp.fc1", h, vision.inner, Shard.ROW, blocks)
    for name in ("norm0", "norm1"):
        norm(f"{_BLOCK}.{name}", blocks)
    norm("vision_tower.encoder.final_layernorm")
    blueprint.linear("vision_tower.patch_embed.pos_emb", kind, whole, vision.positions, h, convertible=False)
    plain("vision_tower.patch_embed.proj", h, _COLOURS * vision.patch * vision.patch)
    norm("mm_projector.pre_norm")
    plain("mm_projector.proj.0", vision.merged, vision.merged)
    plain("mm_projector.proj.2", vision.text_hidden, vision.merged)
