from datetime import timedelta
from typing import Any

from infra.sandbox.cloud import CapacityRule
from infra.sandbox.cloud.nodes import nodes_from_cloud
from tests.sandbox.cloud.world import World

_JOIN_S = 240


def _nodes(world: World) -> list[dict[str, Any]]:
    return nodes_from_cloud(world.ec2, world.eks, "dev", world.clock.now(), _JOIN_S)


def test_a_gpu_node_appears_when_it_has_joined_and_goes_with_its_instance(world: World) -> None:
    assert _nodes(world) == []
    world.cluster()
    world.node_group(
        capacityType="SPOT",
        amiType="AL2023_x86_64_NVIDIA",
        labels={"dormouse.dev/slot": "spot-use2-az1"},
        taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
    )
    world.scale(1)
    launched_at = world.clock.now()
    world.wait(_JOIN_S - 1)
    assert _nodes(world) == []
    world.wait(1)
    [node] = _nodes(world)
    [instance] = world.running()
    assert node["metadata"]["name"] == instance["PrivateDnsName"]
    joined_at = (launched_at + timedelta(seconds=_JOIN_S)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert node["metadata"]["creationTimestamp"] == joined_at
    expected = {
        "dormouse.dev/slot": "spot-use2-az1",
        "eks.amazonaws.com/nodegroup": "gpu",
        "eks.amazonaws.com/capacityType": "SPOT",
        "topology.kubernetes.io/zone": "us-east-2a",
        "topology.kubernetes.io/region": "us-east-2",
        "topology.k8s.aws/zone-id": "use2-az1",
        "node.kubernetes.io/instance-type": "p5e.48xlarge",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": instance["PrivateDnsName"],
    }
    assert expected.items() <= node["metadata"]["labels"].items()
    assert node["spec"] == {
        "providerID": f"aws:///us-east-2a/{instance['InstanceId']}",
        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
    }
    capacity, allocatable = node["status"]["capacity"], node["status"]["allocatable"]
    assert (capacity["nvidia.com/gpu"], capacity["cpu"], capacity["pods"]) == ("8", "192", "250")
    assert capacity["memory"] == f"{2 * 1024**3}Ki"
    assert allocatable["nvidia.com/gpu"] == "8"
    assert allocatable["cpu"] == "191450m"
    assert int(allocatable["memory"].removesuffix("Ki")) < 2 * 1024**3
    ready = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
    assert ready["status"] == "True"
    world.scale(0)
    assert _nodes(world) == []


def test_nodes_of_several_groups_and_an_instance_that_never_joins(world: World) -> None:
    world.cluster()
    world.node_group(
        "system", instanceTypes=["m7g.large"], scalingConfig={"minSize": 1, "desiredSize": 1, "maxSize": 1}
    )
    world.capacity.add(CapacityRule(kind="never-joins", instance_type="p5e.48xlarge", attempts=1))
    world.node_group()
    world.wait(_JOIN_S)
    world.scale(1)
    world.wait(3600)
    assert len(world.running()) == 2
    [system] = _nodes(world)
    assert system["metadata"]["labels"]["kubernetes.io/arch"] == "arm64"
    assert "nvidia.com/gpu" not in system["status"]["capacity"]
    assert "taints" not in system["spec"]
    # The rule spoke of one attempt; the next instance joins.
    gpu = next(one for one in world.running() if one["InstanceType"] == "p5e.48xlarge")
    world.ec2.terminate_instances(InstanceIds=[gpu["InstanceId"]])
    world.wait(30)
    world.describe()
    world.wait(_JOIN_S)
    assert len(_nodes(world)) == 2
