"""Assigns pods to nodes."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from infra.sandbox.kubernetes.conditions import condition_of, with_condition
from infra.sandbox.kubernetes.controllers import placement
from infra.sandbox.kubernetes.controllers.volumes import claims_of, volume_of_claim
from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.events import EventRecorder
from infra.sandbox.kubernetes.resource_types import CLAIMS, NODES, PODS
from infra.sandbox.kubernetes.selectors import matches_node_terms
from infra.sandbox.kubernetes.store import Store, time_text

Object = dict[str, Any]


class Scheduler:
    """The default scheduler without preemption: filters as placement.py has them, the emptiest node first."""

    def __init__(self, store: Store, now: Callable[[], datetime], events: EventRecorder) -> None:
        """Assign nothing yet."""
        self._store = store
        self._now = now
        self._events = events

    def reconcile(self) -> datetime | None:
        """Try every pod that has no node."""
        waiting = [
            pod
            for pod in self._store.items(PODS)
            if not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
        ]
        for pod in sorted(waiting, key=lambda pod: pod["metadata"]["creationTimestamp"]):
            self._schedule(pod)
        return None

    def _schedule(self, pod: Object) -> None:
        nodes = self._store.items(NODES)
        metadata: Object = pod["metadata"]
        if pod["spec"].get("schedulingGates"):
            self._wait(pod, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates", event=False)
            return
        if not nodes:
            self._wait(pod, "Unschedulable", "no nodes available to schedule pods")
            return
        if words := self._unbound_claim(pod):
            count = f"0/{len(nodes)} nodes are available"
            helpless = f"preemption: {count}: {len(nodes)} Preemption is not helpful for scheduling."
            self._wait(pod, "Unschedulable", f"{count}: {words}. {helpless}")
            return
        running: dict[str, list[Object]] = {}
        for other in self._store.items(PODS):
            if other["spec"].get("nodeName") and other["status"].get("phase") not in ("Succeeded", "Failed"):
                running.setdefault(other["spec"]["nodeName"], []).append(other)
        reasons = {node["metadata"]["name"]: self._reasons(pod, node, running) for node in nodes}
        fitting = [name for name, against in reasons.items() if not against]
        if not fitting:
            self._wait(pod, "Unschedulable", placement.unschedulable_words(reasons))
            return
        chosen = min(fitting, key=lambda name: (len(running.get(name, [])), name))
        bound = self._store.update(PODS, metadata["namespace"], metadata["name"], lambda obj: self._bind(obj, chosen))
        if bound is not None:
            words = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {chosen}"
            self._events.record(pod, "Normal", "Scheduled", words, "default-scheduler")

    def _bind(self, pod: Object, node: str) -> None:
        pod["spec"]["nodeName"] = node
        conditions = children(pod["status"], "conditions")
        pod["status"]["conditions"] = with_condition(conditions, "PodScheduled", True, "", "", time_text(self._now()))

    def _wait(self, pod: Object, reason: str, message: str, event: bool = True) -> None:
        before = condition_of(children(pod["status"], "conditions"), "PodScheduled")
        if before and (before.get("reason"), before.get("message")) == (reason, message):
            return

        def mark(obj: Object) -> None:
            conditions = children(obj["status"], "conditions")
            time = time_text(self._now())
            obj["status"]["conditions"] = with_condition(conditions, "PodScheduled", False, reason, message, time)

        self._store.update(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], mark)
        if event:
            self._events.record(pod, "Warning", "FailedScheduling", message, "default-scheduler")

    def _unbound_claim(self, pod: Object) -> str:
        namespace: str = pod["metadata"]["namespace"]
        for name in claims_of(pod):
            claim = self._store.find(CLAIMS, namespace, name)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if claim["metadata"].get("deletionTimestamp"):
                return f'persistentvolumeclaim "{name}" is being deleted'
            if claim.get("status", {}).get("phase") != "Bound":
                return "pod has unbound immediate PersistentVolumeClaims"
        return ""

    def _reasons(self, pod: Object, node: Object, running: dict[str, list[Object]]) -> Sequence[str]:
        """Why the node does not take the pod: the first filter that refuses, as the scheduler stops there."""
        spec: Object = pod["spec"]
        tolerations: list[Object] = children(spec, "tolerations")
        cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if node["spec"].get("unschedulable") and not placement.tolerates(tolerations, cordon):
            return ["node(s) were unschedulable"]
        if taint := placement.untolerated_taint(tolerations, node):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"]
        ready = condition_of(children(node["status"], "conditions"), "Ready")
        if ready and ready["status"] != "True":
            return ["node(s) had untolerated taint {node.kubernetes.io/not-ready: }"]
        if not placement.selects_node(spec, node):
            return ["node(s) didn't match Pod's node affinity/selector"]
        others = running.get(node["metadata"]["name"], [])
        if lacking := placement.insufficient(placement.pod_requests(spec), node, others):
            return lacking
        for name in claims_of(pod):
            volume = volume_of_claim(self._store, pod["metadata"]["namespace"], name)
            required = child(child(child(volume or {}, "spec"), "nodeAffinity"), "required")
            if required and not matches_node_terms(children(required, "nodeSelectorTerms"), node):
                return ["node(s) didn't match PersistentVolume's node affinity"]
        return []
