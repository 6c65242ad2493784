"""EKS's machine images and the SSM parameters that name them, in the place of moto's thousand other images."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false
# moto's classes are untyped.
# ruff: noqa: SLF001, since moto offers no other way in

from dataclasses import dataclass
from typing import Any

from moto.ec2.models.amis import Ami, AmiBackend
from moto.ssm.models import Parameter, ParameterDict

from infra.sandbox.cloud.eks.checks import SUPPORTED_VERSIONS
from infra.sandbox.cloud.simulation import current

# The account from which AWS publishes EKS's images in most regions.
_OWNER = "602401143452"
RELEASE = "20261101"
"""The simulated release of EKS's images."""


@dataclass(frozen=True)
class _Variant:
    """One kind of image: `architecture` as EC2 names it, `path` in SSM, `title` in the image's name."""

    image_id: str
    architecture: str
    path: str
    title: str


_VARIANTS: dict[str, _Variant] = {
    "AL2023_x86_64_STANDARD": _Variant(
        "ami-0e5a1023000000001", "x86_64", "amazon-linux-2023/x86_64/standard", "al2023-x86_64-standard"
    ),
    "AL2023_ARM_64_STANDARD": _Variant(
        "ami-0e5a1023000000002", "arm64", "amazon-linux-2023/arm64/standard", "al2023-arm64-standard"
    ),
    "AL2023_x86_64_NVIDIA": _Variant(
        "ami-0e5a1023000000003", "x86_64", "amazon-linux-2023/x86_64/nvidia", "al2023-x86_64-nvidia"
    ),
    "AL2023_ARM_64_NVIDIA": _Variant(
        "ami-0e5a1023000000004", "arm64", "amazon-linux-2023/arm64/nvidia", "al2023-arm64-nvidia"
    ),
    "BOTTLEROCKET_x86_64_NVIDIA": _Variant(
        "ami-0e5a1023000000005", "x86_64", "bottlerocket/x86_64/nvidia", "bottlerocket-x86_64-nvidia"
    ),
}


def image_for(ami_type: str) -> str:
    """The simulated image of a node group's AMI type; the standard one for types that are not simulated."""
    return _VARIANTS.get(ami_type, _VARIANTS["AL2023_x86_64_STANDARD"]).image_id


def install() -> None:
    """Patch moto's images and SSM's public parameters."""

    def _load_amis(self: Any) -> None:
        for variant in _VARIANTS.values():
            self.amis[variant.image_id] = Ami(
                self,
                variant.image_id,
                name=f"amazon-eks-node-{variant.title}-v{RELEASE}",
                description="Simulated image of an EKS node",
                owner_id=_OWNER,
                owner_alias="amazon",
                public=True,
                virtualization_type="hvm",
                architecture=variant.architecture,
                hypervisor="xen",
                root_device_type="ebs",
                root_device_name="/dev/xvda",
            )

    load_others = ParameterDict._check_loading_status

    def _check_loading_status(self: Any, key: str) -> None:
        load_others(self, key)
        if str(key or "").startswith("/aws/service/eks/") and not self.__dict__.get("simulated_images"):
            self.__dict__["simulated_images"] = True
            for version in SUPPORTED_VERSIONS:
                for variant in _VARIANTS.values():
                    _add(self, f"/aws/service/eks/optimized-ami/{version}/{variant.path}/recommended", variant, version)

    images: Any = AmiBackend
    images._load_amis = _load_amis
    parameters: Any = ParameterDict
    parameters._check_loading_status = _check_loading_status


def _add(parameters: Any, path: str, variant: _Variant, version: str) -> None:
    for leaf, value in (("image_id", variant.image_id), ("release_version", f"{version}.0-{RELEASE}")):
        name = f"{path}/{leaf}"
        parameters[name] = [
            Parameter(
                account_id=parameters.account_id,
                name=name,
                value=value,
                parameter_type="String",
                description=None,
                allowed_pattern=None,
                keyid=None,
                last_modified_date=current().now_s(),
                version=1,
                data_type="text",
            )
        ]
