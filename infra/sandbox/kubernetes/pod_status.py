"""The status that a kubelet would report for a pod in some stage of its life."""

import itertools
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from infra.sandbox.kubernetes.conditions import condition_of
from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.store import time_text
from serving.weights.marker import CHECK_CONTAINER

Object = dict[str, Any]
Stage = Literal["creating", "refused", "started", "ready", "succeeded", "failed"]

# The kubelet's waits between starts of a container that fails: doubled each time.
_FIRST_BACK_OFF_S, _LONGEST_BACK_OFF_S = 10.0, 300.0


@dataclass
class Run:
    """What a node remembers of one pod.

    - `bound_at`: when the pod came to the node.
    - `started_at`: when its containers last started, or None before.
    - `ended_at`: when they ended by themselves, or None.
    - `restarts`: how often the startup probe had the main container started again.
    - `exit_status`, `words`: how the main container of a Job's pod ended, and its termination message.
    - `refusal`: what the weights-check said last; it has ended with 1 `refusals` times, and runs again at `checks_at`.
    """

    bound_at: datetime
    pod_ip: str
    started_at: datetime | None = None
    ready_at: datetime | None = None
    ended_at: datetime | None = None
    restarts: int = 0
    exit_status: int = 0
    words: str = ""
    refusal: str = ""
    refusals: int = 0
    refused_at: datetime | None = None
    checks_at: datetime | None = None
    warned: set[str] = field(default_factory=set[str])

    def refuse(self, now: datetime) -> None:
        """Note that the weights-check has just ended with 1."""
        wait_s = min(_LONGEST_BACK_OFF_S, _FIRST_BACK_OFF_S * 2**self.refusals)
        self.refusals += 1
        self.refused_at, self.checks_at = now, later(now, wait_s)


def seconds_in(pod: Object, annotation: str) -> float:
    """A number of seconds from an annotation; 0 where there is none or no number."""
    text = child(pod["metadata"], "annotations").get(annotation, "0")
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


def startup_window_s(pod: Object) -> float | None:
    """How long the main container's startup probe waits for it, or None where it has none."""
    probe: Object | None = pod["spec"]["containers"][0].get("startupProbe")
    if probe is None:
        return None
    return probe.get("initialDelaySeconds", 0) + probe.get("periodSeconds", 10) * probe.get("failureThreshold", 3)


def pre_stop_s(pod: Object) -> float:
    """The longest sleep in the containers' preStop hooks, in seconds."""
    longest = 0.0
    for container in [*children(pod["spec"], "initContainers"), *pod["spec"]["containers"]]:
        hook: Object = child(child(container, "lifecycle"), "preStop")
        longest = max(longest, float(child(hook, "sleep").get("seconds", 0)))
        words = " ".join(children(child(hook, "exec"), "command")).split()
        for word, following in itertools.pairwise(words):
            if word.endswith("sleep") and following.strip("\"';").isdigit():
                longest = max(longest, float(following.strip("\"';")))
    return longest


def status_of(pod: Object, run: Run, stage: Stage) -> Object:
    """The whole status; the same arguments give the same status."""
    started, ready = stage in ("started", "ready"), stage == "ready"
    waits = stage in ("creating", "refused")
    phase = {
        "creating": "Pending",
        "refused": "Pending",
        "started": "Running",
        "ready": "Running",
        "succeeded": "Succeeded",
        "failed": "Failed",
    }[stage]
    spec: Object = pod["spec"]
    bound = time_text(run.bound_at)
    begun = time_text(run.started_at or run.bound_at)
    since_ready = time_text(run.ready_at) if run.ready_at and ready else begun if started else bound
    scheduled = condition_of(children(pod["status"], "conditions"), "PodScheduled") or {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": bound,
    }
    unready = [container["name"] for container in spec["containers"]]
    conditions: list[Object] = [
        {"type": "PodReadyToStartContainers", "status": "True" if stage != "creating" else "False"},
        {"type": "Initialized", "status": "True" if not waits or not spec.get("initContainers") else "False"},
        {"type": "Ready", "status": "True" if ready else "False"},
        {"type": "ContainersReady", "status": "True" if ready else "False"},
    ]
    for condition in conditions:
        condition["lastTransitionTime"] = since_ready if "Ready" in condition["type"][-5:] else begun
        if condition["status"] == "False" and condition["type"] in ("Ready", "ContainersReady"):
            condition["reason"] = {"succeeded": "PodCompleted", "failed": "PodFailed"}.get(stage, "ContainersNotReady")
            condition["message"] = f"containers with unready status: [{' '.join(unready)}]"
    status: Object = {
        "phase": phase,
        "qosClass": pod["status"].get("qosClass", "Burstable"),
        "startTime": bound,
        "conditions": [*conditions, scheduled],
        "containerStatuses": [_container(one, run, stage, index == 0) for index, one in enumerate(spec["containers"])],
    }
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _init_container(one, run, stage, pod["metadata"]["name"]) for one in spec["initContainers"]
        ]
    if stage != "creating":
        status["podIP"] = run.pod_ip
        status["podIPs"] = [{"ip": run.pod_ip}]
    return status


def _base(container: Object, run: Run) -> Object:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "restartCount": run.restarts,
        "ready": False,
        "started": False,
    }


def _container(container: Object, run: Run, stage: Stage, main: bool) -> Object:
    status = {**_base(container, run), "restartCount": run.restarts if main else 0}
    if stage == "refused":
        return {**status, "state": {"waiting": {"reason": "PodInitializing"}}}
    if stage == "creating":
        return {**status, "state": {"waiting": {"reason": "ContainerCreating"}}}
    begun = time_text(run.started_at or run.bound_at)
    if stage in ("succeeded", "failed"):
        ended = _completed(begun, time_text(run.ended_at or run.bound_at))
        if main and run.exit_status:
            ended |= {"exitCode": run.exit_status, "reason": "Error"}
        return {**status, "state": {"terminated": {**ended, "message": run.words} if main and run.words else ended}}
    # Until the main container's startup probe passes it counts as not started; the others are up at once.
    up = stage == "ready" or not main
    status.update(started=up, ready=up, state={"running": {"startedAt": begun}})
    if main and run.restarts:
        status["lastState"] = {"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": begun}}
    return status


def _init_container(container: Object, run: Run, stage: Stage, pod_name: str) -> Object:
    checks = container["name"] == CHECK_CONTAINER
    status = {**_base(container, run), "restartCount": run.refusals if checks else 0}
    if stage == "refused" and checks:
        at = time_text(run.refused_at or run.bound_at)
        wait_s = (run.checks_at - run.refused_at).total_seconds() if run.checks_at and run.refused_at else 0
        words = f"back-off {wait_s:g}s restarting failed container={CHECK_CONTAINER} pod={pod_name}"
        ended = {"exitCode": 1, "reason": "Error", "message": run.refusal, "startedAt": at, "finishedAt": at}
        return {
            **status,
            "restartCount": run.refusals - 1,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": words}},
            "lastState": {"terminated": ended},
        }
    if stage in ("creating", "refused"):
        return {**status, "state": {"waiting": {"reason": "PodInitializing"}}}
    begun = time_text(run.started_at or run.bound_at)
    sidecar = container.get("restartPolicy") == "Always"
    if sidecar and stage not in ("succeeded", "failed"):
        return {**status, "started": True, "ready": True, "state": {"running": {"startedAt": begun}}}
    end = time_text(run.ended_at) if sidecar and run.ended_at else begun
    return {**status, "ready": not sidecar, "state": {"terminated": _completed(begun, end)}}


def _completed(begun: str, ended: str) -> Object:
    return {"exitCode": 0, "reason": "Completed", "startedAt": begun, "finishedAt": ended}


def later(moment: datetime, seconds: float) -> datetime:
    """The moment so many seconds later."""
    return moment + timedelta(seconds=seconds)
