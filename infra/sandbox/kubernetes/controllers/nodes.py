"""Nodes come and go with the machines behind them; pods of machines that are gone are removed after a while."""

import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.resource_types import NODES, PODS
from infra.sandbox.kubernetes.store import Store, time_text

Object = dict[str, Any]
NodeSource = Callable[[], list[Object]]

_SYNC_S = 0.25
# A machine that is missing from one listing may only be a listing that failed half way.
_ABSENCES = 2


class NodeSync:
    """A thread that keeps the Node objects as `source` lists them."""

    def __init__(
        self, store: Store, now: Callable[[], datetime], source: NodeSource, failed: Callable[[str], None]
    ) -> None:
        """`source` may be slow and may fail: a failure leaves the nodes as they are."""
        self._store = store
        self._now = now
        self._source = source
        self._failed = failed
        self._applied: dict[str, Object] = {}
        self._absences: dict[str, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubernetes-nodes", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for a listing that is running."""
        self._stopping.set()
        self._thread.join(timeout=30)

    def sync(self) -> None:
        """Ask the source once and bring the nodes into line."""
        try:
            wanted = {node["metadata"]["name"]: node for node in self._source()}
        except Exception as error:  # noqa: BLE001 - the source is somebody else's code over a network
            self._failed(f"listing the machines: {type(error).__name__}: {error}")
            return
        for name, node in wanted.items():
            self._absences.pop(name, None)
            present = self._store.find(NODES, "", name)
            if present is not None and present["spec"].get("providerID") != node.get("spec", {}).get("providerID"):
                # Another machine took the name: nothing of the old node is true of it.
                self._remove(name)
                present = None
            if present is None:
                self._store.create(NODES, "", _completed(node, self._now()), checked=False)
            elif self._applied.get(name) != node:
                self._store.update(NODES, "", name, lambda obj, node=node: _refresh(obj, node, self._now()))
            self._applied[name] = node
        for name in [name for name in self._applied if name not in wanted]:
            self._absences[name] = self._absences.get(name, 0) + 1
            if self._absences[name] >= _ABSENCES:
                self._remove(name)

    def _remove(self, name: str) -> None:
        self._applied.pop(name, None)
        self._absences.pop(name, None)
        self._store.remove(NODES, "", name)

    def _run(self) -> None:
        while not self._stopping.is_set():
            begun = time.monotonic()
            self.sync()
            took_s = time.monotonic() - begun
            # A slow source is asked less often, so that it is never kept busy by this alone.
            self._stopping.wait(max(_SYNC_S, 3 * took_s))


def _completed(node: Mapping[str, Any], now: datetime) -> Object:
    status: Object = {**child(node, "status")}
    status.setdefault("allocatable", status.get("capacity", {}))
    if not any(condition.get("type") == "Ready" for condition in children(status, "conditions")):
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
            "lastTransitionTime": time_text(now),
        }
        status["conditions"] = [*children(status, "conditions"), ready]
    metadata: Object = {**node["metadata"]}
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        metadata.pop(field, None)
    return {**node, "metadata": metadata, "spec": {**child(node, "spec")}, "status": status}


def _refresh(obj: Object, node: Mapping[str, Any], now: datetime) -> None:
    """Take over labels, taints and status; a cordon and labels of others stay."""
    complete = _completed(node, now)
    for field in ("labels", "annotations"):
        if given := complete["metadata"].get(field):
            obj["metadata"].setdefault(field, {}).update(given)
    obj["spec"].pop("taints", None)
    obj["spec"].update(complete["spec"])
    ready = [condition for condition in children(obj["status"], "conditions") if condition["type"] == "Ready"]
    obj["status"] = complete["status"]
    if ready and not child(node, "status").get("conditions"):
        obj["status"]["conditions"] = ready


class OrphanedPods:
    """Removes pods whose node is gone: first they fail, then, like the pod garbage collector, they are deleted."""

    def __init__(self, store: Store, now: Callable[[], datetime], orphaned_pod_s: float) -> None:
        """`orphaned_pod_s`: how long a pod may wait for its node to come back, in simulated seconds."""
        self._store = store
        self._now = now
        self._patience = timedelta(seconds=orphaned_pod_s)
        self._since: dict[str, datetime] = {}

    def reconcile(self) -> datetime | None:
        """Remove what waited long enough."""
        now = self._now()
        nodes = {node["metadata"]["name"] for node in self._store.items(NODES)}
        orphans = {
            pod["metadata"]["uid"]: pod
            for pod in self._store.items(PODS)
            if pod["spec"].get("nodeName") and pod["spec"]["nodeName"] not in nodes
        }
        self._since = {uid: self._since.get(uid, now) for uid in orphans}
        for uid, since in self._since.items():
            if now >= since + self._patience:
                metadata: Object = orphans[uid]["metadata"]
                self._store.remove(PODS, metadata["namespace"], metadata["name"])
        waiting = [since + self._patience for since in self._since.values() if since + self._patience > now]
        return min(waiting, default=None)
