"""The engine tier itself: Pulumi's engine and Kubernetes provider on the control plane, with nodes made by hand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient, AppsV1Api, CoreV1Api

from .conftest import MakeStack
from .control_plane import ControlPlane
from .node_bridge import Node, NodeBridge
from .pulumi_cli import PulumiCommandError, PulumiStack
from .waiting import wait_until

PROGRAM = Path(__file__).parent / "program"
NAMESPACE = "engine-check"


def gpu_node(zone: str, gpus: int = 8, architecture: str = "amd64") -> Node:
    """A p5en machine's node as EKS would register it."""
    return {
        "metadata": {
            "name": f"ip-10-0-0-{ord(zone)}.us-east-2.compute.internal",
            "labels": {"topology.kubernetes.io/zone": f"us-east-2{zone}", "kubernetes.io/arch": architecture},
        },
        "spec": {
            "providerID": f"aws:///us-east-2{zone}/i-0123456789abcdef{zone}",
            "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
        },
        "status": {"capacity": {"cpu": "192", "memory": "2048Gi", "pods": "100", "nvidia.com/gpu": str(gpus)}},
    }


class Machines:
    """Nodes that a test adds and takes away."""

    def __init__(self, api_client: ApiClient) -> None:
        self.wanted: list[Node] = []
        self.core = CoreV1Api(api_client)
        self.bridge = NodeBridge(api_client, lambda: list(self.wanted), interval_s=0.1, owner="by-hand")

    def have(self, *nodes: Node) -> None:
        """Have exactly these nodes."""
        self.wanted = list(nodes)
        self.bridge.wait_for_round()
        wait_until(self._all_ready, "every node is ready")

    def _all_ready(self) -> bool:
        """Whether the node life cycle controller has taken its own taints away, as it does when a node is ready."""
        taints: list[Any] = []
        for node in self.wanted:
            found: Any = self.core.read_node(node["metadata"]["name"])
            taints += found.spec.taints or []
        return not any(taint.key.startswith("node.kubernetes.io/") for taint in taints)

    def pods(self) -> list[Any]:
        """The pods of the program's namespace."""
        found: Any = self.core.list_namespaced_pod(NAMESPACE)
        return list(found.items)

    def namespaces(self) -> set[str]:
        """The names of all namespaces."""
        found: Any = self.core.list_namespace()
        return {item.metadata.name for item in found.items}

    def scheduling_messages(self) -> str:
        """What the scheduler says of the pods that wait."""
        conditions: list[Any] = []
        for pod in self.pods():
            conditions += pod.status.conditions or []
        return "\n".join(str(condition.message) for condition in conditions)


@pytest.fixture
def machines(kubernetes_client: ApiClient) -> Iterator[Machines]:
    """One GPU node in each of two zones, gone at the end."""
    machines = Machines(kubernetes_client)
    with machines.bridge:
        machines.have(gpu_node("a"), gpu_node("b"))
        yield machines
        machines.have()


@pytest.fixture
def stack(machines: Machines, make_stack: MakeStack, control_plane: ControlPlane) -> PulumiStack:
    """The program, not yet up; it needs no AWS."""
    environment = {"ENGINE_CHECK_KUBECONFIG": str(control_plane.admin_kubeconfig_path)}
    return make_stack(PROGRAM, aws_endpoint_url=None, environment=environment)


def test_a_stack_goes_up_stays_unchanged_and_leaves_nothing(stack: PulumiStack, machines: Machines) -> None:
    planned = stack.preview()
    assert planned.creates == 6
    assert "kubernetes:apps/v1:Deployment::deployment" in planned.names("create")
    assert NAMESPACE not in machines.namespaces()

    made = stack.up()
    assert made.changes == {"create": 6}
    [pod] = machines.pods()
    assert pod.spec.node_name == gpu_node("b")["metadata"]["name"], "the volume's zone decides the node"
    assert stack.outputs() == {"deployment": "vllm", "key": "[secret]"}
    assert stack.outputs(show_secrets=True)["key"] == "not-to-be-shown"

    again = stack.preview("--expect-no-changes")
    assert (again.changed, again.same) == (0, 6)

    gone = stack.destroy()
    assert gone.deletes == 6
    assert stack.resources() == []
    assert NAMESPACE not in machines.namespaces()


def test_a_change_by_hand_is_drift_and_an_update_names_its_property(
    stack: PulumiStack, machines: Machines, kubernetes_client: ApiClient
) -> None:
    stack.up()
    AppsV1Api(kubernetes_client).patch_namespaced_deployment_scale("vllm", NAMESPACE, {"spec": {"replicas": 0}})
    drift = stack.refresh()
    assert drift.names("update") == ["kubernetes:apps/v1:Deployment::deployment"]
    assert drift.drifted == drift.urns["update"]

    mended = stack.preview()
    [urn] = mended.urns["update"]
    assert mended.changed_keys[urn] == ["spec.replicas"]
    assert (mended.updates, mended.same) == (1, 5)


def test_a_refusing_program_ends_the_preview_with_its_words(stack: PulumiStack) -> None:
    stack.set_config("engine-check:refusal", "eight GPUs are not enough")
    with pytest.raises(PulumiCommandError) as refused:
        stack.preview()
    assert refused.value.run.exit_code != 0
    [message] = refused.value.run.messages("error")
    assert "ValueError: eight GPUs are not enough" in message
    assert "ValueError: eight GPUs are not enough" in str(refused.value)

    stack.remove_config("engine-check:refusal")
    assert stack.preview().creates == 6


def test_a_stack_leaves_its_project_folder_as_it_was(stack: PulumiStack) -> None:
    stack.set_config("engine-check:replicas", "2")
    assert (stack.folder / "Pulumi.dev.yaml").is_file()
    assert sorted(path.name for path in PROGRAM.iterdir() if path.name != "__pycache__") == [
        "Pulumi.yaml",
        "__main__.py",
    ]


def test_a_pod_leaves_with_its_node_and_waits_for_one_in_its_zone(stack: PulumiStack, machines: Machines) -> None:
    stack.up()
    [before] = machines.pods()

    machines.have(gpu_node("a"))
    wait_until(lambda: [pod.spec.node_name for pod in machines.pods()] == [None], "the pod waits without a node")
    [waiting] = machines.pods()
    assert waiting.metadata.name != before.metadata.name
    wait_until(
        lambda: "didn't match PersistentVolume's node affinity" in machines.scheduling_messages(),
        "the scheduler says why",
    )

    machines.have(gpu_node("a"), gpu_node("b", gpus=4))
    wait_until(
        lambda: "1 Insufficient nvidia.com/gpu" in machines.scheduling_messages(),
        "four GPUs are too few",
    )
    machines.have(gpu_node("a"), gpu_node("b"))
    wait_until(lambda: machines.pods()[0].status.phase == "Running", "the pod runs")
    assert machines.pods()[0].spec.node_name == gpu_node("b")["metadata"]["name"]


def test_changed_labels_and_taints_reach_the_node_and_others_stay(machines: Machines) -> None:
    name = gpu_node("a")["metadata"]["name"]
    machines.core.patch_node(name, {"metadata": {"labels": {"by": "hand"}}})
    changed = gpu_node("a", architecture="arm64")
    changed["metadata"]["labels"].pop("topology.kubernetes.io/zone")
    changed["spec"]["taints"] = [{"key": "reserved", "value": "yes", "effect": "NoExecute"}]
    machines.have(changed, gpu_node("b"))

    node: Any = machines.core.read_node(name)
    assert node.metadata.labels["kubernetes.io/arch"] == "arm64"
    assert node.metadata.labels["by"] == "hand"
    assert "topology.kubernetes.io/zone" not in node.metadata.labels
    assert [(taint.key, taint.effect) for taint in node.spec.taints] == [("reserved", "NoExecute")]


def test_a_failing_source_of_nodes_is_told_to_whoever_waits(kubernetes_client: ApiClient) -> None:
    def broken() -> list[Node]:
        raise ConnectionError("the cloud is away")

    with (
        NodeBridge(kubernetes_client, broken, interval_s=0.05, owner="broken") as bridge,
        pytest.raises(TimeoutError, match="the cloud is away"),
    ):
        bridge.wait_for_round(timeout_s=0.5)
