"""Claims, attachments, and what keeps storage from being deleted."""

import pytest
from kubernetes import client

from infra.sandbox.kubernetes.controllers.pod_lifecycle import Durations
from tests.sandbox.kubernetes.builders import (
    claim,
    eventually,
    eventually_later,
    gpu_deployment,
    gpu_node,
    mounting,
    refused,
    stays,
    volume,
)

A, B = "ip-10-0-1-5", "ip-10-0-2-6"


class Cloud:
    """Records the calls; refuses while `refusal` has words."""

    def __init__(self):
        self.calls = []
        self.refusal = ""

    def attach(self, volume_id, node):
        if self.refusal:
            raise RuntimeError(self.refusal)
        self.calls.append(("attach", volume_id, node["spec"]["providerID"]))

    def detach(self, volume_id, node):
        self.calls.append(("detach", volume_id, node["spec"]["providerID"]))


@pytest.fixture
def cloud():
    return Cloud()


@pytest.fixture
def cluster(start_cluster, cloud):
    cluster = start_cluster(
        [gpu_node(A)], durations=Durations(0, volume_attach_s=10), attach=cloud.attach, detach=cloud.detach
    )
    cluster.core.create_persistent_volume(volume())
    cluster.core.create_namespaced_persistent_volume_claim("kimi", claim())
    return cluster


def phase(cluster):
    return cluster.core.read_namespaced_persistent_volume_claim("weights-a", "kimi").status.phase


def test_binding(cluster):
    eventually(lambda: phase(cluster) == "Bound")
    bound = cluster.core.read_persistent_volume("weights-a")
    assert (bound.status.phase, bound.spec.claim_ref.namespace) == ("Bound", "kimi")
    assert (
        cluster.core.read_namespaced_persistent_volume_claim("weights-a", "kimi").status.capacity["storage"] == "700Gi"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"resources": {"requests": {"storage": "701Gi"}}},
        {"accessModes": ["ReadWriteMany"]},
        {"storageClassName": "gp3"},
        {"volumeName": "another"},
    ],
)
def test_a_claim_that_the_volume_does_not_fit_stays_pending(start_cluster, change):
    cluster = start_cluster()
    cluster.core.create_persistent_volume(volume())
    body = claim()
    body["spec"].update(change)
    cluster.core.create_namespaced_persistent_volume_claim("kimi", body)
    eventually(lambda: cluster.core.read_persistent_volume("weights-a").status.phase == "Available")
    stays(lambda: phase(cluster) == "Pending")


def test_the_volume_follows_the_pod(cluster, cloud):
    cluster.deploy(mounting(gpu_deployment()))
    eventually(lambda: cloud.calls)
    node = cluster.core.read_node(A)
    assert cloud.calls == [("attach", "vol-0a", node.spec.provider_id)]
    attachments = client.StorageV1Api(cluster.client).list_volume_attachment().items
    assert [(one.spec.node_name, one.spec.source.persistent_volume_name) for one in attachments] == [(A, "weights-a")]
    stays(lambda: not cluster.ready())
    cluster.clock.advance(10)
    eventually(cluster.ready)
    cluster.apps.patch_namespaced_deployment_scale("vllm", "kimi", {"spec": {"replicas": 0}})
    eventually(lambda: cloud.calls[-1] == ("detach", "vol-0a", node.spec.provider_id))
    assert client.StorageV1Api(cluster.client).list_volume_attachment().items == []


def test_a_refused_attachment_is_told_and_tried_again(cluster, cloud):
    cloud.refusal = "InvalidVolume.ZoneMismatch: The volume 'vol-0a' is not in the same availability zone"
    cluster.deploy(mounting(gpu_deployment()))
    message = eventually(lambda: cluster.event("FailedAttachVolume"))
    assert message.startswith('AttachVolume.Attach failed for volume "weights-a" : rpc error: code = Internal desc = ')
    assert "ZoneMismatch" in message
    assert cluster.pod().status.phase == "Pending"
    cloud.refusal = ""
    stays(lambda: not cloud.calls)
    cluster.clock.advance(5)
    eventually(lambda: cloud.calls)
    eventually_later(cluster.clock, cluster.ready)


def test_a_volume_is_on_one_node_at_a_time(cluster, cloud):
    cluster.nodes.append(gpu_node(B))
    cluster.deploy(mounting(gpu_deployment("first")))
    eventually(lambda: len(cloud.calls) == 1)
    cluster.deploy(mounting(gpu_deployment("second")))
    message = eventually(lambda: cluster.event("FailedAttachVolume"))
    assert message.startswith('Multi-Attach error for volume "weights-a" Volume is already exclusively attached')
    cluster.apps.delete_namespaced_deployment("first", "kimi")
    eventually_later(cluster.clock, lambda: [call[0] for call in cloud.calls] == ["attach", "detach", "attach"])


def test_storage_in_use_is_not_deleted(cluster):
    cluster.deploy(mounting(gpu_deployment()))
    eventually(lambda: cluster.pod().spec.node_name)
    cluster.core.delete_namespaced_persistent_volume_claim("weights-a", "kimi")
    cluster.core.delete_persistent_volume("weights-a")
    stays(lambda: cluster.core.read_persistent_volume("weights-a").metadata.deletion_timestamp)
    assert cluster.core.read_namespaced_persistent_volume_claim("weights-a", "kimi").metadata.deletion_timestamp
    cluster.apps.delete_namespaced_deployment("vllm", "kimi")
    eventually_later(cluster.clock, lambda: cluster.core.list_persistent_volume().items == [])
    with refused(404):
        cluster.core.read_namespaced_persistent_volume_claim("weights-a", "kimi")
