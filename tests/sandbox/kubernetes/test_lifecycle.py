"""From pending to ready to gone, on a clock that is moved by hand."""

import pytest

from infra.clock import ScaledClock
from infra.sandbox.kubernetes.controllers.pod_lifecycle import Durations
from tests.sandbox.kubernetes.builders import (
    cpu_node,
    deployment,
    eventually,
    gpu_deployment,
    gpu_node,
    refused,
    stays,
)

A = "ip-10-0-1-5"
SIDECAR = {"name": "gateway", "image": "nginx:1.29", "restartPolicy": "Always", "ports": [{"containerPort": 8080}]}


@pytest.fixture
def cluster(start_cluster):
    return start_cluster([gpu_node(A)], durations=Durations(image_pull_s=90, volume_attach_s=10, orphaned_pod_s=40))


def running(cluster):
    return cluster.pod().status.phase == "Running"


def loaded(cluster, **pod_spec):
    """A Deployment with a Ready pod that took 900 s to load."""
    cluster.deploy(gpu_deployment(load_s=900, **pod_spec))
    eventually(lambda: cluster.pod().spec.node_name)
    eventually(lambda: cluster.pod().status.start_time)
    cluster.clock.advance(90)
    eventually(lambda: running(cluster))
    cluster.clock.advance(900)
    eventually(cluster.ready)


def test_pull_load_ready(cluster):
    cluster.deploy(gpu_deployment(load_s=900, initContainers=[SIDECAR]))
    eventually(lambda: cluster.pod().status.container_statuses)
    status = cluster.pod().status
    assert status.phase == "Pending"
    assert status.container_statuses[0].state.waiting.reason == "ContainerCreating"
    with refused(400, "is waiting to start: ContainerCreating"):
        cluster.core.read_namespaced_pod_log(cluster.pod().metadata.name, "kimi")
    cluster.clock.advance(89)
    stays(lambda: not running(cluster))
    cluster.clock.advance(1)
    eventually(lambda: running(cluster))
    status = cluster.pod().status
    main, sidecar = status.container_statuses[0], status.init_container_statuses[0]
    assert (main.started, main.ready, sidecar.started, sidecar.ready) == (False, False, True, True)
    assert main.state.running.started_at.isoformat() == "2026-03-02T09:01:30+00:00"
    assert "Application startup complete" not in cluster.core.read_namespaced_pod_log(
        cluster.pod().metadata.name, "kimi"
    )
    cluster.clock.advance(899)
    stays(lambda: not cluster.ready())
    cluster.clock.advance(1)
    eventually(cluster.ready)
    assert cluster.condition("Ready").last_transition_time.isoformat() == "2026-03-02T09:16:30+00:00"
    assert cluster.pod().status.container_statuses[0].started is True
    eventually(lambda: cluster.apps.read_namespaced_deployment("vllm", "kimi").status.ready_replicas == 1)


def test_images_are_pulled_once_a_node(cluster):
    cluster.deploy(gpu_deployment())
    eventually(lambda: cluster.pod().status.container_statuses)
    cluster.clock.advance(90)
    eventually(cluster.ready)
    cluster.deploy(deployment("second", tolerations=[{"operator": "Exists"}]))
    eventually(lambda: [one.status.phase for one in cluster.pods()] == ["Running", "Running"])


def test_a_startup_probe_that_is_too_short_never_lets_it_load(cluster):
    body = gpu_deployment(load_s=900)
    probe = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10, "failureThreshold": 60}
    body["spec"]["template"]["spec"]["containers"][0]["startupProbe"] = probe
    cluster.deploy(body)
    eventually(lambda: cluster.pod().status.container_statuses)
    cluster.clock.advance(90)
    eventually(lambda: running(cluster))
    cluster.clock.advance(1300)
    eventually(lambda: cluster.pod().status.container_statuses[0].restart_count == 2)
    assert cluster.event("Killing") == "Container vllm failed startup probe, will be restarted"
    assert not cluster.ready()


def test_progress_deadline(start_cluster):
    cluster = start_cluster()
    cluster.deploy(gpu_deployment())

    def progressing():
        conditions = cluster.apps.read_namespaced_deployment("vllm", "kimi").status.conditions or []
        return next((one.reason for one in conditions if one.type == "Progressing"), "")

    eventually(lambda: progressing() == "ReplicaSetUpdated")
    cluster.clock.advance(599)
    stays(lambda: progressing() == "ReplicaSetUpdated")
    cluster.clock.advance(2)
    eventually(lambda: progressing() == "ProgressDeadlineExceeded")


def test_a_pod_ends_when_its_requests_do(cluster):
    loaded(cluster, terminationGracePeriodSeconds=600)
    assert cluster.server.simulate_requests("kimi", 3, 200) == 3
    name = cluster.pod().metadata.name
    cluster.apps.patch_namespaced_deployment_scale("vllm", "kimi", {"spec": {"replicas": 0}})
    eventually(lambda: cluster.pod().metadata.deletion_timestamp)
    assert cluster.pod().metadata.deletion_grace_period_seconds == 600
    cluster.clock.advance(190)
    stays(lambda: cluster.pod().metadata.name == name)
    cluster.clock.advance(15)
    eventually(lambda: cluster.pods() == [])


def test_the_grace_period_cuts_what_runs_longer(cluster):
    loaded(cluster, terminationGracePeriodSeconds=120)
    cluster.server.simulate_requests("kimi", 1, 3600)
    cluster.core.delete_namespaced_pod(cluster.pod().metadata.name, "kimi")
    cluster.clock.advance(110)
    stays(lambda: any(one.metadata.deletion_timestamp for one in cluster.pods()))
    cluster.clock.advance(11)
    eventually(lambda: not any(one.metadata.deletion_timestamp for one in cluster.pods()))


def test_pre_stop_sleeps_first(cluster):
    body = gpu_deployment(load_s=0, terminationGracePeriodSeconds=60)
    hook = {"preStop": {"sleep": {"seconds": 20}}}
    body["spec"]["template"]["spec"]["containers"][0]["lifecycle"] = hook
    cluster.deploy(body)
    eventually(lambda: cluster.pod().status.container_statuses)
    cluster.clock.advance(90)
    eventually(cluster.ready)
    cluster.apps.patch_namespaced_deployment_scale("vllm", "kimi", {"spec": {"replicas": 0}})
    eventually(lambda: cluster.pod().metadata.deletion_timestamp)
    cluster.clock.advance(18)
    stays(lambda: len(cluster.pods()) == 1)
    cluster.clock.advance(3)
    eventually(lambda: cluster.pods() == [])


def test_grace_period_zero_ends_at_once(cluster):
    loaded(cluster, terminationGracePeriodSeconds=600)
    name = cluster.pod().metadata.name
    cluster.core.delete_namespaced_pod(name, "kimi", grace_period_seconds=0)
    eventually(lambda: cluster.pod().metadata.name != name)


def test_recreate_waits_for_the_old_pod(cluster):
    loaded(cluster, terminationGracePeriodSeconds=600)
    old = cluster.pod().metadata.name
    cluster.server.simulate_requests("kimi", 1, 100)
    cluster.apps.patch_namespaced_deployment(
        "vllm", "kimi", {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
    )
    eventually(lambda: cluster.pod().metadata.deletion_timestamp)
    stays(lambda: [one.metadata.name for one in cluster.pods()] == [old])
    cluster.clock.advance(101)
    eventually(lambda: cluster.pod().metadata.name != old)
    assert cluster.pod().metadata.annotations["version"] == "2"


def test_rolling_update_keeps_the_old_pod_until_the_new_one_is_ready(start_cluster):
    cluster = start_cluster([cpu_node()])
    body = deployment("web")
    body["spec"]["strategy"] = {"type": "RollingUpdate"}
    cluster.deploy(body)
    eventually(cluster.ready)
    old = cluster.pod().metadata.name
    annotations = {"dormouse.dev/planned-load-s": "60"}
    cluster.apps.patch_namespaced_deployment(
        "web", "kimi", {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    )
    eventually(lambda: len(cluster.pods()) == 2)
    stays(lambda: old in [one.metadata.name for one in cluster.pods() if not one.metadata.deletion_timestamp])
    cluster.clock.advance(61)
    eventually(lambda: old not in [one.metadata.name for one in cluster.pods()])


def test_endpoints_follow_the_accepting_label(cluster):
    selector = {"app": "vllm", "dormouse.dev/accepting": "true"}
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    cluster.core.create_namespaced_service(
        "kimi", {"metadata": {"name": "kimi"}, "spec": {"selector": selector, "ports": ports}}
    )
    body = gpu_deployment(load_s=900, initContainers=[SIDECAR])
    body["spec"]["template"]["metadata"]["labels"] = dict(selector)
    cluster.deploy(body)
    eventually(lambda: cluster.pod().status.container_statuses)
    cluster.clock.advance(90)

    def subsets():
        return cluster.core.read_namespaced_endpoints("kimi", "kimi").subsets or []

    eventually(lambda: subsets() and subsets()[0].not_ready_addresses)
    assert cluster.server.simulate_requests("kimi", 1, 10) == 0
    cluster.clock.advance(900)
    eventually(lambda: subsets() and subsets()[0].addresses)
    assert (subsets()[0].ports[0].port, subsets()[0].addresses[0].node_name) == (8080, A)
    assert cluster.server.simulate_requests("kimi", 1, 10) == 1
    name = cluster.pod().metadata.name
    cluster.core.patch_namespaced_pod(name, "kimi", {"metadata": {"labels": {"dormouse.dev/accepting": "false"}}})
    eventually(lambda: subsets() == [])
    assert cluster.pod().metadata.name == name
    assert cluster.server.simulate_requests("kimi", 1, 10) == 0


def test_pods_of_a_vanished_node_are_replaced(cluster):
    loaded(cluster)
    old = cluster.pod().metadata.name
    cluster.nodes.clear()
    eventually(lambda: cluster.core.list_node().items == [])
    cluster.clock.advance(39)
    stays(lambda: cluster.pod().metadata.name == old)
    cluster.clock.advance(2)
    eventually(lambda: cluster.pod().metadata.name != old)
    assert cluster.pod().spec.node_name is None


def test_one_empty_or_failed_listing_removes_nothing(start_cluster):
    cluster = start_cluster([gpu_node(A)])
    answers = iter([[], OSError("the cloud is away"), [gpu_node(A)]])

    class Flapping(list):
        def __iter__(self):
            answer = next(answers, [gpu_node(A)])
            if isinstance(answer, Exception):
                raise answer
            return iter(answer)

    cluster.nodes = Flapping()
    stays(lambda: len(cluster.core.list_node().items) == 1, for_s=1.2)
    assert [fault for fault in cluster.server.faults if "the cloud is away" in fault]
    cluster.server.faults.clear()


def test_relabelled_nodes_keep_their_cordon(start_cluster):
    cluster = start_cluster([gpu_node(A)])
    cluster.core.patch_node(A, {"spec": {"unschedulable": True}})
    changed = gpu_node(A)
    changed["metadata"]["labels"]["dormouse.dev/slot"] = "spot"
    changed["spec"]["taints"] = []
    cluster.nodes[:] = [changed]
    node = eventually(lambda: (n := cluster.core.read_node(A)).metadata.labels.get("dormouse.dev/slot") and n)
    assert node.spec.unschedulable is True
    assert not node.spec.taints


def test_a_scaled_clock_drives_it_all(start_cluster, monkeypatch):
    import time

    fast = ScaledClock(time.time(), time.time(), 2000)
    monkeypatch.setattr("tests.sandbox.kubernetes.conftest.ManualClock", lambda: fast)
    cluster = start_cluster([gpu_node(A)], durations=Durations())
    cluster.deploy(gpu_deployment(load_s=900))
    eventually(cluster.ready)
    status = cluster.pod().status
    since = cluster.condition("Ready").last_transition_time
    assert 900 <= (since - status.container_statuses[0].state.running.started_at).total_seconds() <= 901
