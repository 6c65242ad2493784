"""The architectures that are understood, by the name that a config gives them."""

from collections.abc import Callable, Mapping

from serving.checkpoint.config import ConfigReader
from serving.checkpoint.families.family import Described
from serving.checkpoint.families.grouped import (
    describe_glm4_experts,
    describe_llama,
    describe_mistral,
    describe_qwen2,
    describe_qwen3,
    describe_qwen3_experts,
)
from serving.checkpoint.families.latent import describe_latent, describe_sparse_latent
from serving.checkpoint.families.windowed import describe_gpt_oss

TEXT_ARCHITECTURES: Mapping[str, Callable[[ConfigReader], Described]] = {
    "DeepseekV3ForCausalLM": describe_latent,
    "DeepseekV32ForCausalLM": describe_sparse_latent,
    "Glm4MoeForCausalLM": describe_glm4_experts,
    "GptOssForCausalLM": describe_gpt_oss,
    "LlamaForCausalLM": describe_llama,
    "MistralForCausalLM": describe_mistral,
    "Qwen2ForCausalLM": describe_qwen2,
    "Qwen3ForCausalLM": describe_qwen3,
    "Qwen3MoeForCausalLM": describe_qwen3_experts,
}
WITH_VISION = ("KimiK25ForConditionalGeneration",)
"""A text model of the above under `text_config`, and a vision tower under `vision_config`."""

KNOWN_ARCHITECTURES = tuple(sorted((*TEXT_ARCHITECTURES, *WITH_VISION)))
