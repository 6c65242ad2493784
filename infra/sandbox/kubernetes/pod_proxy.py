"""`/proxy/` of pods and Services: simulated pages of a model server, or a real server on this machine."""

import urllib.error
import urllib.request
from typing import Any

from infra.sandbox.kubernetes import vllm_pages
from infra.sandbox.kubernetes.conditions import is_ready
from infra.sandbox.kubernetes.controllers.services import target_port
from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.messages import Answer, Request, text
from infra.sandbox.kubernetes.refusals import Refusal, bad_request, not_found
from infra.sandbox.kubernetes.resource_types import PODS, SERVICES, ResourceType
from infra.sandbox.kubernetes.simulated_requests import SimulatedRequests
from infra.sandbox.kubernetes.store import Store

Object = dict[str, Any]

_TIMEOUT_S = 600.0
_UPSTREAM = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class PodProxy:
    """Answers for the pods.

    - `upstream`: None, or the address of a real server that stands behind every loaded pod, such as
      `http://127.0.0.1:8100`; `{namespace}`, `{pod}` and `{port}` in it are filled in.
    """

    def __init__(self, store: Store, requests: SimulatedRequests, upstream: str | None = None) -> None:
        """Answer nothing yet."""
        self._store = store
        self._requests = requests
        self.upstream = upstream

    def answer(self, resource: ResourceType, namespace: str, name: str, path: str, request: Request) -> Answer:
        """Answer a request to `name`, written `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`, for `path` below it."""
        words = name.split(":")
        if len(words) == 3:
            words = words[1:]
        target, port_text = words[0], words[1] if len(words) > 1 else ""
        if resource.key == SERVICES.key:
            pod, port = self._behind_service(namespace, target, port_text)
        elif resource.key == PODS.key:
            pod = self._store.get(PODS, namespace, target)
            port = int(port_text) if port_text.isdigit() else _first_port(pod)
        else:
            raise bad_request(f"{resource.plural} have no proxy in this cluster")
        return self._from_pod(pod, port, path, request)

    def _behind_service(self, namespace: str, name: str, port_text: str) -> tuple[Object, int]:
        service = self._store.get(SERVICES, namespace, name)
        ports: list[Object] = children(service["spec"], "ports")
        chosen = [port for port in ports if port_text in (str(port["port"]), port.get("name", ""))] or ports[:1]
        for pod in self._store.items(PODS, namespace):
            labels: dict[str, str] = child(pod["metadata"], "labels")
            selector: dict[str, str] = child(service["spec"], "selector")
            if selector and is_ready(pod) and all(labels.get(key) == value for key, value in selector.items()):
                return pod, target_port(chosen[0], pod)
        raise Refusal(503, "ServiceUnavailable", f'no endpoints available for service "{name}"')

    def _from_pod(self, pod: Object, port: int, path: str, request: Request) -> Answer:
        status: Object = pod["status"]
        address: str = status.get("podIP", "")
        if not address or status.get("phase") != "Running":
            raise bad_request("address not allowed")
        offered = {port for container in _containers(pod) for port in _ports(container)}
        loaded = any(one["type"] == "Ready" and one["status"] == "True" for one in children(status, "conditions"))
        if port not in offered or not loaded:
            words = f"error trying to reach service: dial tcp {address}:{port}: connect: connection refused"
            raise Refusal(503, "ServiceUnavailable", words)
        if self.upstream is not None:
            return self._from_upstream(self.upstream, pod, port, path, request)
        model = vllm_pages.model_name(pod)
        match request.method, path.rstrip("/"):
            case "GET", "/health":
                return text("")
            case "GET", "/metrics":
                return text(vllm_pages.metrics_page(self._requests.counts(pod["metadata"]["uid"]), model))
            case "GET", "/version":
                return Answer(200, {"version": "0.32.0-simulated"})
            case "GET", "/v1/models":
                return Answer(200, vllm_pages.models_page(model))
            case _:
                return Answer(404, {"detail": "Not Found (simulated: no model runs here)"})

    def _from_upstream(self, template: str, pod: Object, port: int, path: str, request: Request) -> Answer:
        metadata: Object = pod["metadata"]
        base = template.format(namespace=metadata["namespace"], pod=metadata["name"], port=port).rstrip("/")
        url = base + path + (f"?{request.raw_query}" if request.raw_query else "")
        headers = {"Content-Type": request.content_type} if request.body else {}
        forwarded = urllib.request.Request(  # noqa: S310 - the address is the sandbox starter's own
            url, request.body or None, headers, method=request.method
        )
        try:
            with _UPSTREAM.open(forwarded, timeout=_TIMEOUT_S) as response:
                kind = response.headers.get("Content-Type", "application/octet-stream")
                return Answer(response.status, body=response.read(), content_type=kind)
        except urllib.error.HTTPError as refusal:
            with refusal:
                kind = refusal.headers.get("Content-Type", "application/octet-stream")
                return Answer(refusal.code, body=refusal.read(), content_type=kind)
        except OSError as error:
            raise Refusal(503, "ServiceUnavailable", f"error trying to reach service: {error}") from None


def _containers(pod: Object) -> list[Object]:
    return [*children(pod["spec"], "initContainers"), *pod["spec"]["containers"]]


def _ports(container: Object) -> list[int]:
    return [port["containerPort"] for port in children(container, "ports")]


def _first_port(pod: Object) -> int:
    for container in pod["spec"]["containers"]:
        for port in _ports(container):
            return port
    raise not_found(PODS, f"{pod['metadata']['name']}: port")
