"""Event objects: what `kubectl describe` shows of a pod's troubles."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from infra.sandbox.kubernetes.refusals import Refusal
from infra.sandbox.kubernetes.resource_types import EVENTS
from infra.sandbox.kubernetes.store import Store, time_text

Object = dict[str, Any]
_KEPT = 1000


class EventRecorder:
    """Writes Events; the same reason and message about one object again only raises its count."""

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        """Record nothing yet."""
        self._store = store
        self._now = now

    def record(self, about: Object, kind: str, reason: str, message: str, component: str) -> None:
        """Record that `reason` happened to the object `about`; `kind` is `Normal` or `Warning`."""
        metadata: Object = about["metadata"]
        namespace: str = metadata.get("namespace", "default")
        time = time_text(self._now())
        for event in self._store.items(EVENTS, namespace):
            same = (event["involvedObject"].get("uid"), event["reason"], event["message"])
            if same == (metadata["uid"], reason, message):
                self._store.update(EVENTS, namespace, event["metadata"]["name"], lambda obj: _again(obj, time))
                return
        body: Object = {
            "metadata": {"generateName": f"{metadata['name']}."},
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": metadata["name"],
                "namespace": namespace,
                "uid": metadata["uid"],
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "reportingComponent": component,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }
        try:
            self._store.create(EVENTS, namespace, body, checked=False)
        except Refusal:
            # The namespace is going away, and its events with it.
            return
        events = self._store.items(EVENTS, namespace)
        if len(events) > _KEPT:
            oldest = min(events, key=lambda event: event["lastTimestamp"])
            self._store.remove(EVENTS, namespace, oldest["metadata"]["name"])


def _again(event: Object, time: str) -> None:
    event["count"] += 1
    event["lastTimestamp"] = time
