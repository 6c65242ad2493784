"""What a model is: one TOML file each under `serving/models/`, read whole and checked whole."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any, TypeVar, cast

from serving.errors import UnknownFactError


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


@dataclass(frozen=True)
class ModelProfile:
    """One model: where it comes from, what it weighs, how vLLM is to serve it.

    - `published_weights_bytes`: the checkpoint's published total, in bytes.
    - `vision_parameters`: BF16 parameters of the vision tower, 0 for a text model.
    - `vision_mode`: vLLM's `--mm-encoder-tp-mode`: `data` (a copy on every GPU) or `weights`.
    """

    name: str
    title: str
    repository: str
    revision: str
    source: str
    published_weights_bytes: int
    architecture: Architecture
    expert_weights: ExpertWeights
    vision_parameters: int
    served_name: str
    tool_call_parser: str
    reasoning_parser: str
    trust_remote_code: bool
    vision_mode: str


def known_models() -> tuple[str, ...]:
    """The names of every model in the data folder, sorted."""
    folder = resources.files("serving") / "models"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


@cache
def load_model(name: str) -> ModelProfile:
    """The profile called `name`.

    Raises UnknownFactError listing the known models where there is none of that name.
    """
    known = known_models()
    if name not in known:
        raise UnknownFactError(f"model `{name}` is not known; known: {', '.join(known)}")
    text = (resources.files("serving") / "models" / f"{name}.toml").read_text(encoding="utf-8")
    return parse_model(tomllib.loads(text))


def parse_model(document: Mapping[str, Any]) -> ModelProfile:
    """A profile out of a parsed TOML document; raises UnknownFactError on the family or a missing or unknown key."""
    name = str(document.get("name", "?"))
    family = document.get("family")
    if family != "mla-moe":
        raise UnknownFactError(f"model `{name}`: family `{family}` is not known; known: mla-moe")
    serving = cast("Mapping[str, Any]", document.get("serving", {}))
    published = cast("Mapping[str, Any]", document.get("published", {}))
    vision = cast("Mapping[str, Any]", document.get("vision", {}))
    try:
        return ModelProfile(
            name=name,
            title=document["title"],
            repository=document["repository"],
            revision=document["revision"],
            source=document["source"],
            published_weights_bytes=published["weights_bytes"],
            architecture=_exactly(Architecture, document["architecture"], f"model `{name}`, architecture"),
            expert_weights=_exactly(ExpertWeights, document["expert_weights"], f"model `{name}`, expert_weights"),
            vision_parameters=vision.get("parameters", 0),
            served_name=serving["served_name"],
            tool_call_parser=serving["tool_call_parser"],
            reasoning_parser=serving["reasoning_parser"],
            trust_remote_code=serving["trust_remote_code"],
            vision_mode=serving["vision_mode"],
        )
    except KeyError as missing:
        raise UnknownFactError(f"model `{name}`: its file lacks the key {missing}") from missing


_Section = TypeVar("_Section", Architecture, ExpertWeights)


def _exactly(cls: type[_Section], values: Mapping[str, Any], where: str) -> _Section:
    wanted = {field.name for field in fields(cls)}
    if missing := wanted - values.keys():
        raise UnknownFactError(f"{where}: lacks {', '.join(sorted(missing))}")
    if unknown := values.keys() - wanted:
        raise UnknownFactError(f"{where}: has unknown keys {', '.join(sorted(unknown))}")
    return cls(**values)
