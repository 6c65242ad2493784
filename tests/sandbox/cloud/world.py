"""A small account in the simulated cloud, and a clock that the test moves by hand."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3

from infra.sandbox.cloud.server import CloudServer

REGION = "us-east-2"
START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
# One session: botocore reads each service's description once.
SESSION = boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing", region_name=REGION)


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def monotonic_s(self) -> float:
        return self.time.timestamp()

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@dataclass
class World:
    """The server with its clients and what most tests need first."""

    server: CloudServer
    clock: HandClock
    _clients: dict[str, Any] = field(default_factory=dict)
    vpc_id: str = ""
    subnet_ids: dict[str, str] = field(default_factory=dict)

    def begin_anew(self) -> None:
        self.server.reset()
        self.clock.time = START
        self.vpc_id = ""
        self.subnet_ids = {}

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = SESSION.client(service, endpoint_url=self.server.endpoint_url)
        return self._clients[service]

    @property
    def ec2(self) -> Any:
        return self.client("ec2")

    @property
    def eks(self) -> Any:
        return self.client("eks")

    @property
    def capacity(self) -> Any:
        assert self.server.simulation is not None
        return self.server.simulation.capacity

    def wait(self, seconds: float) -> None:
        self.clock.sleep(seconds)

    def network(self) -> None:
        self.vpc_id = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        for number, letter in enumerate("abc"):
            zone = f"{REGION}{letter}"
            made = self.ec2.create_subnet(VpcId=self.vpc_id, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=zone)
            self.subnet_ids[zone] = made["Subnet"]["SubnetId"]

    def role(self, name: str, service: str) -> str:
        statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": ["sts:AssumeRole"]}
        trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        return self.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]

    def cluster(self, name: str = "dev", *, wait: bool = True, **settings: Any) -> dict[str, Any]:
        if not self.subnet_ids:
            self.network()
        settings = {
            "roleArn": settings.pop("roleArn", None) or self.role(f"{name}-cluster", "eks.amazonaws.com"),
            "version": "1.35",
            "resourcesVpcConfig": {"subnetIds": list(self.subnet_ids.values())},
            "accessConfig": {"authenticationMode": "API"},
            **settings,
        }
        made = self.eks.create_cluster(name=name, **settings)["cluster"]
        if wait:
            self.wait(self.server.durations.cluster_create_s)
            made = self.eks.describe_cluster(name=name)["cluster"]
        return made

    def template(self, name: str, **data: Any) -> str:
        made = self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        return made["LaunchTemplate"]["LaunchTemplateId"]

    def node_group(self, name: str = "gpu", *, zone: str = "us-east-2a", wait: bool = True, **settings: Any) -> Any:
        """By default an empty on-demand group of p5e.48xlarge in one zone of cluster `dev`."""
        if "nodeRole" not in settings:
            settings["nodeRole"] = self.role(f"{name}-node", "ec2.amazonaws.com")
        if "launchTemplate" not in settings and "instanceTypes" not in settings:
            settings["instanceTypes"] = ["p5e.48xlarge"]
        settings = {
            "clusterName": "dev",
            "subnets": [self.subnet_ids[zone]],
            "scalingConfig": {"minSize": 0, "desiredSize": 0, "maxSize": 1},
            **settings,
        }
        made = self.eks.create_nodegroup(nodegroupName=name, **settings)["nodegroup"]
        if wait:
            self.wait(self.server.durations.node_group_create_s)
            made = self.describe(name)
        return made

    def describe(self, name: str = "gpu") -> dict[str, Any]:
        return self.eks.describe_nodegroup(clusterName="dev", nodegroupName=name)["nodegroup"]

    def scale(self, desired: int, name: str = "gpu") -> dict[str, Any]:
        scaling = {"desiredSize": desired}
        answer = self.eks.update_nodegroup_config(clusterName="dev", nodegroupName=name, scalingConfig=scaling)
        return answer["update"]

    def activities(self, name: str = "gpu") -> list[dict[str, Any]]:
        group_name = self.describe(name)["resources"]["autoScalingGroups"][0]["name"]
        answer = self.client("autoscaling").describe_scaling_activities(AutoScalingGroupName=group_name)
        return answer["Activities"]

    def running(self) -> list[dict[str, Any]]:
        filters = [{"Name": "instance-state-name", "Values": ["running"]}]
        reservations = self.ec2.describe_instances(Filters=filters)["Reservations"]
        return [instance for reservation in reservations for instance in reservation["Instances"]]
