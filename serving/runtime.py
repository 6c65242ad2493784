"""The pinned images and the engine version that the arguments are written for."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Runtime:
    """Images with their tags, the users they run as, and vLLM's version."""

    vllm_version: str
    vllm_image: str
    vllm_user_id: int
    gateway_image: str
    gateway_user_id: int
    device_plugin_image: str


@cache
def pinned_runtime() -> Runtime:
    """The runtime that this release deploys."""
    text = (resources.files("serving") / "data" / "runtime.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    return Runtime(
        vllm_version=document["vllm"]["version"],
        vllm_image=document["vllm"]["image"],
        vllm_user_id=document["vllm"]["user_id"],
        gateway_image=document["gateway"]["image"],
        gateway_user_id=document["gateway"]["user_id"],
        device_plugin_image=document["device_plugin"]["image"],
    )
