"""What several machines of one replica need around them: a security group inside which everything may pass."""

from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components._inputs import Arguments

_EVERYTHING = "-1"


class FabricArgs(TypedDict):
    """Arguments of `Fabric`."""

    vpc_id: pulumi.Input[str]
    """The network of the machines."""
    tags: NotRequired[dict[str, str]]
    """Tags of the security group."""


class Fabric(pulumi.ComponentResource):
    """The security group of Elastic Fabric Adapters: all protocols to and from its own members, and nothing else.

    EFA's traffic is no IP traffic, so rules by address do not let it through; only a reference to the group itself does,
    and it has to stand for both directions (EKS user guide, "Manage EFA devices").
    """

    security_group_id: pulumi.Output[str]
    """The security group, to be put on every network interface of the machines."""

    def __init__(self, name: str, args: FabricArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the security group and its two rules."""
        super().__init__("dormouse:index:Fabric", name, {}, opts)
        given = Arguments("Fabric", args)
        vpc_id = given.required("vpc_id")
        given.check()
        tags = given.tags()
        child = pulumi.ResourceOptions(parent=self)
        group = aws.ec2.SecurityGroup(
            name,
            vpc_id=vpc_id,
            description="Machines of one replica among themselves",
            tags={**tags, "Name": name},
            opts=child,
        )
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-in",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            ip_protocol=_EVERYTHING,
            tags=tags,
            opts=child,
        )
        aws.vpc.SecurityGroupEgressRule(
            f"{name}-out",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            ip_protocol=_EVERYTHING,
            tags=tags,
            opts=child,
        )
        self.security_group_id = group.id
        self.register_outputs({"securityGroupId": self.security_group_id})
