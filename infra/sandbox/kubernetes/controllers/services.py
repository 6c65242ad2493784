"""Endpoints follow the pods that a Service selects."""

from datetime import datetime
from typing import Any

from infra.sandbox.kubernetes.conditions import is_ready
from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.refusals import Refusal
from infra.sandbox.kubernetes.resource_types import ENDPOINTS, PODS, SERVICES
from infra.sandbox.kubernetes.store import Store

Object = dict[str, Any]


class EndpointsController:
    """Keeps one Endpoints object a Service: ready pods that stay, and apart from them pods that are not ready."""

    def __init__(self, store: Store) -> None:
        """Act on nothing yet."""
        self._store = store

    def reconcile(self) -> datetime | None:
        """One pass over all Services."""
        services = self._store.items(SERVICES)
        for service in services:
            if service["spec"].get("selector"):
                self._follow(service)
        return None

    def _follow(self, service: Object) -> None:
        namespace: str = service["metadata"]["namespace"]
        name: str = service["metadata"]["name"]
        selector: dict[str, str] = service["spec"]["selector"]
        pods = [
            pod
            for pod in self._store.items(PODS, namespace)
            if all(child(pod["metadata"], "labels").get(key) == value for key, value in selector.items())
            and pod["status"].get("podIP")
            and pod["status"].get("phase") == "Running"
            and not pod["metadata"].get("deletionTimestamp")
        ]
        subset: Object = {}
        ready = [_address(pod) for pod in pods if is_ready(pod)]
        loading = [_address(pod) for pod in pods if not is_ready(pod)]
        if ready:
            subset["addresses"] = ready
        if loading:
            subset["notReadyAddresses"] = loading
        if subset:
            subset["ports"] = [_port(port, pods[0]) for port in children(service["spec"], "ports")]
        subsets = [subset] if subset else []
        present = self._store.find(ENDPOINTS, namespace, name)
        if present is not None:
            self._store.update(ENDPOINTS, namespace, name, lambda obj: obj.update(subsets=subsets))
            return
        owner = {"apiVersion": "v1", "kind": "Service", "name": name, "uid": service["metadata"]["uid"]}
        body: Object = {"metadata": {"name": name, "ownerReferences": [owner]}, "subsets": subsets}
        try:
            self._store.create(ENDPOINTS, namespace, body, checked=False)
        except Refusal:
            # The namespace is being deleted.
            return


def _address(pod: Object) -> Object:
    metadata: Object = pod["metadata"]
    target = {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
    return {"ip": pod["status"]["podIP"], "nodeName": pod["spec"]["nodeName"], "targetRef": target}


def _port(port: Object, pod: Object) -> Object:
    number = target_port(port, pod)
    entry: Object = {"port": number, "protocol": port.get("protocol", "TCP")}
    return {"name": port["name"], **entry} if port.get("name") else entry


def target_port(port: Object, pod: Object) -> int:
    """The container port that a Service's port means on a pod; a name is looked up in all its containers."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    for container in [*children(pod["spec"], "initContainers"), *pod["spec"]["containers"]]:
        for offered in children(container, "ports"):
            if offered.get("name") == target:
                return offered["containerPort"]
    return port["port"]
