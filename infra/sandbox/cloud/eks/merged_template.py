"""The launch template that EKS makes for a node group out of the given one and its own settings."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# moto's backends are untyped.

import copy
from typing import Any

from moto.ec2.models import ec2_backends

from infra.sandbox.cloud.eks.checks import Template
from infra.sandbox.cloud.eks.state import Cluster, Description, EksState, NodeGroup
from infra.sandbox.cloud.images import image_for


def create(state: EksState, cluster: Cluster, description: Description, given: Template | None, identifier: str) -> str:
    """Make it and return its id; it is tagged as EKS tags it."""
    backend: Any = ec2_backends[state.account_id][state.region]
    tags = {"eks:cluster-name": cluster.name, "eks:nodegroup-name": description["nodegroupName"]}
    made = backend.create_launch_template(
        f"eks-{identifier}", "", _data(cluster, description, given), {"launch-template": tags}
    )
    return str(made.id)


def add_version(state: EksState, cluster: Cluster, group: NodeGroup, given: Template) -> None:
    """Follow another version of the given template."""
    backend: Any = ec2_backends[state.account_id][state.region]
    merged = backend.launch_templates[group.merged_template_id]
    version = merged.create_version(_data(cluster, group.description, given), "")
    merged.default_version_number = version.number


def delete(state: EksState, group: NodeGroup) -> None:
    """Remove it with its node group."""
    backend: Any = ec2_backends[state.account_id][state.region]
    merged = backend.launch_templates.pop(group.merged_template_id, None)
    if merged is not None:
        backend.launch_template_name_to_ids.pop(merged.name, None)
        backend.launch_template_insert_order.remove(merged.id)


def _data(cluster: Cluster, description: Description, given: Template | None) -> dict[str, Any]:
    data = copy.deepcopy(dict(given.data)) if given else {}
    data.setdefault("ImageId", image_for(description["amiType"]))
    data.setdefault("InstanceType", (description.get("instanceTypes") or ["t3.medium"])[0])
    data.setdefault("MetadataOptions", {"HttpTokens": "required", "HttpPutResponseHopLimit": 2})
    if not data.get("BlockDeviceMappings"):
        disk = {"VolumeSize": description.get("diskSize", 20), "VolumeType": "gp3", "DeleteOnTermination": True}
        data["BlockDeviceMappings"] = [{"DeviceName": "/dev/xvda", "Ebs": disk}]
    interfaces: list[dict[str, Any]] = data.get("NetworkInterfaces") or []
    if not data.get("SecurityGroupIds") and not any(nic.get("Groups") for nic in interfaces):
        data["SecurityGroupIds"] = [cluster.description["resourcesVpcConfig"]["clusterSecurityGroupId"]]
    return data
