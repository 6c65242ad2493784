"""Deployments and DaemonSets make pods out of their templates."""

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from infra.sandbox.kubernetes.conditions import condition_of, is_ready, with_condition
from infra.sandbox.kubernetes.controllers.placement import selects_node, tolerates, untolerated_taint
from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.refusals import Refusal
from infra.sandbox.kubernetes.resource_types import DAEMON_SETS, DEPLOYMENTS, NODES, PODS, ResourceType
from infra.sandbox.kubernetes.store import Store, random_suffix, time_text

Object = dict[str, Any]

# What the DaemonSet controller tolerates for its pods, whatever the template says.
_DAEMON_TOLERATIONS: list[Object] = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
]


def template_hash(template: Mapping[str, Any]) -> str:
    """A short name for a template's contents, for the label `pod-template-hash`."""
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]


def owned_pods(store: Store, owner: Object) -> list[Object]:
    """The pods that name `owner` as theirs and have not ended, oldest first."""
    uid = owner["metadata"]["uid"]
    pods = [
        pod
        for pod in store.items(PODS, owner["metadata"]["namespace"])
        if any(reference.get("uid") == uid for reference in children(pod["metadata"], "ownerReferences"))
    ]
    return sorted(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))


def create_pod(store: Store, resource: ResourceType, owner: Object, template: Object, **more: Any) -> Object | None:
    """A pod out of the owner's template; None where the namespace takes nothing new.

    `more`: `labels` to add, `name`, and `spec` fields to override.
    """
    metadata: Object = copy.deepcopy(child(template, "metadata"))
    name: str = more.get("name") or f"{owner['metadata']['name']}-{random_suffix()}"
    metadata.update(
        name=name,
        labels={**child(metadata, "labels"), **more.get("labels", {})},
        ownerReferences=[
            {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    )
    body: Object = {"metadata": metadata, "spec": {**copy.deepcopy(template["spec"]), **more.get("spec", {})}}
    try:
        return store.create(PODS, owner["metadata"]["namespace"], body, checked=False)
    except Refusal:
        return None


def _alive(pod: Object) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and pod["status"].get("phase") not in ("Failed", "Succeeded")


class DeploymentController:
    """Keeps `replicas` pods of the present template, by Recreate or RollingUpdate, and the status that says so."""

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        """Act on nothing yet."""
        self._store = store
        self._now = now

    def reconcile(self) -> datetime | None:
        """One pass over all Deployments."""
        due: list[datetime] = []
        for deployment in self._store.items(DEPLOYMENTS):
            if not deployment["metadata"].get("deletionTimestamp"):
                self._pods(deployment)
                if moment := self._status(deployment):
                    due.append(moment)
        return min(due, default=None)

    def _pods(self, deployment: Object) -> None:
        spec: Object = deployment["spec"]
        if spec.get("paused"):
            return
        present_hash = template_hash(spec["template"])
        pods = owned_pods(self._store, deployment)
        new = [pod for pod in pods if pod["metadata"]["labels"].get("pod-template-hash") == present_hash]
        old = [pod for pod in pods if pod not in new]
        current = [pod for pod in new if _alive(pod)]
        wanted: int = spec.get("replicas", 1)
        outdated = [pod for pod in old if _alive(pod)]
        if spec["strategy"]["type"] == "Recreate":
            self._delete(outdated)
            if old:
                # Recreate: nothing new until the last pod of the old template is gone.
                wanted = min(wanted, len(current))
        elif sum(map(is_ready, current)) >= wanted:
            self._delete(outdated)
        # Pods that do not serve yet go first.
        self._delete(sorted(current, key=is_ready)[: max(0, len(current) - wanted)])
        for _ in range(wanted - len(current)):
            name = f"{deployment['metadata']['name']}-{present_hash}-{random_suffix()}"
            labels = {"pod-template-hash": present_hash}
            create_pod(self._store, DEPLOYMENTS, deployment, spec["template"], name=name, labels=labels)

    def _delete(self, pods: Sequence[Object]) -> None:
        for pod in pods:
            self._store.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])

    def _status(self, deployment: Object) -> datetime | None:
        spec: Object = deployment["spec"]
        wanted: int = spec.get("replicas", 1)
        present_hash = template_hash(spec["template"])
        pods = owned_pods(self._store, deployment)
        alive = [pod for pod in pods if _alive(pod)]
        updated = [pod for pod in alive if pod["metadata"]["labels"].get("pod-template-hash") == present_hash]
        ready = sum(map(is_ready, alive))
        counts: dict[str, int] = {
            "replicas": len(alive),
            "updatedReplicas": len(updated),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, wanted - ready),
            "terminatingReplicas": sum(bool(pod["metadata"].get("deletionTimestamp")) for pod in pods),
        }
        before: Object = child(deployment, "status")
        status: Object = {name: count for name, count in counts.items() if count}
        status["observedGeneration"] = deployment["metadata"]["generation"]
        complete = ready >= wanted and len(updated) == len(alive) == wanted
        moved = {**before, "conditions": None} != {**status, "conditions": None}
        conditions, due = self._conditions(children(before, "conditions"), spec, ready >= wanted, complete, moved)
        status["conditions"] = conditions
        metadata: Object = deployment["metadata"]
        self._store.update(
            DEPLOYMENTS, metadata["namespace"], metadata["name"], lambda obj: obj.update(status=copy.deepcopy(status))
        )
        return due

    def _conditions(
        self, before: list[Object], spec: Object, available: bool, complete: bool, moved: bool
    ) -> tuple[list[Object], datetime | None]:
        now = self._now()
        name = "MinimumReplicasAvailable" if available else "MinimumReplicasUnavailable"
        words = f"Deployment {'has' if available else 'does not have'} minimum availability."
        after = with_condition(before, "Available", available, name, words, time_text(now))
        progress = condition_of(before, "Progressing")
        since = str(progress.get("lastUpdateTime", "")) if progress and not moved else time_text(now)
        deadline = datetime.fromisoformat(since or time_text(now)) + timedelta(
            seconds=spec.get("progressDeadlineSeconds", 600)
        )
        if complete:
            outcome = ("NewReplicaSetAvailable", "the present template's pods are available.", True)
        elif now >= deadline:
            outcome = ("ProgressDeadlineExceeded", "the present template's pods have timed out progressing.", False)
        else:
            outcome = ("ReplicaSetUpdated", "the present template's pods are progressing.", True)
        after = with_condition(after, "Progressing", outcome[2], outcome[0], outcome[1], time_text(now))
        for condition in after:
            if condition["type"] == "Progressing":
                condition["lastUpdateTime"] = since
        return after, None if complete or now >= deadline else deadline


class DaemonSetController:
    """Keeps one pod of each DaemonSet on each node that its template selects and tolerates."""

    def __init__(self, store: Store) -> None:
        """Act on nothing yet."""
        self._store = store

    def reconcile(self) -> datetime | None:
        """One pass over all DaemonSets."""
        nodes = {node["metadata"]["name"]: node for node in self._store.items(NODES)}
        for daemon_set in self._store.items(DAEMON_SETS):
            if daemon_set["metadata"].get("deletionTimestamp"):
                continue
            template: Object = daemon_set["spec"]["template"]
            tolerations = [*children(template["spec"], "tolerations"), *_DAEMON_TOLERATIONS]
            present_hash = template_hash(template)
            wanted = {
                name
                for name, node in nodes.items()
                if selects_node(template["spec"], node)
                and untolerated_taint(tolerations, node) is None
                and all(tolerates(tolerations, taint) for taint in children(node["spec"], "taints"))
            }
            pods = owned_pods(self._store, daemon_set)
            for pod in pods:
                outdated = pod["metadata"]["labels"].get("controller-revision-hash") != present_hash
                if _alive(pod) and (outdated or pod["spec"].get("nodeName") not in wanted & set(nodes)):
                    self._store.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
            served = {pod["spec"].get("nodeName") for pod in pods}
            for name in sorted(wanted - served):
                labels = {"controller-revision-hash": present_hash}
                spec = {"nodeName": name, "tolerations": tolerations}
                create_pod(self._store, DAEMON_SETS, daemon_set, template, labels=labels, spec=spec)
            self._status(daemon_set, len(wanted))
        return None

    def _status(self, daemon_set: Object, wanted: int) -> None:
        pods = [pod for pod in owned_pods(self._store, daemon_set) if _alive(pod)]
        ready = sum(map(is_ready, pods))
        status = {
            "desiredNumberScheduled": wanted,
            "currentNumberScheduled": len(pods),
            "updatedNumberScheduled": len(pods),
            "numberReady": ready,
            "numberAvailable": ready,
            "numberUnavailable": max(0, wanted - ready),
            "numberMisscheduled": 0,
            "observedGeneration": daemon_set["metadata"]["generation"],
        }
        metadata: Object = daemon_set["metadata"]
        self._store.update(
            DAEMON_SETS, metadata["namespace"], metadata["name"], lambda obj: obj.update(status=dict(status))
        )
