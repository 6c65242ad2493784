"""Subresources with a shape of their own: scale, eviction, log."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from infra.sandbox.kubernetes import hydrator_pages, vllm_pages
from infra.sandbox.kubernetes.conditions import is_ready
from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.listing import whole_number
from infra.sandbox.kubernetes.refusals import Cause, Refusal, bad_request, invalid, success
from infra.sandbox.kubernetes.resource_types import DISRUPTION_BUDGETS, PODS, ResourceType
from infra.sandbox.kubernetes.selectors import matches_labels
from infra.sandbox.kubernetes.store import Store
from serving.weights.marker import CHECK_CONTAINER

Object = dict[str, Any]


def scale_of(obj: Object) -> Object:
    """The Scale object of a workload."""
    metadata = {
        name: obj["metadata"][name]
        for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if name in obj["metadata"]
    }
    labels: dict[str, str] = child(child(obj["spec"], "selector"), "matchLabels")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": obj["spec"].get("replicas", 1)},
        "status": {
            "replicas": child(obj, "status").get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
        },
    }


def with_replicas(resource: ResourceType, obj: Object, scale: Mapping[str, Any]) -> Object:
    """The workload with a Scale object's replicas. Raises a 422 Refusal for a number that is none."""
    replicas = child(scale, "spec").get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        words = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise invalid(resource, obj["metadata"]["name"], [Cause("spec.replicas", "FieldValueInvalid", words)])
    metadata = {**obj["metadata"]}
    if version := child(scale, "metadata").get("resourceVersion"):
        metadata["resourceVersion"] = version
    return {**obj, "metadata": metadata, "spec": {**obj["spec"], "replicas": replicas}}


def evict(store: Store, namespace: str, name: str, body: Object, dry_run: bool) -> Object:
    """Delete a pod, unless a PodDisruptionBudget is against it: then a 429 Refusal."""
    pod = store.get(PODS, namespace, name)
    for budget in store.items(DISRUPTION_BUDGETS, namespace):
        if is_ready(pod) and matches_labels(budget["spec"].get("selector"), child(pod["metadata"], "labels")):
            _require_budget(store, budget, namespace)
    options: Object = child(body, "deleteOptions")
    store.delete(PODS, namespace, name, grace_period_s=options.get("gracePeriodSeconds"), dry_run=dry_run)
    return success()


def _require_budget(store: Store, budget: Object, namespace: str) -> None:
    spec: Object = budget["spec"]
    pods = [
        pod
        for pod in store.items(PODS, namespace)
        if matches_labels(spec.get("selector"), child(pod["metadata"], "labels"))
    ]
    healthy = sum(map(is_ready, pods))
    if "maxUnavailable" in spec:
        needed = len(pods) - _share(spec["maxUnavailable"], len(pods))
    else:
        needed = _share(spec.get("minAvailable", 0), len(pods))
    if healthy - 1 < needed:
        name: str = budget["metadata"]["name"]
        words = f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
        details = {"causes": [{"reason": "DisruptionBudget", "message": words}]}
        message = "Cannot evict pod as it would violate the pod's disruption budget."
        raise Refusal(429, "TooManyRequests", message, details)


def _share(value: int | str, total: int) -> int:
    if isinstance(value, int):
        return value
    # A percentage is rounded up, for what must stay as for what may go.
    return int(-(-Decimal(value.rstrip("%")) * total // 100))


def _refusal_log(statuses: list[Object], wanted: str) -> str:
    """What the weights-check said before it ended; empty for another container, or where it has refused nothing."""
    for status in statuses:
        words: str = child(child(status, "lastState"), "terminated").get("message", "")
        if status["name"] == wanted == CHECK_CONTAINER and words:
            return f"simulated: nothing lies on this volume, and so nothing was read\n{words}\n"
    return ""


def log_of(store: Store, namespace: str, name: str, query: Mapping[str, str]) -> str:
    """A container's log. Raises a 400 Refusal while it has not started, or where the pod has no such container."""
    pod = store.get(PODS, namespace, name)
    containers = [*children(pod["spec"], "initContainers"), *pod["spec"]["containers"]]
    names = [container["name"] for container in containers]
    main: str = pod["spec"]["containers"][0]["name"]
    wanted = query.get("container") or main
    if wanted not in names:
        raise bad_request(f"container {wanted} is not valid for pod {name}")
    statuses: list[Object] = [
        *children(pod["status"], "initContainerStatuses"),
        *children(pod["status"], "containerStatuses"),
    ]
    states = [child(status, "state") for status in statuses if status["name"] == wanted]
    state: Object = states[0] if states else {}
    if refused := _refusal_log(statuses, wanted):
        return refused
    if not statuses or "waiting" in state:
        reason = child(state, "waiting").get("reason", "ContainerCreating")
        raise bad_request(f'container "{wanted}" in pod "{name}" is waiting to start: {reason}')
    if wanted != main:
        lines = [f"simulated: log of {wanted}"]
    elif hydrator_pages.is_hydrator(pod):
        lines = hydrator_pages.log_lines(pod, store.time())
    else:
        lines = vllm_pages.log_lines(pod)
    if "tailLines" in query:
        count = whole_number(query, "tailLines", 0)
        lines = lines[-count:] if count else []
    return "".join(f"{line}\n" for line in lines)
