"""The repository's own program as a dev stack on Pulumi's engine, with what tests of it look at."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient, AppsV1Api, CoreV1Api

from .cloud_process import CloudProcess
from .pulumi_cli import REPOSITORY, PulumiStack
from .pulumi_events import Run
from .waiting import wait_until

NAMESPACE = "dormouse-dev"
CLUSTER = "dormouse-dev"


@dataclass
class World:
    """The stack and both of its clouds."""

    stack: PulumiStack
    cloud: CloudProcess
    before: dict[str, set[str]]
    core: CoreV1Api
    apps: AppsV1Api

    def group(self, slot: str) -> dict[str, Any]:
        """The node group of a slot, as EKS describes it."""
        return self.cloud.client("eks").describe_nodegroup(clusterName=CLUSTER, nodegroupName=self.group_name(slot))[
            "nodegroup"
        ]

    def group_name(self, slot: str) -> str:
        return next(made["nodeGroupName"] for made in self.stack.outputs()["slots"] if made["name"] == slot)

    def set_desired(self, slot: str, count: int) -> None:
        """What a brain does."""
        eks = self.cloud.client("eks")
        eks.update_nodegroup_config(
            clusterName=CLUSTER, nodegroupName=self.group_name(slot), scalingConfig={"desiredSize": count}
        )
        wait_until(lambda: self.group(slot)["status"] == "ACTIVE", "the node group is active again")

    def scale(self, deployment: str, replicas: int) -> None:
        self.apps.patch_namespaced_deployment_scale(deployment, NAMESPACE, {"spec": {"replicas": replicas}})

    def replicas(self, deployment: str) -> int:
        return self.apps.read_namespaced_deployment(deployment, NAMESPACE).spec.replicas

    def pods(self) -> list[Any]:
        return self.core.list_namespaced_pod(NAMESPACE, label_selector="app.kubernetes.io/name=vllm").items

    def volumes(self) -> list[dict[str, Any]]:
        filters = [{"Name": "tag:dormouse.dev/model", "Values": ["kimi-k2.5"]}]
        return self.cloud.client("ec2").describe_volumes(Filters=filters)["Volumes"]

    def gpu_instances(self) -> list[dict[str, Any]]:
        filters = [
            {"Name": "instance-type", "Values": ["p5en.48xlarge", "p5e.48xlarge"]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        found = self.cloud.client("ec2").describe_instances(Filters=filters)["Reservations"]
        return [instance for reservation in found for instance in reservation["Instances"]]

    def dormouse(self, *arguments: str, accepted: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        """Run the command line as a scheduled job would, in the stack's folder."""
        done = subprocess.run(
            [sys.executable, "-m", "infra.cli.main", *arguments],
            cwd=self.stack.folder,
            env=self.stack.environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode in accepted, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done


@contextmanager
def dev_stack(
    folder: Path, engine_bin: Path, cloud: CloudProcess, client: ApiClient, capacity: list[dict[str, str]] | None = None
) -> Iterator[World]:
    """The stack before its first `up`; whatever it made is gone at the end.

    - `capacity`: its candidates; None leaves those of Pulumi.dev.yaml.
    """
    stack = PulumiStack(REPOSITORY, folder, engine_bin, aws_endpoint_url=cloud.endpoint_url)
    stack.set_config("dormouse:apiKeySecret", "0123456789abcdef" * 2, secret=True)
    if capacity is not None:
        stack.remove_config("dormouse:capacity")
        for index, candidate in enumerate(capacity):
            for key, value in candidate.items():
                stack.set_config(f"dormouse:capacity[{index}].{key}", value)
    yield World(stack, cloud, billed(cloud), CoreV1Api(client), AppsV1Api(client))
    stack.remove_everything()


def assert_nothing_to_do(run: Run) -> None:
    """Fail where a preview or an update found any difference."""
    different = {operation: run.names(operation) for operation in run.urns if operation != "same"}
    assert different == {}, run.changed_keys


def capacities(world: World) -> set[str]:
    """What the nodes that are there offer, such as `nvidia.com/gpu`."""
    return {name for node in world.core.list_node().items for name in node.status.capacity}


def billed(cloud: CloudProcess) -> dict[str, set[str]]:
    """Everything in the account that costs money or stands in the way, but weight volumes."""
    ec2, iam = cloud.client("ec2"), cloud.client("iam")
    live = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}]
    reservations = ec2.describe_instances(Filters=live)["Reservations"]
    gateways = ec2.describe_nat_gateways()["NatGateways"]
    budgets = cloud.client("budgets").describe_budgets(AccountId="123456789012").get("Budgets", [])
    return {
        "clusters": set(cloud.client("eks").list_clusters()["clusters"]),
        "instances": {one["InstanceId"] for reservation in reservations for one in reservation["Instances"]},
        "networks": {vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"]},
        "NAT gateways": {one["NatGatewayId"] for one in gateways if one["State"] != "deleted"},
        "addresses": {one["AllocationId"] for one in ec2.describe_addresses()["Addresses"]},
        "templates": {one["LaunchTemplateId"] for one in ec2.describe_launch_templates()["LaunchTemplates"]},
        "budgets": {one["BudgetName"] for one in budgets},
        "topics": {one["TopicArn"] for one in cloud.client("sns").list_topics()["Topics"]},
        "roles": {role["RoleName"] for role in iam.list_roles()["Roles"]},
        "logs": {one["logGroupName"] for one in cloud.client("logs").describe_log_groups()["logGroups"]},
    }
