"""What the kubelets do: pull images, start containers, wait for the model to load, and let pods end."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from infra.sandbox.kubernetes.controllers.attachments import AttachmentController
from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.events import EventRecorder
from infra.sandbox.kubernetes.pod_status import (
    Run,
    Stage,
    later,
    pre_stop_s,
    seconds_in,
    startup_window_s,
    status_of,
)
from infra.sandbox.kubernetes.resource_types import JOBS, NODES, PODS
from infra.sandbox.kubernetes.simulated_requests import SimulatedRequests
from infra.sandbox.kubernetes.store import Store
from infra.sandbox.kubernetes.weight_contents import WeightContents

Object = dict[str, Any]

LOAD_ANNOTATION = "dormouse.dev/planned-load-s"
"""How long a pod's main container loads before it is ready, in seconds."""
RUN_ANNOTATION = "dormouse.dev/planned-run-s"
"""How long a Job's pod runs before it ends, in seconds."""


@dataclass(frozen=True)
class Durations:
    """How long things take, in simulated seconds.

    - `image_pull_s`: pulling a pod's images to a node that never had them.
    - `volume_attach_s`: from the call until the node sees the volume.
    - `orphaned_pod_s`: how long pods of a vanished node stay.
    """

    image_pull_s: float = 90.0
    volume_attach_s: float = 10.0
    orphaned_pod_s: float = 40.0

    @classmethod
    def instant(cls) -> "Durations":
        """Everything at once, for tests of other things."""
        return cls(0.0, 0.0, 0.0)


class PodLifecycle:
    """Plays every node's kubelet on the simulated clock."""

    def __init__(
        self,
        store: Store,
        now: Callable[[], datetime],
        events: EventRecorder,
        attachments: AttachmentController,
        requests: SimulatedRequests,
        image_pull_s: float,
        contents: WeightContents,
    ) -> None:
        """Run nothing yet."""
        self._store = store
        self._now = now
        self._events = events
        self._attachments = attachments
        self._requests = requests
        self._image_pull_s = image_pull_s
        self._contents = contents
        self._runs: dict[str, Run] = {}
        self._pulled: set[tuple[str, str]] = set()
        self._addresses = itertools.count(10)

    def reconcile(self) -> datetime | None:
        """One pass over all pods that have a node."""
        due: list[datetime] = []
        pods = self._store.items(PODS)
        for pod in pods:
            if not pod["spec"].get("nodeName") or self._store.find(NODES, "", pod["spec"]["nodeName"]) is None:
                continue
            if pod["metadata"].get("deletionTimestamp"):
                moment = self._end(pod)
            elif pod["status"].get("phase") in ("Succeeded", "Failed"):
                moment = None
            else:
                moment = self._advance(pod)
            if moment is not None:
                due.append(moment)
        alive = {pod["metadata"]["uid"] for pod in self._store.items(PODS)}
        for uid in [uid for uid in self._runs if uid not in alive]:
            del self._runs[uid]
            self._requests.forget(uid)
        return min(due, default=None)

    def _advance(self, pod: Object) -> datetime | None:
        """Bring a pod to the stage that it has reached by now; gives the moment of its next one."""
        run = self._runs.setdefault(pod["metadata"]["uid"], Run(self._now(), self._next_address()))
        stage, due = self._stage(pod, run)
        status = status_of(pod, run, stage)
        if status != pod["status"]:
            metadata: Object = pod["metadata"]
            self._store.update(PODS, metadata["namespace"], metadata["name"], lambda obj: obj.update(status=status))
        return due

    def _stage(self, pod: Object, run: Run) -> tuple[Stage, datetime | None]:
        now = self._now()
        if run.started_at is None:
            attached_at = self._attachments.attached_at(pod)
            if attached_at is None:
                return "creating", None
            begins = later(max(attached_at, run.bound_at), self._pull_s(pod))
            if now < begins:
                return "creating", begins
            self._pulled |= self._images(pod)
            if run.checks_at is not None and now < run.checks_at:
                return "refused", run.checks_at
            begins = max(begins, run.checks_at or begins)
            run.refusal = self._contents.refusal(pod)
            if run.refusal:
                run.refuse(now)
                self._events.record(pod, "Warning", "BackOff", "Back-off restarting failed container", "kubelet")
                return "refused", run.checks_at
            run.started_at = begins
            name = pod["spec"]["containers"][0]["name"]
            self._events.record(pod, "Normal", "Started", f"Started container {name}", "kubelet")
        if self._is_of_job(pod):
            ends = later(run.started_at, seconds_in(pod, RUN_ANNOTATION))
            run.ready_at = run.started_at
            run.ended_at = ends
            if now < ends:
                return "ready", ends
            run.exit_status, run.words = self._contents.end_job(pod)
            return ("failed" if run.exit_status else "succeeded"), None
        load_s, window_s = seconds_in(pod, LOAD_ANNOTATION), startup_window_s(pod)
        while window_s is not None and load_s > window_s and now >= later(run.started_at, window_s):
            run.started_at = later(run.started_at, max(window_s, 1.0))
            run.restarts += 1
            name = pod["spec"]["containers"][0]["name"]
            words = f"Container {name} failed startup probe, will be restarted"
            self._events.record(pod, "Normal", "Killing", words, "kubelet")
        if window_s is not None and load_s > window_s:
            return "started", later(run.started_at, window_s)
        run.ready_at = later(run.started_at, load_s)
        return ("started", run.ready_at) if now < run.ready_at else ("ready", None)

    def _end(self, pod: Object) -> datetime | None:
        """Remove a terminating pod once its hooks and its running requests are done, or its grace period is over."""
        metadata: Object = pod["metadata"]
        now = self._now()
        last = datetime.fromisoformat(metadata["deletionTimestamp"])
        asked = later(last, -metadata.get("deletionGracePeriodSeconds", 0))
        run = self._runs.get(metadata["uid"])
        # A container that never started runs no hook.
        earliest = later(asked, pre_stop_s(pod)) if run and run.started_at else asked
        finished = self._requests.finished_at(metadata["uid"])
        ends = min(last, max(earliest, finished) if finished else earliest)
        if now < ends:
            return ends
        if not metadata.get("finalizers"):
            self._store.remove(PODS, metadata["namespace"], metadata["name"])
        return None

    def _images(self, pod: Object) -> set[tuple[str, str]]:
        node: str = pod["spec"]["nodeName"]
        uid: str = child(self._store.find(NODES, "", node) or {}, "metadata").get("uid", node)
        containers = [*children(pod["spec"], "initContainers"), *pod["spec"]["containers"]]
        return {(uid, container["image"]) for container in containers}

    def _pull_s(self, pod: Object) -> float:
        return 0.0 if self._images(pod) <= self._pulled else self._image_pull_s

    def _is_of_job(self, pod: Object) -> bool:
        owners = children(pod["metadata"], "ownerReferences")
        return any(owner["kind"] == JOBS.kind for owner in owners) and pod["spec"]["restartPolicy"] != "Always"

    def _next_address(self) -> str:
        number = next(self._addresses)
        return f"10.0.{number // 250 % 250}.{number % 250 + 1}"
