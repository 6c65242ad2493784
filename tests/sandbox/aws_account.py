"""A simulated account for the tests of the resource table, and short ways to make things in it."""

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from infra.clock import ScaledClock
from infra.sandbox.aws_resources import RESOURCES, AwsClients, ResourceType
from infra.sandbox.cloud import Durations
from infra.sandbox.cloud.server import CloudServer

REGION = "us-east-2"
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": ["eks.amazonaws.com", "ec2.amazonaws.com", "pods.eks.amazonaws.com"]},
                "Action": ["sts:AssumeRole", "sts:TagSession"],
            }
        ],
    }
)
_numbers = itertools.count(1)


@contextmanager
def account() -> Iterator[AwsClients]:
    """Clients of an empty simulated account without waiting times."""
    now = time.time()
    clock = ScaledClock(now, now, 1.0)
    with CloudServer(clock, Durations.instant(), region=REGION) as cloud:
        yield AwsClients(REGION, cloud.endpoint_url, wait_limit_s=20, clock=clock)


class Made:
    """One resource made through the table, with what Pulumi's engine would remember of it."""

    def __init__(self, clients: AwsClients, token: str, name: str = "", /, **inputs: Any) -> None:
        self.clients = clients
        self.kind: ResourceType = RESOURCES[token]
        self.name = name or f"thing{next(_numbers)}"
        self.inputs = self.checked(inputs)
        self.id, self.outputs = self.kind.create(clients, self.name, self.inputs)

    def checked(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        checked = self.kind.check(self.name, inputs, getattr(self, "inputs", None))
        assert checked.failures == ()
        return checked.inputs

    def update(self, **inputs: Any) -> dict[str, Any]:
        new = self.checked({**{k: v for k, v in self.inputs.items() if k not in ("__defaults", "tagsAll")}, **inputs})
        assert not self.kind.diff(self.inputs, new).replaces
        self.outputs = self.kind.update(self.clients, self.id, self.inputs, new, self.outputs)
        self.inputs = new
        return self.outputs

    def read(self) -> dict[str, Any] | None:
        return self.kind.read(self.clients, self.id, self.outputs)

    def drift(self) -> dict[str, str]:
        """What a refresh finds changed: paths of the inputs."""
        outputs = self.read()
        assert outputs is not None
        found = self.kind.inputs_from(self.inputs, outputs)
        return dict(self.kind.diff(self.inputs, found).changes)

    def delete(self) -> None:
        self.kind.delete(self.clients, self.id, self.outputs)


class Surroundings:
    """What most resource types need around them."""

    def __init__(self, clients: AwsClients) -> None:
        self.clients = clients
        self.vpc = Made(clients, "aws:ec2/vpc:Vpc", cidrBlock="10.0.0.0/16", enableDnsHostnames=True)
        self.subnets = [
            Made(
                clients,
                "aws:ec2/subnet:Subnet",
                vpcId=self.vpc.id,
                cidrBlock=f"10.0.{at}.0/24",
                availabilityZone=f"{REGION}{zone}",
            )
            for at, zone in enumerate("ab")
        ]
        self.role = Made(clients, "aws:iam/role:Role", assumeRolePolicy=TRUST)
        self.role_arn = str(self.role.outputs["arn"])
        self.cluster = Made(
            clients,
            "aws:eks/cluster:Cluster",
            roleArn=self.role_arn,
            version="1.35",
            accessConfig={"authenticationMode": "API"},
            vpcConfig={"subnetIds": [subnet.id for subnet in self.subnets], "endpointPrivateAccess": True},
            upgradePolicy={"supportType": "STANDARD"},
        )

    def node_group(self, **inputs: Any) -> Made:
        given = {
            "clusterName": self.cluster.id,
            "nodeRoleArn": self.role_arn,
            "subnetIds": [self.subnets[0].id],
            "instanceTypes": ["p5en.48xlarge"],
            "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": 0},
            "labels": {"dormouse.dev/slot": "one"},
            "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
            **inputs,
        }
        return Made(self.clients, "aws:eks/nodeGroup:NodeGroup", **given)
