"""The Kubernetes half of an observation: nodes, Deployments, pods, what vLLM is doing, and the lock."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from infra.jobs.clients import Clients
from infra.jobs.kubernetes_api import KubernetesApi, KubernetesError, NotFound
from infra.jobs.metrics import parse_requests
from infra.jobs.observation import (
    FAILED,
    LOADING,
    PENDING,
    READY,
    TERMINATING,
    DeploymentView,
    OperationView,
    PodView,
    Requests,
)
from infra.outputs import StackOutputs
from serving.engine_args import ENGINE_PORT
from serving.manifests.labels import (
    ACCEPTING_LABEL,
    CHANGED_ANNOTATION,
    GOAL_ANNOTATION,
    MOVING_ANNOTATION,
    PLANNED_LOAD_ANNOTATION,
    REASON_ANNOTATION,
    STATE_ANNOTATION,
)
from serving.weights.marker import CHECK_CONTAINER

VLLM_CONTAINER = "vllm"
LEASE_NAME = "dormouse-operation"

# The kubelet's words for a container that will not start by waiting alone.
_BLOCKED = {
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
}


class Read(Protocol):
    """Runs a call; None after noting why it failed."""

    def __call__(self, what: str, call: Callable[[], Any], /) -> Any:
        """Run `call`, which reads `what`."""
        ...


@dataclass(frozen=True)
class NodeView:
    """A Kubernetes node, whether it is Ready, and whether it is cordoned: takes no new pods."""

    name: str
    is_ready: bool
    is_cordoned: bool = False


def observe_nodes(api: KubernetesApi) -> dict[str, NodeView]:
    """Every node of a node group, by EC2 instance id."""
    nodes: dict[str, NodeView] = {}
    for node in api.list("/api/v1/nodes", label_selector="eks.amazonaws.com/nodegroup"):
        instance_id = str(part(node, "spec").get("providerID", "")).rsplit("/", 1)[-1]
        nodes[instance_id] = NodeView(
            node["metadata"]["name"],
            condition(node, "Ready").get("status") == "True",
            bool(part(node, "spec").get("unschedulable")),
        )
    return nodes


def observe_deployments(
    outputs: StackOutputs, clients: Clients, read: Read, reachable: bool
) -> tuple[DeploymentView, ...]:
    """One view for each Deployment that the slots name."""
    zones = {slot.deployment_name: slot.zone for slot in outputs.slots}
    if not reachable:
        return tuple(DeploymentView(name, zone, None, None) for name, zone in zones.items())
    return tuple(_deployment(outputs, clients.kubernetes, name, zone, read) for name, zone in zones.items())


def observe_operation(namespace: str, api: KubernetesApi) -> OperationView | None:
    """Who holds the environment's lock, or None."""
    try:
        lease = api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE_NAME}")
    except NotFound:
        return None
    spec = part(lease, "spec")
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return None
    annotations = part(lease, "metadata", "annotations")
    return OperationView(annotations.get(GOAL_ANNOTATION, ""), spec["holderIdentity"], instant(spec["renewTime"]))


def deployment_path(namespace: str, name: str) -> str:
    """Where the API server keeps a Deployment."""
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"


def pod_path(namespace: str, name: str) -> str:
    """Where the API server keeps a pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def read_requests(api: KubernetesApi, namespace: str, pod_name: str) -> tuple[Requests | None, str]:
    """What the pod's vLLM is doing, or None and why that is unknown."""
    try:
        page = api.get_text(f"/api/v1/namespaces/{namespace}/pods/{pod_name}:{ENGINE_PORT}/proxy/metrics")
    except KubernetesError as error:
        return None, error.message
    requests = parse_requests(page)
    return requests, "" if requests else "the metrics page names no running and waiting requests"


def condition(thing: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A status condition of that type; empty where there is none."""
    conditions: list[dict[str, Any]] = part(thing, "status").get("conditions") or []
    for one in conditions:
        if one.get("type") == kind:
            return one
    return {}


def part(thing: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """A nested object, such as `part(pod, "status")`; empty where it is absent or null."""
    found: dict[str, Any] = dict(thing)
    for key in keys:
        found = found.get(key) or {}
    return found


def instant(text: str) -> datetime:
    """A time stamp of the API server as an aware time."""
    return datetime.fromisoformat(text)


def _deployment(outputs: StackOutputs, api: KubernetesApi, name: str, zone: str, read: Read) -> DeploymentView:
    deployment: dict[str, Any] | None = read(
        f"Deployment {name}", lambda: api.get(deployment_path(outputs.namespace, name))
    )
    if deployment is None:
        return DeploymentView(name, zone, None, None)
    labels: dict[str, str] = deployment["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    pods: list[dict[str, Any]] | None = read(
        f"pods of {name}",
        lambda: api.list(f"/api/v1/namespaces/{outputs.namespace}/pods", label_selector=selector),
    )
    annotations = part(deployment, "metadata", "annotations")
    return DeploymentView(
        name=name,
        zone=zone,
        replicas=int(deployment["spec"].get("replicas", 1)),
        pods=None if pods is None else tuple(_pod(pod, outputs, api) for pod in pods),
        state=annotations.get(STATE_ANNOTATION, ""),
        reason=annotations.get(REASON_ANNOTATION, ""),
        changed_at=annotations.get(CHANGED_ANNOTATION, ""),
        moving=annotations.get(MOVING_ANNOTATION, ""),
    )


def _pod(pod: dict[str, Any], outputs: StackOutputs, api: KubernetesApi) -> PodView:
    name: str = pod["metadata"]["name"]
    spec, status = part(pod, "spec"), part(pod, "status")
    containers: list[dict[str, Any]] = status.get("containerStatuses") or []
    sidecars: list[dict[str, Any]] = status.get("initContainerStatuses") or []
    vllm = next((one for one in containers if one.get("name") == VLLM_CONTAINER), dict[str, Any]())
    waits = [part(one, "state", "waiting") for one in [*containers, *sidecars]]
    waiting = next((one for one in waits if one), dict[str, Any]())
    phase, since = _phase(pod, vllm)
    requests, requests_unknown = None, ""
    if phase == READY or (phase == TERMINATING and vllm.get("ready")):
        requests, requests_unknown = read_requests(api, outputs.namespace, name)
    word = str(waiting.get("reason", ""))
    return PodView(
        name=name,
        phase=phase,
        reason=_reason(pod, phase, waiting, api, outputs.namespace),
        node_name=spec.get("nodeName"),
        since=since,
        accepting=part(pod, "metadata", "labels").get(ACCEPTING_LABEL) != "false",
        blocked=word if word in _BLOCKED else None,
        restarts=int(vllm.get("restartCount", 0)),
        planned_load_s=_number(
            part(pod, "metadata", "annotations").get(PLANNED_LOAD_ANNOTATION), float(outputs.planned_load_s)
        ),
        grace_period_s=float(spec.get("terminationGracePeriodSeconds", 30)),
        requests=requests,
        requests_unknown=requests_unknown,
        unproven=_unproven(sidecars) if phase == PENDING else "",
    )


def _unproven(starters: list[dict[str, Any]]) -> str:
    """What the weights-check said when it last ended with 1; another end, such as for memory, says nothing of weights."""
    check = next((one for one in starters if one.get("name") == CHECK_CONTAINER), dict[str, Any]())
    for state in ("state", "lastState"):
        ended = part(check, state, "terminated")
        if ended.get("exitCode") == 1:
            return str(ended.get("message") or f"{CHECK_CONTAINER} ended with 1 and left no words").strip()
    return ""


def _reason(pod: dict[str, Any], phase: str, waiting: dict[str, Any], api: KubernetesApi, namespace: str) -> str:
    """Why the pod is not Ready, in the words of the scheduler, the kubelet or an event."""
    if phase not in (PENDING, LOADING, FAILED):
        return ""
    source = part(pod, "status") if phase == FAILED else waiting
    words = " ".join(str(source[key]) for key in ("reason", "message") if source.get(key))
    unscheduled = condition(pod, "PodScheduled")
    if unscheduled.get("status") == "False":
        return str(unscheduled.get("message", "not scheduled"))
    if phase == PENDING:
        return _last_warning(api, namespace, pod["metadata"]["name"]) or words
    return words


def _phase(pod: dict[str, Any], vllm: dict[str, Any]) -> tuple[str, datetime | None]:
    phase, metadata = part(pod, "status").get("phase"), part(pod, "metadata")
    if phase in ("Failed", "Succeeded"):
        return FAILED, None
    if metadata.get("deletionTimestamp"):
        return TERMINATING, instant(metadata["deletionTimestamp"])
    ready = condition(pod, "Ready")
    if ready.get("status") == "True":
        since = ready.get("lastTransitionTime")
        return READY, instant(since) if since else None
    started = part(vllm, "state", "running").get("startedAt")
    if started:
        return LOADING, instant(started)
    if phase == "Running":
        return LOADING, None
    created = metadata.get("creationTimestamp")
    return PENDING, instant(created) if created else None


def _last_warning(api: KubernetesApi, namespace: str, pod_name: str) -> str:
    """The newest warning about the pod, such as a volume that does not attach; empty where none can be read."""
    try:
        events = api.list(
            f"/api/v1/namespaces/{namespace}/events", field_selector=f"involvedObject.name={pod_name},type=Warning"
        )
    except KubernetesError:
        return ""
    # A pod that got past scheduling keeps its old FailedScheduling events.
    events = [one for one in events if one.get("reason") != "FailedScheduling"]
    if not events:
        return ""
    last = max(events, key=lambda one: str(one.get("lastTimestamp") or one.get("eventTime") or ""))
    return f"{last.get('reason', '')} {last.get('message', '')}".strip()


def _number(text: object, otherwise: float) -> float:
    try:
        return float(str(text))
    except ValueError:
        return otherwise
