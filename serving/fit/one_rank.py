"""The model that one GPU of a layout holds, as a config of its own: what a single GPU can show of many.

Heads, vocabulary and inner sizes are divided; what every GPU holds whole stays whole. So the weights and the KV cache of
the small model are those of one GPU of the large layout.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from serving.checkpoint.loader import model_from_config
from serving.checkpoint.model import CheckpointModel
from serving.errors import ConfigurationError, Fault
from serving.fit.layout import Layout

_EXPERT_COUNTS = ("n_routed_experts", "num_experts", "num_local_experts")
_GROUPED = ("n_group", "topk_group")
_RANDOM = "what the weights answer: they are random"


@dataclass(frozen=True)
class RankModel:
    """One of `parts` alike: its config and checkpoint, and in words what it cannot show of the whole layout."""

    parts: int
    config: Mapping[str, Any]
    checkpoint: CheckpointModel
    cannot_show: tuple[str, ...]


def text_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The text model's own config out of one that may have a vision tower around it."""
    text = dict(config.get("text_config", config))
    if "quantization_config" in config:
        text.setdefault("quantization_config", config["quantization_config"])
    return text


def rank_model(name: str, config: Mapping[str, Any], layout: Layout, gpus: int = 1) -> RankModel:
    """What `gpus` GPUs of `layout` hold of the model with `config`, as a model that is laid out over those alone.

    - `layout`: tensor parallel, or data parallel with whole experts; without stages. `gpus` divides its GPUs.

    Raises ConfigurationError naming every size that does not divide and every kind of layout that has no such model.
    """
    text = text_config(config)
    heads_over, experts_over = layout.tensor_parallel // gpus, layout.gpus // gpus
    faults = _layout_faults(layout, gpus)
    shown: dict[str, Any] = dict(text)
    if not faults:
        faults = _divide(shown, text, layout, heads_over, experts_over)
    if faults:
        raise ConfigurationError(faults, f"the one-rank model of {name} as {layout}")
    checkpoint = model_from_config(name, shown, source=f"one of {experts_over} ranks of {name} as {layout}")
    return RankModel(experts_over, shown, checkpoint, tuple(_cannot_show(config, layout, gpus)))


def whole_model(name: str, config: Mapping[str, Any]) -> RankModel:
    """The whole text model, for a machine that has all the GPUs of a layout."""
    text = text_config(config)
    if text.get("num_nextn_predict_layers"):
        text["num_nextn_predict_layers"] = 0
    checkpoint = model_from_config(name, text, source=f"the text model of {name}")
    words = ["the vision tower, which is left out"] if "vision_config" in config else []
    return RankModel(1, text, checkpoint, (*words, _RANDOM))


def _layout_faults(layout: Layout, gpus: int) -> list[Fault]:
    faults: list[Fault] = []
    if layout.pipeline_parallel > 1:
        faults.append(
            Fault("--layout", str(layout), "a layout without pipeline stages; a stage has no model of its own")
        )
    if layout.data_parallel > 1 and not (layout.expert_parallel and layout.tensor_parallel == 1):
        faults.append(
            Fault("--layout", str(layout), "data parallel with whole experts and tensor parallel 1, such as DP8+EP")
        )
    if gpus > 1 and layout.data_parallel > 1:
        faults.append(Fault("--layout", str(layout), "tensor parallel where more than one GPU takes part"))
    if layout.gpus % gpus:
        faults.append(Fault("GPUs", str(gpus), f"a number that divides the {layout.gpus} GPUs of {layout}"))
    return faults


def _divide(
    shown: dict[str, Any], text: Mapping[str, Any], layout: Layout, heads_over: int, experts_over: int
) -> list[Fault]:
    """Divide the sizes in `shown`; the faults of those that do not."""
    faults: list[Fault] = []

    def divide(key: str, parts: int, least: int = 0) -> None:
        value = text.get(key)
        if not isinstance(value, int) or parts == 1:
            return
        if least and value < parts:
            shown[key] = least
        elif value % parts:
            faults.append(Fault(key, str(value), f"a multiple of {parts}"))
        else:
            shown[key] = value // parts

    latent = "kv_lora_rank" in text
    if not latent and "head_dim" not in text:
        shown["head_dim"] = text["hidden_size"] // text["num_attention_heads"]
    divide("num_attention_heads", heads_over)
    divide("num_key_value_heads", heads_over, least=1)
    shown["vocab_size"] = math.ceil(text["vocab_size"] / heads_over)
    divide("intermediate_size", heads_over)
    if layout.expert_parallel:
        for key in _EXPERT_COUNTS:
            divide(key, experts_over)
            if key in shown and shown[key] < text.get("num_experts_per_tok", 1):
                shown["num_experts_per_tok"] = shown[key]
        # Groups of experts lie across ranks.
        shown.update({key: 1 for key in _GROUPED if key in text})
    else:
        divide("moe_intermediate_size", experts_over)
    # Layers for further tokens are not served without a draft.
    if text.get("num_nextn_predict_layers"):
        shown["num_nextn_predict_layers"] = 0
    return faults


def _cannot_show(config: Mapping[str, Any], layout: Layout, gpus: int) -> list[str]:
    words: list[str] = []
    if gpus < layout.gpus:
        words.append("communication: its buffers, its time, and graphs that hold it")
        words.append("sampling over the whole vocabulary, which the ranks gather")
    if layout.expert_parallel and layout.gpus > gpus:
        words.append("the exchange of tokens between experts, and experts that get more tokens than others")
        words.append("the router's rows for experts on other GPUs")
        if config.get("n_shared_experts", text_config(config).get("n_shared_experts")) and layout.tensor_parallel > 1:
            words.append("shared experts, which are divided there and whole here")
    if "vision_config" in config:
        words.append("the vision tower, which is left out")
    words.append(_RANDOM)
    return words
