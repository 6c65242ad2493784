"""Pulumi's AWS resource types, made through boto3 in a simulated account.

One table serves both the sandbox, which runs a program in process, and the provider plugin, which Pulumi's real
engine drives. It covers what Dormouse uses and refuses everything else by name.
"""

from infra.sandbox.aws_resources import (
    alarms,
    budgets,
    ecr,
    eks_access,
    eks_cluster,
    eks_node_group,
    event_rules,
    gateways,
    iam,
    kms,
    launch_template,
    network,
    placement_group,
    routes,
    s3,
    schedules,
    secrets_manager,
    security_groups,
    sns,
    volume,
)
from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.errors import AwsResourceError, HalfCreatedError
from infra.sandbox.aws_resources.functions import FUNCTIONS, call_function
from infra.sandbox.aws_resources.outcomes import Checked, Difference
from infra.sandbox.aws_resources.properties import Properties
from infra.sandbox.aws_resources.resource import ResourceType

__all__ = [
    "FUNCTIONS",
    "RESOURCES",
    "AwsClients",
    "AwsResourceError",
    "Checked",
    "Difference",
    "HalfCreatedError",
    "Properties",
    "ResourceType",
    "call_function",
    "resource_type",
]

_TYPES: tuple[type[ResourceType], ...] = (
    network.Vpc,
    network.Subnet,
    gateways.InternetGateway,
    gateways.Eip,
    gateways.NatGateway,
    network.VpcEndpoint,
    routes.RouteTable,
    routes.Route,
    routes.RouteTableAssociation,
    security_groups.SecurityGroup,
    security_groups.DefaultSecurityGroup,
    security_groups.SecurityGroupIngressRule,
    security_groups.SecurityGroupEgressRule,
    launch_template.LaunchTemplate,
    placement_group.PlacementGroup,
    volume.Volume,
    iam.Role,
    iam.RolePolicy,
    iam.RolePolicyAttachment,
    iam.Policy,
    kms.Key,
    kms.Alias,
    eks_cluster.Cluster,
    eks_node_group.NodeGroup,
    eks_access.Addon,
    eks_access.PodIdentityAssociation,
    eks_access.AccessEntry,
    eks_access.AccessPolicyAssociation,
    alarms.LogGroup,
    alarms.MetricAlarm,
    sns.Topic,
    sns.TopicPolicy,
    sns.TopicSubscription,
    budgets.Budget,
    schedules.Schedule,
    event_rules.EventRule,
    event_rules.EventTarget,
    secrets_manager.Secret,
    secrets_manager.SecretVersion,
    ecr.PullThroughCacheRule,
    s3.Bucket,
    s3.BucketPublicAccessBlock,
    s3.BucketEncryption,
    s3.BucketLifecycle,
    s3.BucketPolicy,
)

RESOURCES: dict[str, ResourceType] = {kind.token: kind() for kind in _TYPES}
"""Every covered resource type by its Pulumi token."""


def resource_type(token: str) -> ResourceType:
    """The entry of the table for a Pulumi type token such as `aws:ec2/vpc:Vpc`.

    Raises AwsResourceError listing what is covered.
    """
    found = RESOURCES.get(token)
    if found is None:
        raise AwsResourceError(
            f"the simulated AWS provider has no resource type {token}; covered: {', '.join(sorted(RESOURCES))}"
        )
    return found
