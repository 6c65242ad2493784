"""Kubernetes nodes that follow simulated EC2, as a kubelet's registration and the cloud's node controller do it."""

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, cast

from kubernetes.client import ApiClient, ApiException, CoreV1Api

_FAKE_NODE = "kwok.x-k8s.io/node"
_OWNER = "engine-tier/bridge"
_MERGE_PATCH = "application/merge-patch+json"
_NOT_FOUND, _CONFLICT = 404, 409

_log = logging.getLogger(__name__)

Node = dict[str, Any]


class NodeBridge:
    """A thread that makes the API server's KWOK nodes equal to what `nodes` returns.

    - `api_client`: an administrator's client.
    - `nodes`: Kubernetes Node objects that should exist now; called on the bridge's thread.
    - `interval_s`: real seconds between two looks.
    - `owner`: written on the nodes, so that several bridges share one control plane.

    A new node is registered with its capacity; changed labels, taints and capacity are patched; a node that is no
    longer named is deleted and its pods with it, at once, as when a machine is terminated. Other nodes are left
    alone.
    """

    def __init__(
        self, api_client: ApiClient, nodes: Callable[[], list[Node]], interval_s: float = 0.5, owner: str = "cloud"
    ) -> None:
        self._core = CoreV1Api(api_client)
        self._nodes = nodes
        self._interval_s = interval_s
        self._owner = owner
        self._applied: dict[str, Node] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node-bridge", daemon=True)
        self._rounds = 0
        self.last_error: Exception | None = None
        """What the latest round raised, or None where it went well."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(timeout=30)

    def wait_for_round(self, timeout_s: float = 30) -> None:
        """Return when a round that began after this call has gone well; raises TimeoutError with the latest error."""
        # The round in progress may have looked before the caller's change; the one after it has not.
        wanted = self._rounds + 2
        deadline_s = time.monotonic() + timeout_s
        while self._rounds < wanted:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the node bridge made no round in {timeout_s} s; latest error: {self.last_error!r}")
            time.sleep(0.05)

    def synchronize(self) -> None:
        """One round."""
        wanted = {str(node["metadata"]["name"]): node for node in self._nodes()}
        found = cast("list[Any]", self._core.list_node().items)
        existing = {
            str(node.metadata.name): node
            for node in found
            if (node.metadata.annotations or {}).get(_OWNER) == self._owner
        }
        for name, node in existing.items():
            # A provider id never changes, so another machine under the same name is another node.
            if name not in wanted or node.spec.provider_id != wanted[name]["spec"].get("providerID"):
                self._remove(name)
        for name, node in wanted.items():
            if name not in self._applied or name not in existing:
                self._register(name, node)
            elif _followed(self._applied[name]) != _followed(node):
                self._update(name, node, existing[name])

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.synchronize()
            except Exception as error:  # noqa: BLE001
                # The cloud or the API server may be restarting; waiters see the error when it lasts.
                self.last_error = error
                _log.warning("a round of the node bridge failed: %r", error)
            else:
                self.last_error = None
                self._rounds += 1
            self._stopping.wait(self._interval_s)

    def _register(self, name: str, node: Node) -> None:
        metadata = node["metadata"]
        body = {
            **node,
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                **metadata,
                "annotations": {**metadata.get("annotations", {}), _FAKE_NODE: "fake", _OWNER: self._owner},
            },
            # KWOK makes the node Ready itself, and keeps the rest of a status that it finds.
            "status": _status(node),
        }
        try:
            self._core.create_node(cast("Any", body))
        except ApiException as error:
            if error.status != _CONFLICT:
                raise
        self._applied[name] = node

    def _update(self, name: str, node: Node, existing: Any) -> None:
        labels: dict[str, str | None] = dict.fromkeys(self._applied[name]["metadata"].get("labels", {}))
        labels.update(node["metadata"].get("labels", {}))
        # Taints about a node's condition belong to the node life cycle controller.
        present = cast("list[Any]", existing.spec.taints or [])
        kept: list[dict[str, Any]] = [
            {"key": taint.key, "value": taint.value, "effect": taint.effect}
            for taint in present
            if str(taint.key).startswith("node.kubernetes.io/")
        ]
        taints = kept + cast("list[dict[str, Any]]", node.get("spec", {}).get("taints", []))
        patch = {"metadata": {"labels": labels}, "spec": {"taints": taints}}
        self._core.patch_node(name, patch, _content_type=_MERGE_PATCH)
        self._core.patch_node_status(name, {"status": _status(node)}, _content_type=_MERGE_PATCH)
        self._applied[name] = node

    def _remove(self, name: str) -> None:
        _unless_gone(lambda: self._core.delete_node(name))
        self._applied.pop(name, None)
        selector = f"spec.nodeName={name}"
        for pod in cast("list[Any]", self._core.list_pod_for_all_namespaces(field_selector=selector).items):
            namespace, pod_name = str(pod.metadata.namespace), str(pod.metadata.name)
            _unless_gone(
                lambda pod_name=pod_name, namespace=namespace: self._core.delete_namespaced_pod(
                    pod_name, namespace, grace_period_seconds=0
                )
            )


def _status(node: Node) -> dict[str, Any]:
    status = node.get("status", {})
    kept = {key: status[key] for key in ("capacity", "addresses", "nodeInfo") if key in status}
    return {**kept, "allocatable": status.get("allocatable", status.get("capacity", {}))}


def _followed(node: Node) -> tuple[Any, ...]:
    """What of a node is patched when it changes."""
    return node["metadata"].get("labels", {}), node.get("spec", {}).get("taints", []), _status(node)


def _unless_gone(delete: Callable[[], object]) -> None:
    try:
        delete()
    except ApiException as error:
        if error.status != _NOT_FOUND:
            raise
