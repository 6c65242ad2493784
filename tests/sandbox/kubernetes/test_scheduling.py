"""Where pods may run, and what they are told where they may not."""

import pytest

from tests.sandbox.kubernetes.builders import (
    claim,
    cpu_node,
    deployment,
    eventually,
    gpu_deployment,
    gpu_node,
    mounting,
    stays,
    volume,
)

A, B = "ip-10-0-1-5", "ip-10-0-2-6"


def waiting(cluster):
    return eventually(lambda: cluster.event("FailedScheduling"))


def with_volume(cluster, zone):
    cluster.core.create_persistent_volume(volume(zone=zone))
    cluster.core.create_namespaced_persistent_volume_claim("kimi", claim())
    eventually(lambda: cluster.core.read_persistent_volume("weights-a").status.phase == "Bound")


def test_the_volume_decides_the_zone(start_cluster):
    cluster = start_cluster([gpu_node(A, "us-east-2a"), gpu_node(B, "us-east-2b"), cpu_node()])
    with_volume(cluster, "us-east-2b")
    cluster.deploy(mounting(gpu_deployment()))
    eventually(lambda: cluster.pod().spec.node_name == B)


def test_a_node_in_another_zone_does_not_do(start_cluster):
    cluster = start_cluster([gpu_node(A, "us-east-2a"), cpu_node()])
    with_volume(cluster, "us-east-2b")
    cluster.deploy(mounting(gpu_deployment()))
    assert waiting(cluster) == (
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match PersistentVolume's node "
        "affinity. preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )
    found = cluster.condition("PodScheduled")
    assert (found.status, found.reason) == ("False", "Unschedulable")
    assert cluster.pod().status.phase == "Pending"
    cluster.nodes.append(gpu_node(B, "us-east-2b"))
    eventually(lambda: cluster.pod().spec.node_name == B)
    assert cluster.condition("PodScheduled").status == "True"


def test_without_the_toleration_no_gpu_node_does(start_cluster):
    cluster = start_cluster([gpu_node(A), cpu_node()])
    body = gpu_deployment()
    del body["spec"]["template"]["spec"]["tolerations"]
    cluster.deploy(body)
    assert waiting(cluster).startswith(
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint "
        "{nvidia.com/gpu: true}."
    )


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "value": "true"}, True),
        ({"key": "nvidia.com/gpu", "value": "false"}, False),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations(start_cluster, toleration, fits):
    cluster = start_cluster([gpu_node(A)])
    body = gpu_deployment()
    body["spec"]["template"]["spec"]["tolerations"] = [toleration]
    cluster.deploy(body)
    if fits:
        eventually(lambda: cluster.pod().spec.node_name == A)
    else:
        assert "1 node(s) had untolerated taint {nvidia.com/gpu: true}" in waiting(cluster)


def test_eight_gpus_are_one_pod(start_cluster):
    cluster = start_cluster([gpu_node(A)])
    cluster.deploy(gpu_deployment(replicas=2))
    assert waiting(cluster).startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption:")
    assert sorted(one.spec.node_name or "" for one in cluster.pods()) == ["", A]
    cluster.nodes.append(gpu_node(B))
    eventually(lambda: sorted(one.spec.node_name or "" for one in cluster.pods()) == [A, B])


def test_a_node_with_fewer_gpus_does_not_do(start_cluster):
    cluster = start_cluster([gpu_node(A, gpus=4)])
    cluster.deploy(gpu_deployment())
    assert "1 Insufficient nvidia.com/gpu" in waiting(cluster)


def test_cpu_and_memory_count_with_sidecars(start_cluster):
    cluster = start_cluster([cpu_node("n1")])
    body = deployment()
    spec = body["spec"]["template"]["spec"]
    spec["containers"][0]["resources"] = {"requests": {"cpu": "1500m", "memory": "7Gi"}}
    sidecar = {"name": "gateway", "image": "nginx:1", "restartPolicy": "Always"}
    spec["initContainers"] = [{**sidecar, "resources": {"requests": {"cpu": "600m", "memory": "2Gi"}}}]
    cluster.deploy(body)
    assert waiting(cluster).startswith("0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.")


def test_node_selector_and_affinity(start_cluster):
    cluster = start_cluster([cpu_node("n1", "us-east-2a"), cpu_node("n2", "us-east-2b")])
    term = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-2b"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    cluster.deploy(deployment("affine", affinity=affinity))
    eventually(lambda: cluster.pod().spec.node_name == "n2")
    cluster.deploy(deployment("lost", nodeSelector={"disk": "fast"}))
    message = waiting(cluster)
    assert message.startswith("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.")


def test_without_nodes_and_without_claims(start_cluster):
    cluster = start_cluster()
    cluster.deploy(mounting(gpu_deployment()))
    assert waiting(cluster) == "no nodes available to schedule pods"
    cluster.nodes.append(gpu_node(A))
    eventually(lambda: cluster.event("FailedScheduling", 'persistentvolumeclaim "weights-a" not found'))
    cluster.core.create_namespaced_persistent_volume_claim("kimi", claim())
    unbound = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    eventually(lambda: cluster.condition("PodScheduled").message.startswith(unbound))
    cluster.core.create_persistent_volume(volume())
    eventually(lambda: cluster.pod().spec.node_name == A)


def test_daemon_sets_run_where_they_are_tolerated(start_cluster):
    cluster = start_cluster([gpu_node(A), cpu_node("n1")])
    template = deployment("agent")["spec"]["template"]
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    cluster.apps.create_namespaced_daemon_set("kimi", {"metadata": {"name": "agent"}, "spec": spec})
    eventually(lambda: [one.spec.node_name for one in cluster.pods()] == ["n1"])
    everywhere = {"spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}}
    cluster.apps.patch_namespaced_daemon_set("agent", "kimi", everywhere)

    def status():
        cluster.clock.advance(1)
        return cluster.apps.read_namespaced_daemon_set("agent", "kimi").status

    eventually(lambda: (status().number_ready, status().desired_number_scheduled) == (2, 2), 10)
    stays(lambda: {one.spec.node_name for one in cluster.pods()} == {A, "n1"})
