"""A draft model for `--draft`: the checkpoint's own layer for further tokens, or a folder with an EAGLE or MTP model."""

import re
from pathlib import Path

from serving.checkpoint.model import CheckpointModel
from serving.checkpoint.safetensors import read_header, shards
from serving.errors import ConfigurationError, Fault
from serving.fit.layout import Draft, own_draft

OWN = "own"
# What tensor parallel divides in vLLM's draft models: attention by heads, inner sizes, vocabularies; the rest is whole.
_DIVIDED = re.compile(
    r"\.?(?:q_proj|k_proj|v_proj|qkv_proj|o_proj|q_b_proj|kv_b_proj|gate_proj|up_proj|gate_up_proj|down_proj|experts\..*"
    r"|embed_tokens|lm_head)\.[a-z_]+$"
)
_LAYER = re.compile(r"(?:^|\.)(?:layers\.(\d+)|(midlayer))\.")


def draft_named(text: str, model: CheckpointModel) -> Draft:
    """The draft that `text` names for `model`: `own`, or the path of a folder with safetensors files.

    Its KV cache is planned as wide as a layer of the model's. Raises ConfigurationError where there is no such draft.
    """
    if text == OWN:
        found = own_draft(model)
        if found is None:
            accepted = f"a folder with a draft model: {model.name} has no layer for further tokens of its own"
            raise ConfigurationError([Fault("--draft", OWN, accepted)], "the command line")
        return found
    folder = Path(text)
    if not folder.is_dir():
        given = f"{text}, which is no folder"
        accepted = "`own` for the checkpoint's own layer, or a folder with the safetensors files of a draft model"
        raise ConfigurationError([Fault("--draft", given, accepted)], "the command line")
    divided = whole = 0
    layers: set[str] = set()
    for file in shards(folder, ()):
        for name, tensor in read_header(file).items():
            if found_layer := _LAYER.search(name):
                layers.add(found_layer[1] or found_layer[2])
            if _DIVIDED.search(name):
                divided += tensor.total_bytes
            else:
                whole += tensor.total_bytes
    return Draft(folder.resolve().name, divided, whole, max(1, len(layers)))
