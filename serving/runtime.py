"""The pinned images and the engine version that the arguments are written for."""

import tomllib
from collections.abc import Mapping
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
    python_image: str
    efa_device_plugin_image: str
    efa_registry_account: str
    efa_registry_accounts: Mapping[str, str]

    def efa_device_plugin(self, region: str) -> str:
        """The image of EFA's device plugin in the registry that AWS keeps in `region`."""
        account = self.efa_registry_accounts.get(region, self.efa_registry_account)
        return self.efa_device_plugin_image.format(account=account, region=region)


@cache
def pinned_runtime() -> Runtime:
    """The runtime that this release deploys."""
    text = (resources.files("serving") / "data" / "runtime.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    efa = document["efa_device_plugin"]
    return Runtime(
        vllm_version=document["vllm"]["version"],
        vllm_image=document["vllm"]["image"],
        vllm_user_id=document["vllm"]["user_id"],
        gateway_image=document["gateway"]["image"],
        gateway_user_id=document["gateway"]["user_id"],
        device_plugin_image=document["device_plugin"]["image"],
        python_image=document["python"]["image"],
        efa_device_plugin_image=f"{efa['repository']}:{efa['tag']}",
        efa_registry_account=efa["account"],
        efa_registry_accounts=efa["account_of_region"],
    )
