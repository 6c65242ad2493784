"""One managed node group of GPU machines for one purchase mode in one zone, asleep from birth."""

import base64
import email.mime.multipart
import email.mime.text
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components._inputs import Arguments
from serving.manifests.labels import (
    ACCELERATOR_LABEL,
    GPU_TAINT_KEY,
    GPU_TAINT_VALUE,
    POOL_LABEL,
    PURCHASE_LABEL,
    REPLICA_LABEL,
    SLOT_LABEL,
)


class Purchase(StrEnum):
    """How the machines are bought."""

    ON_DEMAND = "on-demand"
    """By the second at list price, where there is capacity."""
    SPOT = "spot"
    """By the second at the spot price; AWS may take the machine back with two minutes' notice."""
    CAPACITY_BLOCK = "capacity-block"
    """Prepaid for fixed dates; the block's reservation id is given, never bought here."""


_CAPACITY_TYPES = {
    Purchase.ON_DEMAND: "ON_DEMAND",
    Purchase.SPOT: "SPOT",
    Purchase.CAPACITY_BLOCK: "CAPACITY_BLOCK",
}
_NODE_CONFIG = """\
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0
"""
# nodeadm's own gate: the AMI's SOCI snapshotter fetches and unpacks layers side by side. No other image setting is made.
_PARALLEL_PULL = """\
  featureGates:
    FastImagePull: true
"""


class GpuNodeGroupArgs(TypedDict):
    """Arguments of `GpuNodeGroup`."""

    cluster_name: pulumi.Input[str]
    """The EKS cluster."""
    kubernetes_version: str
    """The nodes' Kubernetes minor, the same as the cluster's."""
    node_role_arn: pulumi.Input[str]
    """The nodes' IAM role."""
    subnet_id: pulumi.Input[str]
    """A private subnet in the zone of the capacity and of the weight volume."""
    purchase: Purchase
    """How the machines are bought."""
    instance_type: str
    """EC2 type, such as `p5en.48xlarge`."""
    accelerator: str
    """GPU type for the autoscaler's label, such as `nvidia-h200`."""
    slot: str
    """The capacity candidate's name: a node label that tells the groups apart."""
    pool: str
    """Node label that the model server's pods select."""
    reservation_id: NotRequired[str]
    """The Capacity Block's reservation, `cr-…`; required for capacity-block and refused otherwise."""
    max_nodes: NotRequired[int]
    """Most machines at once; what one replica takes. Default: 1."""
    replica: NotRequired[int]
    """Node label of the replica that the machines are kept for. Default: none, so any replica takes them."""
    efa_cards: NotRequired[int]
    """Network cards that get an Elastic Fabric Adapter each. Default: 0, since one machine alone needs none."""
    security_group_ids: NotRequired[pulumi.Input[list[str]]]
    """Security groups of every network interface, the cluster's own among them; required with `efa_cards`."""
    root_volume_gib: NotRequired[int]
    """GiB of the root disk; images and pods lie on the NVMe array. Default: 100."""
    parallel_image_pull: NotRequired[bool]
    """Pull and unpack the layers of an image in parallel; experimental in nodeadm. Default: false."""
    tags: NotRequired[dict[str, str]]
    """Tags of the launch template and the node group."""
    instance_tags: NotRequired[dict[str, str]]
    """Tags of machines and their disks. A change replaces running machines, so only what stays the same belongs here."""


class GpuNodeGroup(pulumi.ComponentResource):
    """A launch template and a node group at desired 0; whoever wakes it owns the desired size, Pulumi never resets it."""

    node_group_name: pulumi.Output[str]
    """The node group's name."""
    node_group_arn: pulumi.Output[str]
    """The node group's ARN."""
    launch_template_id: pulumi.Output[str]
    """The launch template's id."""

    def __init__(self, name: str, args: GpuNodeGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the node group."""
        super().__init__("dormouse:index:GpuNodeGroup", name, {}, opts)
        given = Arguments("GpuNodeGroup", args)
        cluster_name = given.required("cluster_name")
        version = given.text("kubernetes_version")
        node_role_arn = given.required("node_role_arn")
        subnet_id = given.required("subnet_id")
        purchase = Purchase(given.one_of("purchase", tuple(p.value for p in Purchase)))
        instance_type = given.text("instance_type")
        accelerator = given.text("accelerator")
        slot = given.text("slot")
        pool = given.text("pool")
        reservation_id = given.optional_text("reservation_id")
        max_nodes = given.whole_number("max_nodes", 1, 1, 100)
        replica = given.whole_number("replica", 0, 0, 63) if args.get("replica") is not None else None
        efa_cards = given.whole_number("efa_cards", 0, 0, 64)
        group_ids = given.required("security_group_ids") if efa_cards else None
        root_volume_gib = given.whole_number("root_volume_gib", 100, 50, 16384)
        if (reservation_id is not None) != (purchase is Purchase.CAPACITY_BLOCK):
            given.fault(
                "reservation_id",
                f"got {reservation_id or 'nothing'} with purchase {purchase.value}; accepted: a reservation id with"
                " capacity-block, and none with the others",
            )
        given.check()
        tags = given.tags()
        instance_tags = given.tags("instance_tags")

        interfaces = _interfaces(efa_cards, group_ids)
        together: dict[str, Any] = {} if interfaces is None else {"network_interfaces": interfaces}
        if max_nodes > 1 and purchase is Purchase.ON_DEMAND:
            # Machines of one replica stand close together; those of a Capacity Block do so anyway.
            near = aws.ec2.PlacementGroup(name, strategy="cluster", tags=tags, opts=pulumi.ResourceOptions(parent=self))
            together["placement"] = {"group_name": near.name}
        template = aws.ec2.LaunchTemplate(
            name,
            update_default_version=True,
            **together,
            **_capacity(purchase, instance_type, reservation_id),
            # Pods have no business with the machine's credentials: one hop ends at the node.
            metadata_options={"http_endpoint": "enabled", "http_tokens": "required", "http_put_response_hop_limit": 1},
            block_device_mappings=[
                {
                    "device_name": "/dev/xvda",
                    "ebs": {
                        "volume_size": root_volume_gib,
                        "volume_type": "gp3",
                        "encrypted": "true",
                        "delete_on_termination": "true",
                    },
                }
            ],
            user_data=_user_data(parallel_pull=given.given("parallel_image_pull") is True),
            tag_specifications=[
                {"resource_type": kind, "tags": {**instance_tags, "Name": name, SLOT_LABEL: slot}}
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
            ami_type="AL2023_x86_64_NVIDIA",
            version=version,
            capacity_type=_CAPACITY_TYPES[purchase],
            # With a Capacity Block the template names the type, and EKS refuses to be told twice.
            instance_types=None if purchase is Purchase.CAPACITY_BLOCK else [instance_type],
            scaling_config={"desired_size": 0, "min_size": 0, "max_size": max_nodes},
            # MINIMAL replaces nodes in place: a surge node of this kind cannot be had.
            update_config={"max_unavailable": 1, "update_strategy": "MINIMAL"},
            node_repair_config={"enabled": True},
            launch_template={"id": template.id, "version": template.latest_version.apply(lambda v: str(int(v)))},
            labels={
                POOL_LABEL: pool,
                SLOT_LABEL: slot,
                PURCHASE_LABEL: purchase.value,
                ACCELERATOR_LABEL: accelerator,
                **({} if replica is None else {REPLICA_LABEL: str(replica)}),
            },
            taints=[{"key": GPU_TAINT_KEY, "value": GPU_TAINT_VALUE, "effect": "NO_SCHEDULE"}],
            tags=tags,
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["scalingConfig.desiredSize"]),
        )

        self.node_group_name = group.node_group_name
        self.node_group_arn = group.arn
        self.launch_template_id = template.id
        self.register_outputs(
            {
                "nodeGroupName": self.node_group_name,
                "nodeGroupArn": self.node_group_arn,
                "launchTemplateId": self.launch_template_id,
            }
        )


def _capacity(purchase: Purchase, instance_type: str, reservation_id: str | None) -> dict[str, Any]:
    """The part of a launch template that says where the capacity comes from; only a Capacity Block says anything.

    EKS refuses a template with a spot market option: for spot the node group's capacity type says it.
    """
    if purchase is not Purchase.CAPACITY_BLOCK:
        return {}
    return {
        "instance_type": instance_type,
        "instance_market_options": {"market_type": "capacity-block"},
        "capacity_reservation_specification": {
            "capacity_reservation_target": {"capacity_reservation_id": reservation_id}
        },
    }


def _interfaces(efa_cards: int, group_ids: pulumi.Input[list[str]] | None) -> list[dict[str, Any]] | None:
    """One interface with an address, and an adapter without one on every card; None leaves it all to EKS.

    The layout is EC2's own advice for machines with several network cards. Managed node groups refuse a subnet here.
    """
    if not efa_cards:
        return None
    shared = {"security_groups": group_ids, "delete_on_termination": "true"}
    adapters = [
        {"network_card_index": card, "device_index": 0 if card else 1, "interface_type": "efa-only", **shared}
        for card in range(efa_cards)
    ]
    return [{"network_card_index": 0, "device_index": 0, "interface_type": "interface", **shared}, *adapters]


def _user_data(*, parallel_pull: bool) -> str:
    """NodeConfig as the MIME part that EKS merges with its own: instance-store disks become one RAID0 array."""
    message = email.mime.multipart.MIMEMultipart(boundary="dormouse-node-config")
    part = email.mime.text.MIMEText(_NODE_CONFIG + (_PARALLEL_PULL if parallel_pull else ""))
    part.replace_header("Content-Type", "application/node.eks.aws")
    del part["Content-Transfer-Encoding"]
    message.attach(part)
    return base64.b64encode(message.as_bytes()).decode()
