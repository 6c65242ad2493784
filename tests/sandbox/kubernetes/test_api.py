"""The calls that the official client makes, each with what a real API server answers."""

import base64
import json
import threading
import time
import urllib.error
import urllib.request

import pytest
from kubernetes import client, watch

from infra.sandbox.kubernetes.controllers.pod_lifecycle import Durations
from tests.sandbox.kubernetes.builders import claim, cpu_node, deployment, eventually, refused, volume

POD = {"metadata": {"name": "p1", "labels": {"app": "vllm"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}


def pod(name, node=None, **labels):
    body = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    if node:
        body["spec"]["nodeName"] = node
    return body


@pytest.fixture
def cluster(start_cluster):
    return start_cluster([cpu_node("n1")], durations=Durations(0, 0, orphaned_pod_s=40))


def test_version(cluster):
    assert client.VersionApi(cluster.client).get_code().minor == "36"


def test_create_fills_in_metadata(cluster):
    made = cluster.deploy(deployment())
    assert made.metadata.uid
    assert int(made.metadata.resource_version) > 0
    assert made.metadata.generation == 1
    assert made.metadata.creation_timestamp.isoformat() == "2026-03-02T09:00:00+00:00"
    assert made.spec.template.spec.termination_grace_period_seconds == 30


def test_typed_bodies_are_taken(cluster):
    container = client.V1Container(name="c", image="i:1")
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"a": "b"}), spec=client.V1PodSpec(containers=[container])
    )
    body = client.V1Deployment(
        api_version="apps/v1",
        kind="Deployment",
        metadata=client.V1ObjectMeta(name="typed"),
        spec=client.V1DeploymentSpec(selector=client.V1LabelSelector(match_labels={"a": "b"}), template=template),
    )
    assert cluster.deploy(body).spec.replicas == 1


def test_second_create_conflicts_and_missing_is_not_found(cluster):
    cluster.deploy(deployment())
    with refused(409, "AlreadyExists", 'deployments.apps \\"vllm\\" already exists'):
        cluster.deploy(deployment())
    with refused(404, 'deployments.apps \\"other\\" not found'):
        cluster.apps.read_namespaced_deployment("other", "kimi")
    with refused(404, 'namespaces \\"ghost\\" not found'):
        cluster.deploy(deployment(), "ghost")
    with refused(404, "the server could not find the requested resource"):
        client.CustomObjectsApi(cluster.client).list_cluster_custom_object("policy", "v1beta1", "podsecuritypolicies")


def test_controller_makes_pods_and_status(cluster):
    cluster.deploy(deployment(replicas=2))
    status = eventually(
        lambda: (s := cluster.apps.read_namespaced_deployment("vllm", "kimi").status).available_replicas == 2 and s
    )
    assert (status.replicas, status.ready_replicas, status.observed_generation) == (2, 2, 1)
    assert {one.type: one.status for one in status.conditions} == {"Available": "True", "Progressing": "True"}
    assert len(cluster.pods()) == 2
    assert cluster.pods()[0].metadata.owner_references[0].name == "vllm"


def test_scale(cluster):
    cluster.deploy(deployment(replicas=2))
    eventually(lambda: len(cluster.pods()) == 2)
    answer = cluster.apps.patch_namespaced_deployment_scale("vllm", "kimi", {"spec": {"replicas": 0}})
    assert (answer.kind, answer.spec.replicas) == ("Scale", 0)
    eventually(lambda: all(one.metadata.deletion_timestamp for one in cluster.pods()))
    cluster.clock.advance(1)
    eventually(lambda: cluster.pods() == [])
    assert cluster.apps.read_namespaced_deployment_scale("vllm", "kimi").status.selector == "app=vllm"
    cluster.apps.patch_namespaced_deployment("vllm", "kimi", {"spec": {"replicas": 3}})
    eventually(lambda: len(cluster.pods()) == 3)
    with refused(422, "spec.replicas: Invalid value: -1"):
        cluster.apps.patch_namespaced_deployment_scale("vllm", "kimi", {"spec": {"replicas": -1}})


def test_strategic_merge_keeps_other_fields_of_a_container(cluster):
    cluster.deploy(deployment(replicas=0))
    env = {"spec": {"template": {"spec": {"containers": [{"name": "vllm", "env": [{"name": "A", "value": "1"}]}]}}}}
    changed = cluster.apps.patch_namespaced_deployment("vllm", "kimi", env)
    container = changed.spec.template.spec.containers[0]
    assert (container.image, container.env[0].value) == ("vllm/vllm-openai:v0.32.0", "1")
    assert changed.metadata.generation == 2
    gone = {
        "spec": {"template": {"spec": {"containers": [{"name": "vllm", "env": [{"name": "A", "$patch": "delete"}]}]}}}
    }
    changed = cluster.apps.patch_namespaced_deployment("vllm", "kimi", gone)
    assert not changed.spec.template.spec.containers[0].env


def test_json_and_merge_patch(cluster):
    cluster.deploy(deployment(replicas=0))
    changed = cluster.apps.patch_namespaced_deployment(
        "vllm", "kimi", [{"op": "replace", "path": "/spec/replicas", "value": 4}]
    )
    assert changed.spec.replicas == 4
    with refused(422, "rejected our request"):
        cluster.apps.patch_namespaced_deployment("vllm", "kimi", [{"op": "remove", "path": "/spec/nothing"}])
    changed = cluster.apps.patch_namespaced_deployment("vllm", "kimi", {"metadata": {"labels": {"app": None}}})
    assert not changed.metadata.labels


def test_server_side_apply(cluster):
    def apply(body, manager, force=False):
        return cluster.apps.patch_namespaced_deployment(
            "vllm", "kimi", body, field_manager=manager, force=force, _content_type="application/apply-patch+yaml"
        )

    body = deployment(replicas=0)
    body["metadata"]["annotations"] = {"dormouse.dev/note": "one"}
    made = apply(body, "pulumi")
    assert [(one.manager, one.operation) for one in made.metadata.managed_fields] == [("pulumi", "Apply")]
    assert "f:replicas" in made.metadata.managed_fields[0].fields_v1["f:spec"]
    small = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "vllm"}, "spec": {"replicas": 2}}
    with refused(409, 'Apply failed with 1 conflict: conflict with \\"pulumi\\": .spec.replicas'):
        apply(small, "jobs")
    assert apply(small, "jobs", force=True).spec.replicas == 2
    del body["metadata"]["annotations"]
    del body["spec"]["replicas"]
    again = apply(body, "pulumi")
    assert not again.metadata.annotations
    assert again.spec.replicas == 2


def test_replace_and_stale_resource_version(cluster):
    made = cluster.deploy(deployment(replicas=0))
    cluster.apps.patch_namespaced_deployment("vllm", "kimi", {"spec": {"replicas": 1}})
    with refused(409, "the object has been modified"):
        cluster.apps.replace_namespaced_deployment("vllm", "kimi", made)
    body = deployment(replicas=5)
    assert cluster.apps.replace_namespaced_deployment("vllm", "kimi", body).spec.replicas == 5


def test_selectors(cluster):
    for body in (pod("a", app="vllm"), pod("b", app="vllm", tier="test"), pod("c", node="elsewhere", app="web")):
        cluster.core.create_namespaced_pod("kimi", body)

    def names(**query):
        return [one.metadata.name for one in cluster.core.list_namespaced_pod("kimi", **query).items]

    assert names(label_selector="app=nothing") == []
    assert names(label_selector="app in (vllm),!tier") == ["a"]
    assert names(label_selector="app notin (vllm)") == ["c"]
    assert names(label_selector="tier") == ["b"]
    assert names(label_selector="app!=web,tier=test") == ["b"]
    assert names(field_selector="spec.nodeName=elsewhere") == ["c"]
    assert names(field_selector="metadata.name!=a,spec.nodeName!=elsewhere") == ["b"]
    assert len(cluster.core.list_pod_for_all_namespaces().items) == 3
    with refused(400, "unable to parse requirement"):
        names(label_selector="app in vllm")


def test_pages(cluster):
    for name in "abc":
        cluster.core.create_namespaced_pod("kimi", pod(name))
    first = cluster.core.list_namespaced_pod("kimi", limit=2)
    assert first.metadata.remaining_item_count == 1
    cluster.core.delete_namespaced_pod("a", "kimi", grace_period_seconds=0)
    rest = cluster.core.list_namespaced_pod("kimi", limit=2, _continue=first.metadata._continue)
    assert [one.metadata.name for one in rest.items] == ["c"]
    assert rest.metadata._continue is None


def test_log_and_eviction(cluster):
    cluster.deploy(deployment())
    eventually(cluster.ready)
    name = cluster.pod().metadata.name
    assert "Application startup complete." in cluster.core.read_namespaced_pod_log(name, "kimi")
    assert cluster.core.read_namespaced_pod_log(name, "kimi", tail_lines=1).count("\n") == 1
    with refused(400, "container nope is not valid for pod"):
        cluster.core.read_namespaced_pod_log(name, "kimi", container="nope")
    policy = client.PolicyV1Api(cluster.client)
    budget = {"metadata": {"name": "one"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "vllm"}}}}
    policy.create_namespaced_pod_disruption_budget("kimi", budget)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    with refused(429, "Cannot evict pod as it would violate the pod's disruption budget."):
        cluster.core.create_namespaced_pod_eviction(name, "kimi", eviction)
    policy.delete_namespaced_pod_disruption_budget("one", "kimi")
    cluster.core.create_namespaced_pod_eviction(name, "kimi", eviction)
    # On the fast clock its grace period may be over before it is looked at.
    left = [pod for pod in cluster.core.list_namespaced_pod("kimi").items if pod.metadata.name == name]
    assert all(pod.metadata.deletion_timestamp for pod in left)


def test_nodes_can_be_cordoned(cluster):
    assert [one.metadata.name for one in cluster.core.list_node().items] == ["n1"]
    cluster.core.patch_node("n1", {"spec": {"unschedulable": True}})
    cluster.core.create_namespaced_pod("kimi", POD)
    message = eventually(lambda: cluster.event("FailedScheduling"))
    assert message.startswith("0/1 nodes are available: 1 node(s) were unschedulable.")
    cluster.core.patch_node("n1", {"spec": {"unschedulable": None}})
    eventually(lambda: cluster.pod().spec.node_name == "n1")


def test_config_maps_secrets_services_accounts(cluster):
    core = cluster.core
    core.create_namespaced_config_map("kimi", {"metadata": {"generateName": "settings-"}, "data": {"a": "b"}})
    assert [one.metadata.name[:9] for one in core.list_namespaced_config_map("kimi").items] == ["settings-"]
    core.create_namespaced_secret("kimi", {"metadata": {"name": "key"}, "stringData": {"api-key": "s3cret"}})
    secret = core.read_namespaced_secret("key", "kimi")
    assert base64.b64decode(secret.data["api-key"]) == b"s3cret"
    assert (secret.string_data, secret.type) == (None, "Opaque")
    core.create_namespaced_service("kimi", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
    assert core.read_namespaced_service("web", "kimi").spec.ports[0].target_port == 80
    core.create_namespaced_service_account("kimi", {"metadata": {"name": "loader"}})
    assert core.read_namespaced_service_account("loader", "kimi").metadata.uid


def test_lease_is_a_lock(cluster):
    leases = client.CoordinationV1Api(cluster.client)
    body = {
        "metadata": {"name": "operation"},
        "spec": {"holderIdentity": "a", "renewTime": "2026-03-02T09:00:00.000000Z"},
    }
    held = leases.create_namespaced_lease("kimi", body)
    leases.patch_namespaced_lease("operation", "kimi", {"spec": {"holderIdentity": "b"}})
    held.spec.holder_identity = "a"
    with refused(409, "Conflict"):
        leases.replace_namespaced_lease("operation", "kimi", held)


def test_jobs_run_and_cron_jobs_are_kept(cluster):
    batch = client.BatchV1Api(cluster.client)
    template = {
        "metadata": {"annotations": {"dormouse.dev/planned-run-s": "60"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]},
    }
    batch.create_namespaced_job("kimi", {"metadata": {"name": "load"}, "spec": {"template": template}})
    eventually(lambda: cluster.pod().status.phase == "Running")
    assert batch.read_namespaced_job("load", "kimi").status.active == 1
    cluster.clock.advance(61)
    eventually(lambda: batch.read_namespaced_job("load", "kimi").status.succeeded == 1)
    assert cluster.pod().status.phase == "Succeeded"
    spec = {"schedule": "0 19 * * *", "jobTemplate": {"spec": {"template": template}}}
    batch.create_namespaced_cron_job("kimi", {"metadata": {"name": "nightly"}, "spec": spec})
    assert batch.list_namespaced_cron_job("kimi").items[0].spec.schedule == "0 19 * * *"


def test_custom_resources(cluster):
    custom = client.CustomObjectsApi(cluster.client)
    body = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu"}, "spec": {"weight": 1}}
    custom.create_cluster_custom_object("karpenter.sh", "v1", "nodepools", body)
    custom.patch_cluster_custom_object("karpenter.sh", "v1", "nodepools", "gpu", {"spec": {"weight": 2}})
    listed = custom.list_cluster_custom_object("karpenter.sh", "v1", "nodepools")
    assert (listed["kind"], listed["items"][0]["spec"]["weight"]) == ("NodePoolList", 2)


def test_watch_sees_objects_enter_and_leave_its_selector(cluster):
    seen = []

    def follow():
        stream = watch.Watch().stream(
            cluster.core.list_namespaced_pod, "kimi", label_selector="app=vllm", timeout_seconds=2
        )
        seen.extend((event["type"], event["object"].metadata.name) for event in stream)

    cluster.core.patch_node("n1", {"spec": {"unschedulable": True}})
    cluster.core.create_namespaced_pod("kimi", pod("first", app="vllm"))
    thread = threading.Thread(target=follow)
    thread.start()
    time.sleep(0.4)
    cluster.core.create_namespaced_pod("kimi", pod("second", app="web"))
    cluster.core.patch_namespaced_pod("second", "kimi", {"metadata": {"labels": {"app": "vllm"}}})
    cluster.core.patch_namespaced_pod("second", "kimi", {"metadata": {"labels": {"app": "web"}}})
    cluster.core.delete_namespaced_pod("first", "kimi")
    thread.join(timeout=10)
    kept = [one for one in seen if one[0] != "MODIFIED"]
    assert kept == [("ADDED", "first"), ("ADDED", "second"), ("DELETED", "second"), ("DELETED", "first")]


def test_watch_ends_with_the_server(start_cluster):
    cluster = start_cluster()
    began = time.monotonic()
    threading.Timer(0.3, lambda: cluster.server.__exit__(None, None, None)).start()
    with urllib.request.urlopen(f"{cluster.server.url}/api/v1/pods?watch=true&timeoutSeconds=60") as stream:
        stream.read()
    assert time.monotonic() - began < 5


def test_dry_run_leaves_nothing(cluster):
    made = cluster.apps.create_namespaced_deployment("kimi", deployment(), dry_run="All")
    assert made.metadata.uid
    assert cluster.apps.list_namespaced_deployment("kimi").items == []
    cluster.deploy(deployment(replicas=0))
    cluster.apps.patch_namespaced_deployment("vllm", "kimi", {"spec": {"replicas": 9}}, dry_run="All")
    cluster.apps.delete_namespaced_deployment("vllm", "kimi", dry_run="All")
    assert cluster.apps.read_namespaced_deployment("vllm", "kimi").spec.replicas == 0


def test_deletion_takes_what_is_owned(cluster):
    cluster.deploy(deployment(replicas=2))
    eventually(lambda: len(cluster.pods()) == 2)
    cluster.apps.delete_namespaced_deployment("vllm", "kimi")
    with refused(404):
        cluster.apps.read_namespaced_deployment("vllm", "kimi")
    cluster.clock.advance(1)
    eventually(lambda: cluster.pods() == [])


def test_foreground_deletion_waits_for_the_pods(cluster):
    cluster.deploy(deployment(terminationGracePeriodSeconds=60))
    eventually(cluster.ready)
    name = cluster.pod().metadata.name
    cluster.core.patch_namespaced_pod(name, "kimi", {"metadata": {"finalizers": ["test/hold"]}})
    cluster.apps.delete_namespaced_deployment("vllm", "kimi", propagation_policy="Foreground")
    cluster.clock.advance(61)
    assert cluster.apps.read_namespaced_deployment("vllm", "kimi").metadata.deletion_timestamp
    cluster.core.patch_namespaced_pod(name, "kimi", {"metadata": {"finalizers": None}})
    eventually(lambda: cluster.apps.list_namespaced_deployment("kimi").items == [])


def test_finalizers_hold_a_deletion(cluster):
    body = {"metadata": {"name": "held", "finalizers": ["test/hold"]}}
    cluster.core.create_namespaced_config_map("kimi", body)
    cluster.core.delete_namespaced_config_map("held", "kimi")
    assert cluster.core.read_namespaced_config_map("held", "kimi").metadata.deletion_timestamp
    cluster.core.patch_namespaced_config_map("held", "kimi", {"metadata": {"finalizers": None}})
    with refused(404):
        cluster.core.read_namespaced_config_map("held", "kimi")


def test_namespace_takes_its_objects_with_it(cluster):
    cluster.core.create_persistent_volume(volume())
    cluster.core.create_namespaced_persistent_volume_claim("kimi", claim())
    cluster.deploy(deployment(terminationGracePeriodSeconds=60))
    eventually(cluster.ready)
    hold = {"metadata": {"finalizers": ["test/hold"]}}
    cluster.core.patch_namespaced_pod(cluster.pod().metadata.name, "kimi", hold)
    cluster.core.delete_namespace("kimi")
    assert cluster.core.read_namespace("kimi").status.phase == "Terminating"
    with refused(403, "because it is being terminated"):
        cluster.core.create_namespaced_config_map("kimi", {"metadata": {"name": "late"}})
    release = {"metadata": {"finalizers": None}}
    cluster.core.patch_namespaced_pod(cluster.pod().metadata.name, "kimi", release)
    cluster.clock.advance(61)
    eventually(lambda: "kimi" not in [one.metadata.name for one in cluster.core.list_namespace().items])
    assert eventually(lambda: cluster.core.read_persistent_volume("weights-a").status.phase == "Released")


def test_tokens(start_cluster):
    known = {"admin": ("arn:aws:iam::123456789012:role/admin", ["system:masters"]), "reader": ("reader", ["viewers"])}
    cluster = start_cluster(token="admin", authenticate=known.get)
    url = f"{cluster.server.url}/api/v1/namespaces/kimi/pods"

    def status(token):
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())["message"]

    assert status("admin") == (200, "")
    assert status("")[0] == 401
    assert status("wrong") == (401, "Unauthorized")
    words = 'pods is forbidden: User "reader" cannot list resource "pods" in API group "" in the namespace "kimi"'
    assert status("reader") == (403, words)
