"""In which state a stack is, judged from an observation alone."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from infra.jobs.observation import (
    LOADING,
    PENDING,
    READY,
    TERMINATING,
    DeploymentView,
    Observation,
    PodView,
    SlotView,
)
from serving.units import duration_text

OPERATION_STALE_S = 60.0
"""A job that has not renewed its lock for so long is taken for dead, in seconds."""


# Twice the lock's own limit and more: a job between two renewals is no reason to raise an alarm.
_OPERATION_QUIET_S = 180.0


class StateKind(StrEnum):
    """The states; `inconsistent` and `unknown` need a person or a job, the others are on their way or at rest."""

    ASLEEP = "asleep"
    WAKING = "waking"
    AWAKE = "awake"
    DRAINING = "draining"
    STOPPING = "stopping"
    INCONSISTENT = "inconsistent"
    UNKNOWN = "unknown"


class WakingStage(StrEnum):
    """How far a wake has come."""

    CAPACITY = "capacity"
    NODE = "node"
    SCHEDULING = "scheduling"
    LOADING = "loading"


@dataclass(frozen=True)
class State:
    """The judgement.

    - `kind`, `stage`: the state; `stage` only while waking.
    - `why`: a sentence.
    - `slot`: the candidate that it is about, or None.
    - `remaining_s`: estimated seconds until the next rest, None where nobody knows.
    """

    kind: StateKind
    why: str
    slot: str | None = None
    stage: WakingStage | None = None
    remaining_s: float | None = None

    def __str__(self) -> str:
        """The state in a word or two: `waking (loading)`."""
        return f"{self.kind} ({self.stage})" if self.stage else str(self.kind)


def loading_remaining_s(pod: PodView, observation: Observation) -> float | None:
    """Estimated seconds until a loading pod is Ready; None without a start or once the estimate is used up."""
    if pod.since is None or pod.phase != LOADING:
        return None
    remaining_s = pod.planned_load_s - (observation.at - pod.since).total_seconds()
    return remaining_s if remaining_s > 0 else None


def slot_serving(pod: PodView, observation: Observation) -> SlotView | None:
    """The candidate on whose node the pod runs, or None where that cannot be told."""
    for view in observation.slots:
        if pod.node_name and any(one.node_name == pod.node_name for one in view.instances):
            return view
    return None


def is_being_taken(view: SlotView, seen: Observation) -> str:
    """Why the candidate's machine goes soon, whatever anybody does; empty where it does not."""
    for one in view.paid:
        if one.notice:
            return f"EC2 takes spot instance {one.instance_id} back ({one.notice})"
    if view.block is not None and view.block.is_over(seen.at):
        return view.block.words(seen.at)
    return ""


def is_left_behind(deployment: DeploymentView, observation: Observation) -> bool:
    """Whether nothing is paid for that the Deployment's pods could run on: what is listed has lost its node."""
    views = [view for view in observation.slots if view.slot.deployment_name == deployment.name]
    return all(view.desired is not None and not view.paid for view in views)


def state_of(observation: Observation) -> State:
    """Judge the state; total, without any effect.

    What runs decides before what is wished: a Ready pod is awake whatever an annotation says.
    """
    up = [view for view in observation.slots if view.is_up]
    pods = [(view, pod) for view in observation.deployments for pod in view.pods or ()]
    ready = [(view, pod) for view, pod in pods if pod.phase == READY and not is_left_behind(view, observation)]
    starting = [(view, pod) for view, pod in pods if pod.phase in (PENDING, LOADING)]
    lost = [(view, pod) for view, pod in pods if pod.phase in (LOADING, READY) and is_left_behind(view, observation)]

    if len([view for view in up if view.paid]) > 1:
        names = " and ".join(view.slot.name for view in up if view.paid)
        return State(StateKind.INCONSISTENT, f"more than one node is paid for: {names}; `dormouse wake` keeps one")
    if ready:
        return _serving(ready, observation)
    if any(pod.phase == TERMINATING for _, pod in pods):
        return _terminating([pod for _, pod in pods if pod.phase == TERMINATING])
    if lost:
        return _lost(*lost[0])
    if starting:
        return _starting(*starting[0], up, observation)
    missing = _missing(observation)
    if missing:
        return State(StateKind.UNKNOWN, f"cannot tell: {missing}", up[0].slot.name if up else None)
    wanted = [view for view in observation.deployments if view.replicas]
    if up:
        return _node_without_pod(up[0], bool(wanted), observation)
    if wanted:
        return State(
            StateKind.INCONSISTENT,
            f"Deployment {wanted[0].name} wants a pod, but no node is asked for; `dormouse wake` or "
            "`dormouse hibernate --force` settles it",
        )
    return _at_rest(observation)


def _serving(ready: list[tuple[DeploymentView, PodView]], observation: Observation) -> State:
    deployment, pod = ready[0]
    view = slot_serving(pod, observation)
    slot = view.slot.name if view else None
    requests = (
        f"{pod.requests.running} requests running, {pod.requests.waiting} waiting"
        if pod.requests
        else f"running requests unknown ({pod.requests_unknown})"
    )
    if not pod.accepting:
        return State(
            StateKind.DRAINING, f"pod {pod.name} takes no new requests and ends those it has; {requests}", slot
        )
    if not deployment.replicas and deployment.replicas is not None:
        return State(StateKind.STOPPING, f"pod {pod.name} is about to be stopped; {requests}", slot)
    taken = is_being_taken(view, observation) if view else ""
    goes = f"; {taken}" if taken else ""
    return State(StateKind.AWAKE, f"pod {pod.name} serves in {deployment.zone}; {requests}{goes}", slot)


def _terminating(pods: list[PodView]) -> State:
    pod = pods[0]
    running = f" and ends {pod.requests.total} requests" if pod.requests and pod.requests.total else ""
    return State(StateKind.STOPPING, f"pod {pod.name} is stopping{running}")


def _lost(deployment: DeploymentView, pod: PodView) -> State:
    if not deployment.replicas:
        return State(StateKind.STOPPING, f"pod {pod.name} goes with its node")
    return State(
        StateKind.INCONSISTENT,
        f"pod {pod.name} is wanted in {deployment.zone}, but its node is gone; `dormouse wake` brings another, "
        "`dormouse hibernate` settles for none",
    )


def _starting(deployment: DeploymentView, pod: PodView, up: list[SlotView], observation: Observation) -> State:
    here = [view for view in up if view.slot.deployment_name == deployment.name]
    reason = f": {pod.reason}" if pod.reason else ""
    if pod.phase == LOADING:
        remaining_s = loading_remaining_s(pod, observation)
        serving = slot_serving(pod, observation) or (here[0] if here else None)
        started = ""
        if pod.since:
            started = f" for {duration_text((observation.at - pod.since).total_seconds())} of about " + duration_text(
                pod.planned_load_s
            )
        again = f", start {pod.restarts + 1}" if pod.restarts else ""
        return State(
            StateKind.WAKING,
            f"pod {pod.name} has been loading{started}{again}{reason}",
            serving.slot.name if serving else None,
            WakingStage.LOADING,
            remaining_s,
        )
    if not here:
        missing = _missing(observation)
        if missing:
            return State(StateKind.UNKNOWN, f"pod {pod.name} is pending, and the rest cannot be told: {missing}")
        return State(
            StateKind.INCONSISTENT,
            f"pod {pod.name} waits in {deployment.zone}, but no node is asked for there; `dormouse wake` or "
            "`dormouse hibernate --force` settles it",
        )
    view = here[0]
    if view.ready_instance is None:
        return _coming(view, observation)
    return State(
        StateKind.WAKING,
        f"pod {pod.name} is not started yet{reason}",
        view.slot.name,
        WakingStage.SCHEDULING,
        pod.planned_load_s,
    )


def _coming(view: SlotView, observation: Observation) -> State:
    """Waking, at the stage of the candidate's node."""
    if view.paid:
        instance = view.paid[0]
        age = duration_text((observation.at - instance.launched_at).total_seconds())
        if view.ready_instance:
            return State(
                StateKind.WAKING,
                f"node {view.ready_instance.node_name} is Ready; the pod comes next",
                view.slot.name,
                WakingStage.SCHEDULING,
            )
        return State(
            StateKind.WAKING,
            f"instance {instance.instance_id} has run for {age}; its node is not Ready yet",
            view.slot.name,
            WakingStage.NODE,
        )
    refused = f"; last refusal: {view.failures[0].message}" if view.failures else ""
    return State(
        StateKind.WAKING,
        f"{view.slot.instance_type} ({view.slot.purchase}) is asked for in {view.slot.zone}{refused}",
        view.slot.name,
        WakingStage.CAPACITY,
    )


def _node_without_pod(view: SlotView, pod_is_wanted: bool, observation: Observation) -> State:
    operation = observation.operation
    alive = operation is not None and observation.at - operation.renewed_at <= timedelta(seconds=_OPERATION_QUIET_S)
    goal = operation.goal if operation and alive else ""
    if goal.startswith("hibernate"):
        return State(StateKind.STOPPING, f"hibernate is about to stop the node of {view.slot.name}", view.slot.name)
    if pod_is_wanted or goal.startswith("wake"):
        return _coming(view, observation)
    paid = "is paid for" if view.paid else "is asked for"
    return State(
        StateKind.INCONSISTENT,
        f"the node of {view.slot.name} {paid}, but no pod is wanted and no job runs; `dormouse wake` goes on with it, "
        "`dormouse hibernate` stops it",
        view.slot.name,
    )


def _at_rest(observation: Observation) -> State:
    leaving = [(view, one) for view in observation.slots for one in view.instances if not one.is_paid]
    if leaving:
        view, instance = leaving[0]
        return State(
            StateKind.STOPPING,
            f"instance {instance.instance_id} of {view.slot.name} is {instance.state}",
            view.slot.name,
        )
    for volume in observation.volumes:
        if volume.state == "missing":
            return State(StateKind.INCONSISTENT, f"weight volume {volume.volume_id} in {volume.zone} does not exist")
        if volume.attached_to:
            return State(
                StateKind.INCONSISTENT,
                f"weight volume {volume.volume_id} is still attached to {volume.attached_to}, which is no node of "
                "this stack",
            )
    kept = ", ".join(f"{volume.volume_id} in {volume.zone}" for volume in observation.volumes) or "the copy in S3"
    return State(StateKind.ASLEEP, f"no GPU node is asked for or paid for; weights are kept on {kept}")


def _missing(observation: Observation) -> str:
    """The unreadable parts without which asleep and awake look alike; empty where all were read."""
    blind = any(view.desired is None for view in observation.slots) or any(
        view.replicas is None or view.pods is None for view in observation.deployments
    )
    if not blind:
        return ""
    return "; ".join(f"{one.what}: {one.reason}" for one in observation.unknown) or "parts could not be read"
