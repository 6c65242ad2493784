"""The two halves of the engine tier together: EKS leads to the real API server, and instances become its nodes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client import ApiClient, CoreV1Api

from infra.jobs.eks_token import eks_token
from infra.jobs.kubernetes_api import AccessDenied, KubernetesApi

from .cloud_process import CloudProcess
from .conftest import MakeStack
from .control_plane import ControlPlane
from .node_bridge import NodeBridge
from .test_pulumi_on_kubernetes import PROGRAM
from .waiting import wait_until

CLUSTER = "engine-check"
NODE_GROUP = "on-demand-use2-az1"
REGION = "us-east-2"


def _role(iam: Any, name: str, service: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    return str(iam.create_role(RoleName=name, AssumeRolePolicyDocument=policy)["Role"]["Arn"])


def _status(eks: Any) -> str:
    try:
        return str(eks.describe_cluster(name=CLUSTER)["cluster"]["status"])
    except eks.exceptions.ResourceNotFoundException:
        return "absent"


def _scale(eks: Any, desired: int) -> None:
    scaling = {"minSize": 0, "maxSize": 1, "desiredSize": desired}
    eks.update_nodegroup_config(clusterName=CLUSTER, nodegroupName=NODE_GROUP, scalingConfig=scaling)


@pytest.fixture(scope="module")
def cluster(cloud: CloudProcess, control_plane: ControlPlane) -> Iterator[dict[str, Any]]:
    """An EKS cluster with one GPU node group at 0, as DescribeCluster tells it."""
    ec2, eks, iam = cloud.client("ec2"), cloud.client("eks"), cloud.client("iam")
    vpc = ec2.create_vpc(CidrBlock="10.60.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.60.{number}.0/24", AvailabilityZone=f"{REGION}{zone}")["Subnet"][
            "SubnetId"
        ]
        for number, zone in enumerate("ab")
    ]
    eks.create_cluster(
        name=CLUSTER,
        roleArn=_role(iam, "engine-check-cluster", "eks.amazonaws.com"),
        resourcesVpcConfig={"subnetIds": subnets},
        accessConfig={"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True},
    )
    wait_until(lambda: _status(eks) == "ACTIVE", "the cluster is active")
    eks.create_nodegroup(
        clusterName=CLUSTER,
        nodegroupName=NODE_GROUP,
        subnets=subnets[:1],
        nodeRole=_role(iam, "engine-check-node", "ec2.amazonaws.com"),
        instanceTypes=["p5en.48xlarge"],
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
        labels={"dormouse.dev/pool": "gpu"},
        taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
    )
    waiter = eks.get_waiter("nodegroup_active")
    waiter.wait(clusterName=CLUSTER, nodegroupName=NODE_GROUP, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    yield eks.describe_cluster(name=CLUSTER)["cluster"]
    eks.delete_nodegroup(clusterName=CLUSTER, nodegroupName=NODE_GROUP)
    waiter = eks.get_waiter("nodegroup_deleted")
    waiter.wait(clusterName=CLUSTER, nodegroupName=NODE_GROUP, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    eks.delete_cluster(name=CLUSTER)
    wait_until(lambda: _status(eks) == "absent", "the cluster is gone")


def test_the_token_of_the_clusters_creator_opens_the_real_api_server(
    cluster: dict[str, Any], cloud: CloudProcess, control_plane: ControlPlane
) -> None:
    assert cluster["endpoint"] == control_plane.url
    authority = cluster["certificateAuthority"]["data"]
    api = KubernetesApi(cluster["endpoint"], authority, lambda: eks_token(cloud.client("sts"), CLUSTER, REGION))
    assert "default" in {item["metadata"]["name"] for item in api.list("/api/v1/namespaces")}


def test_a_token_for_another_cluster_or_no_token_is_refused(cluster: dict[str, Any], cloud: CloudProcess) -> None:
    authority = cluster["certificateAuthority"]["data"]
    for token in (eks_token(cloud.client("sts"), "another", REGION), "k8s-aws-v1.bm90aGluZw", "made-up"):
        api = KubernetesApi(cluster["endpoint"], authority, lambda token=token: token)
        with pytest.raises(AccessDenied) as refused:
            api.list("/api/v1/namespaces")
        assert refused.value.status == 401


def test_a_node_group_that_grows_becomes_a_node_and_goes_with_it(
    cluster: dict[str, Any], cloud: CloudProcess, node_bridge: NodeBridge, kubernetes_client: ApiClient
) -> None:
    core = CoreV1Api(kubernetes_client)

    def nodes() -> list[Any]:
        found: Any = core.list_node(label_selector="dormouse.dev/pool=gpu")
        return list(found.items)

    def ready() -> bool:
        # The node life cycle controller takes its own taint away a moment after the node is ready.
        return any(
            [taint.key for taint in node.spec.taints] == ["nvidia.com/gpu"]
            and "True" in [one.status for one in node.status.conditions or [] if one.type == "Ready"]
            for node in nodes()
        )

    assert nodes() == []
    _scale(cloud.client("eks"), 1)
    wait_until(ready, "the node is ready")
    [node] = nodes()
    [instance] = [
        instance
        for reservation in cloud.client("ec2").describe_instances()["Reservations"]
        for instance in reservation["Instances"]
        if instance["State"]["Name"] == "running"
    ]
    assert node.metadata.name == instance["PrivateDnsName"]
    assert node.spec.provider_id == f"aws:///us-east-2a/{instance['InstanceId']}"
    assert node.metadata.labels["topology.k8s.aws/zone-id"] == "use2-az1"
    assert node.metadata.labels["eks.amazonaws.com/capacityType"] == "ON_DEMAND"
    assert node.status.allocatable["nvidia.com/gpu"] == "8"
    assert [(taint.key, taint.effect) for taint in node.spec.taints] == [("nvidia.com/gpu", "NoSchedule")]

    _scale(cloud.client("eks"), 0)
    wait_until(lambda: nodes() == [], "the node is gone")


def test_pulumi_signs_in_through_the_aws_command_of_a_kubeconfig(
    cluster: dict[str, Any], make_stack: MakeStack
) -> None:
    arguments = ["eks", "get-token", "--cluster-name", CLUSTER, "--region", REGION, "--output", "json"]
    execute = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws", "args": arguments}
    server = {"server": cluster["endpoint"], "certificate-authority-data": cluster["certificateAuthority"]["data"]}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "eks", "cluster": server}],
        "users": [{"name": "eks", "user": {"exec": execute}}],
        "contexts": [{"name": "eks", "context": {"cluster": "eks", "user": "eks"}}],
        "current-context": "eks",
    }
    stack = make_stack(PROGRAM, environment={"ENGINE_CHECK_KUBECONFIG": json.dumps(kubeconfig)})
    # No node has GPUs now, so the Deployment stays without its pod; everything else is made.
    stack.set_config("engine-check:replicas", "0")
    made = stack.up()
    assert made.creates == 6
    assert stack.destroy().deletes == 6
