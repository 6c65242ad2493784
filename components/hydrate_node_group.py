"""One small machine per zone that downloads weights, asleep at 0 but for the hour that it takes."""

from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components._inputs import Arguments
from serving.hydrate_machine import hydrate_machine
from serving.manifests.hydrate import HYDRATE_TAINT_KEY, HYDRATE_TAINT_VALUE
from serving.manifests.labels import POOL_LABEL


class HydrateNodeGroupArgs(TypedDict):
    """Arguments of `HydrateNodeGroup`."""

    cluster_name: pulumi.Input[str]
    """The EKS cluster."""
    kubernetes_version: str
    """The nodes' Kubernetes minor, the same as the cluster's."""
    node_role_arn: pulumi.Input[str]
    """The nodes' IAM role."""
    subnet_id: pulumi.Input[str]
    """A private subnet in the weight volume's zone."""
    pool: str
    """Node label that the hydrator's pods select."""
    instance_type: NotRequired[str]
    """An arm64 EC2 type. Default: the one of `serving/data/hydrate.toml`."""
    tags: NotRequired[dict[str, str]]
    """Tags of the launch template and the node group."""
    instance_tags: NotRequired[dict[str, str]]
    """Tags of machines and their disks."""


class HydrateNodeGroup(pulumi.ComponentResource):
    """An on-demand node group of one arm64 machine at desired 0, with a taint that only the hydrator tolerates."""

    node_group_name: pulumi.Output[str]
    """The node group's name."""

    def __init__(self, name: str, args: HydrateNodeGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the launch template and the node group."""
        super().__init__("dormouse:index:HydrateNodeGroup", name, {}, opts)
        given = Arguments("HydrateNodeGroup", args)
        cluster_name = given.required("cluster_name")
        version = given.text("kubernetes_version")
        node_role_arn = given.required("node_role_arn")
        subnet_id = given.required("subnet_id")
        pool = given.text("pool")
        instance_type = given.text("instance_type", hydrate_machine().instance_type)
        given.check()
        tags = given.tags()
        template = aws.ec2.LaunchTemplate(
            name,
            update_default_version=True,
            # Pods have no business with the machine's credentials: one hop ends at the node.
            metadata_options={"http_endpoint": "enabled", "http_tokens": "required", "http_put_response_hop_limit": 1},
            block_device_mappings=[
                {
                    "device_name": "/dev/xvda",
                    "ebs": {
                        "volume_size": hydrate_machine().disk_gib,
                        "volume_type": "gp3",
                        "encrypted": "true",
                        "delete_on_termination": "true",
                    },
                }
            ],
            tag_specifications=[
                {"resource_type": kind, "tags": {**given.tags("instance_tags"), "Name": name}}
                for kind in ("instance", "volume")
            ],
            tags=tags,
            opts=pulumi.ResourceOptions(parent=self),
        )
        group = aws.eks.NodeGroup(
            name,
            cluster_name=cluster_name,
            node_role_arn=node_role_arn,
            subnet_ids=[subnet_id],
            ami_type="AL2023_ARM_64_STANDARD",
            version=version,
            capacity_type="ON_DEMAND",
            instance_types=[instance_type],
            scaling_config={"desired_size": 0, "min_size": 0, "max_size": 1},
            update_config={"max_unavailable": 1},
            launch_template={"id": template.id, "version": template.latest_version.apply(lambda v: str(int(v)))},
            labels={POOL_LABEL: pool},
            taints=[{"key": HYDRATE_TAINT_KEY, "value": HYDRATE_TAINT_VALUE, "effect": "NO_SCHEDULE"}],
            tags=tags,
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["scalingConfig.desiredSize"]),
        )
        self.node_group_name = group.node_group_name
        self.register_outputs({"nodeGroupName": self.node_group_name})
