"""What is refused, in the API server's words."""

import pytest

from infra.clock import SystemClock
from infra.jobs.kubernetes_api import KubernetesApi, KubernetesError
from infra.sandbox.kubernetes.quantities import parse_quantity
from infra.sandbox.kubernetes.server import KubernetesServer
from tests.sandbox.kubernetes.builders import claim, deployment, gpu_deployment, refused, volume


@pytest.fixture
def cluster(start_cluster):
    return start_cluster()


def container_of(body):
    return body["spec"]["template"]["spec"]["containers"][0]


def change_container(**fields):
    return lambda body: container_of(body).update(fields)


def change_pod(**fields):
    return lambda body: body["spec"]["template"]["spec"].update(fields)


def change_spec(**fields):
    return lambda body: body["spec"].update(fields)


PROBE = {"httpGet": {"path": "/health", "port": 8000}, "tcpSocket": {"port": 8000}}
WHERE = "spec.template.spec.containers[0]"

FAULTS = [
    (change_spec(replicas="two"), 400, "json: cannot unmarshal string into field spec.replicas of type integer"),
    (
        change_container(args=[1]),
        400,
        "json: cannot unmarshal number into field spec.template.spec.containers[0].args[0]",
    ),
    (change_spec(replica=1), 400, 'strict decoding error: unknown field "spec.replica"'),
    (lambda body: body["spec"].pop("selector"), 422, "spec.selector: Required value"),
    (
        change_spec(selector={"matchLabels": {"app": "other"}}),
        422,
        'spec.template.metadata.labels: Invalid value: {"app":"vllm"}: `selector` does not match template `labels`',
    ),
    (
        change_container(volumeMounts=[{"name": "weights", "mountPath": "/weights"}]),
        422,
        f'{WHERE}.volumeMounts[0].name: Not found: "weights"',
    ),
    (
        change_pod(containers=[{"name": "a", "image": "i"}, {"name": "a", "image": "i"}]),
        422,
        'spec.template.spec.containers[1].name: Duplicate value: "a"',
    ),
    (
        change_pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
        422,
        'spec.template.spec.volumes[1].name: Duplicate value: "v"',
    ),
    (change_container(resources={"limits": {"memory": "12GiB"}}), 400, "quantities must match the regular expression"),
    (
        change_container(resources={"limits": {"nvidia.com/gpu": "500m"}}),
        422,
        f'{WHERE}.resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer',
    ),
    (
        change_container(resources={"limits": {"nvidia.com/gpu": "8"}, "requests": {"nvidia.com/gpu": "4"}}),
        422,
        f'{WHERE}.resources.requests: Invalid value: "4": must be equal to nvidia.com/gpu limit of 8',
    ),
    (
        change_container(resources={"requests": {"nvidia.com/gpu": "8"}}),
        422,
        f"{WHERE}.resources.limits: Required value: Limit must be set for non overcommitable resources",
    ),
    (
        change_container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        422,
        f'{WHERE}.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    (
        change_container(livenessProbe=PROBE),
        422,
        f"{WHERE}.livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
    ),
    (change_container(name="Main"), 422, f'{WHERE}.name: Invalid value: "Main": a lowercase RFC 1123 label'),
    (change_container(imagePullPolicy="Sometimes"), 422, 'imagePullPolicy: Unsupported value: "Sometimes"'),
    (change_pod(restartPolicy="Never"), 422, 'restartPolicy: Unsupported value: "Never": supported values: "Always"'),
    (change_pod(tolerations=[{"key": "a", "operator": "Is"}]), 422, 'tolerations[0].operator: Unsupported value: "Is"'),
    (
        change_pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        422,
        "value must be empty when `operator` is 'Exists'",
    ),
    (
        change_spec(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        422,
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ),
    (lambda body: body["metadata"].update(name="Vllm"), 422, 'metadata.name: Invalid value: "Vllm"'),
    (lambda body: body["metadata"].update(labels={"a": "b c"}), 422, 'metadata.labels: Invalid value: "b c"'),
    (lambda body: body.update(apiVersion="apps/v1beta1"), 400, "does not match the expected API version (apps/v1)"),
    (lambda body: body["metadata"].update(namespace="x"), 400, "does not match the namespace sent on the request"),
]


@pytest.mark.parametrize(("break_it", "code", "words"), FAULTS, ids=[fault[2][-40:] for fault in FAULTS])
def test_broken_deployments_are_refused(cluster, break_it, code, words):
    body = deployment()
    break_it(body)
    api = KubernetesApi(cluster.server.url, "", lambda: "token")
    with pytest.raises(KubernetesError) as caught:
        api.create("/apis/apps/v1/namespaces/kimi/deployments", body)
    assert caught.value.status == code
    assert words in caught.value.message
    assert cluster.apps.list_namespaced_deployment("kimi").items == []


def test_every_fault_is_named_at_once(cluster):
    body = gpu_deployment()
    container_of(body).update(name="Main", volumeMounts=[{"name": "weights", "mountPath": "/weights"}])
    with refused(422, 'Deployment.apps \\"vllm\\" is invalid: [', "containers[0].name", "volumeMounts[0].name"):
        cluster.deploy(body)


def test_a_patch_is_checked_as_well(cluster):
    cluster.deploy(deployment(replicas=0))
    api = KubernetesApi(cluster.server.url, "", lambda: "token")
    with pytest.raises(KubernetesError, match=r'unknown field "spec.replica"'):
        api.patch("/apis/apps/v1/namespaces/kimi/deployments/vllm", {"spec": {"replica": 1}})
    labels = {"selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}}}
    with refused(422, 'spec.selector: Invalid value: {\\"matchLabels\\":{\\"app\\":\\"b\\"}}: field is immutable'):
        cluster.apps.patch_namespaced_deployment("vllm", "kimi", {"spec": labels})


def test_volumes_keep_their_source_and_zone(cluster):
    cluster.core.create_persistent_volume(volume())
    source = {"spec": {"csi": {"volumeHandle": "vol-other"}}}
    with refused(422, "spec.persistentvolumesource is immutable after creation"):
        cluster.core.patch_persistent_volume("weights-a", source)
    moved = {"spec": {"nodeAffinity": volume(zone="us-east-2b")["spec"]["nodeAffinity"]}}
    with refused(422, "spec.nodeAffinity: Invalid value", "field is immutable"):
        cluster.core.patch_persistent_volume("weights-a", moved)
    grown = cluster.core.patch_persistent_volume("weights-a", {"spec": {"capacity": {"storage": "800Gi"}}})
    assert grown.spec.capacity["storage"] == "800Gi"


def test_claims_are_immutable(cluster):
    cluster.core.create_namespaced_persistent_volume_claim("kimi", claim())
    with refused(422, "spec is immutable after creation except resources.requests"):
        cluster.core.patch_namespaced_persistent_volume_claim(
            "weights-a", "kimi", {"spec": {"storageClassName": "gp3"}}
        )


def test_pods_do_not_change_their_commands(cluster):
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    cluster.core.create_namespaced_pod("kimi", body)
    image = {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}
    assert cluster.core.patch_namespaced_pod("p", "kimi", image).spec.containers[0].image == "i:2"
    command = {"spec": {"containers": [{"name": "c", "command": ["sh"]}]}}
    with refused(422, "pod updates may not change fields other than"):
        cluster.core.patch_namespaced_pod("p", "kimi", command)


def test_services_need_a_dns_label_and_ports(cluster):
    with refused(422, "a DNS-1035 label", "spec.ports: Required value"):
        cluster.core.create_namespaced_service("kimi", {"metadata": {"name": "1st"}, "spec": {}})


def test_immutable_secrets(cluster):
    cluster.core.create_namespaced_secret(
        "kimi", {"metadata": {"name": "key"}, "immutable": True, "stringData": {"a": "b"}}
    )
    with refused(422, "field is immutable when `immutable` is set"):
        cluster.core.patch_namespaced_secret("key", "kimi", {"data": {"a": "Yw=="}})


def test_an_unknown_kubernetes_version_is_refused():
    with pytest.raises(ValueError, match=r"Kubernetes 9\.99: no schemas at hand"):
        KubernetesServer(SystemClock(), version="9.99")


@pytest.mark.parametrize(
    ("text", "number"), [("8", 8), ("500m", 0.5), ("1Gi", 2**30), ("1.5Ti", 1.5 * 2**40), ("2k", 2000), ("1e3", 1000)]
)
def test_quantities(text, number):
    assert float(parse_quantity(text)) == number


@pytest.mark.parametrize("text", ["", "8 GB", "GiB", "1GiB", "--1", "1..2"])
def test_no_quantities(text):
    with pytest.raises(ValueError, match="quantities must match"):
        parse_quantity(text)
