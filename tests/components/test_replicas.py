"""Several replicas, and one replica over several machines: what is registered, and that one of one stays as it was."""

from typing import Any

import pytest

from components import ModelServer
from tests.components.test_model_server import arguments
from tests.support.recording import Recording, record

CANDIDATES = [
    {"slot": "spot", "purchase": "spot", "zone": "us-east-2c"},
    {"slot": "demand", "purchase": "on-demand", "zone": "us-east-2a"},
]


@pytest.fixture(scope="module")
def made() -> Recording:
    wanted = arguments(instance_type="p5.48xlarge", candidates=CANDIDATES, replicas=2, nodes_per_replica=2)
    return record(lambda: ModelServer("server", wanted) and None)


def objects(made: Recording, kind: str) -> dict[str, dict[str, Any]]:
    """Kubernetes objects of a kind by their own names."""
    found = [one.inputs for one in made.registrations if one.inputs.get("kind") == kind]
    return {one["metadata"]["name"]: one for one in found}


def test_every_replica_has_its_own_group_for_each_candidate_raised_to_all_its_machines(made: Recording) -> None:
    groups = {one.name: one for one in made.of("NodeGroup") if "dormouse.dev/slot" in one.inputs["labels"]}
    assert set(groups) == {"server-spot", "server-demand", "server-spot-r1", "server-demand-r1"}
    for name, group in groups.items():
        assert group.inputs["scalingConfig"] == {"desiredSize": 0, "minSize": 0, "maxSize": 2}
        assert group.inputs["labels"]["dormouse.dev/replica"] == ("1" if name.endswith("-r1") else "0")
        assert group.inputs["labels"]["dormouse.dev/slot"] == name.removeprefix("server-")


def test_every_machine_has_its_own_deployment_and_volume_in_every_zone(made: Recording) -> None:
    ends = ["", "-node1", "-r1", "-r1-node1"]
    deployments = objects(made, "Deployment")
    assert set(deployments) == {f"kimi-k2-5-us-east-2{letter}{end}" for letter in "ac" for end in ends}
    assert {one.name for one in made.of("Volume")} == {
        f"server-weights-us-east-2{letter}{end}" for letter in "ac" for end in ends
    }
    for name, one in deployments.items():
        pod = one["spec"]["template"]["spec"]
        claim = pod["volumes"][0]["persistentVolumeClaim"]["claimName"]
        assert claim == f"server-weights-{name.removeprefix('kimi-k2-5-')}"
        assert pod["nodeSelector"]["dormouse.dev/replica"] == ("1" if "-r1" in name else "0")


def test_no_two_deployments_select_the_same_pods_and_the_service_selects_every_first_machine(made: Recording) -> None:
    deployments = objects(made, "Deployment")
    labels = {name: one["spec"]["template"]["metadata"]["labels"] for name, one in deployments.items()}

    def selected(selector: dict[str, str]) -> set[str]:
        return {name for name, held in labels.items() if selector.items() <= held.items()}

    for name, one in deployments.items():
        assert selected(one["spec"]["selector"]["matchLabels"]) == {name}
    services = objects(made, "Service")
    firsts = {name for name in deployments if not name.endswith("-node1")}
    assert selected(services["kimi-k2-5"]["spec"]["selector"]) == firsts
    for name in firsts:
        first = services[f"{name}-first"]["spec"]
        assert selected(first["selector"]) == {name}
        assert (first["clusterIP"], first["publishNotReadyAddresses"]) == ("None", True)
        worker = deployments[f"{name}-node1"]["spec"]["template"]["spec"]["containers"][0]["args"]
        assert f"--master-addr={name}-first" in worker


def test_machines_of_a_replica_stand_together_with_an_adapter_on_every_card(made: Recording) -> None:
    assert {one.name for one in made.of("PlacementGroup")} == {"server-demand", "server-demand-r1"}
    for name in ("server-spot", "server-demand-r1"):
        template = made.one("LaunchTemplate", name).inputs
        assert ("placement" in template) == ("demand" in name)
        cards = template["networkInterfaces"]
        assert [one["interfaceType"] for one in cards] == ["interface"] + ["efa-only"] * 32
        # No two on the same place, and no subnet, which managed groups refuse.
        assert len({(one["networkCardIndex"], one["deviceIndex"]) for one in cards}) == 33
        assert not any("subnetId" in one for one in cards)
        assert {len(one["securityGroups"]) for one in cards} == {2}
    fence = made.one("SecurityGroupIngressRule").inputs, made.one("SecurityGroupEgressRule").inputs
    for rule in fence:
        assert rule["ipProtocol"] == "-1"
        assert rule["referencedSecurityGroupId"] == rule["securityGroupId"] == "server-fabric-id"
    plugin = objects(made, "DaemonSet")["aws-efa-k8s-device-plugin"]["spec"]["template"]["spec"]["containers"][0]
    assert plugin["image"] == "602401143452.dkr.ecr.us-east-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.20"


def test_pods_of_a_replica_reach_each_other(made: Recording) -> None:
    policy = objects(made, "NetworkPolicy")["kimi-k2-5"]["spec"]
    peers = [{"podSelector": policy["podSelector"]}]
    assert {"from": peers} in policy["ingress"]
    assert {"to": peers} in policy["egress"]


def test_one_replica_on_one_machine_has_none_of_it() -> None:
    made = record(lambda: ModelServer("server", arguments(candidates=CANDIDATES)) and None)
    assert not made.of("PlacementGroup")
    assert not made.of("SecurityGroup")
    assert "dormouse.dev/replica" not in made.one("NodeGroup", "server-spot").inputs["labels"]
    for name, one in objects(made, "Deployment").items():
        assert one["spec"]["selector"]["matchLabels"]["dormouse.dev/zone"] == name.removeprefix("kimi-k2-5-")
        assert list(one["spec"]["template"]["spec"]["nodeSelector"]) == ["dormouse.dev/pool"]
    peers = [{"podSelector": objects(made, "NetworkPolicy")["kimi-k2-5"]["spec"]["podSelector"]}]
    assert {"from": peers} not in objects(made, "NetworkPolicy")["kimi-k2-5"]["spec"]["ingress"]
