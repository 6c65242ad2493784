"""An `Observation` of the jobs, turned into the slots that `decide()` looks at."""

from collections.abc import Mapping
from datetime import datetime

from infra.brain.situation import Situation, SlotNow, SlotState
from infra.jobs.observation import LOADING, PENDING, READY, TERMINATING, DeploymentView, Observation, PodView, SlotView
from infra.jobs.state import slot_serving


def slots_from(observation: Observation, refused_until: Mapping[str, datetime] | None = None) -> tuple[SlotNow, ...]:
    """Every capacity candidate as it stands, in the order of preference.

    `refused_until` tells by candidate before which moment it is not tried again. What could not be read is `unknown`,
    and so is a machine that is paid for though no pod is on its way to it: a person or a job settles that.
    """
    refused = refused_until or {}
    return tuple(_slot_now(view, observation, refused.get(view.slot.name)) for view in observation.slots)


def situation_from(
    observation: Observation,
    *,
    last_activity: datetime | None,
    wake_requests: int = 0,
    hold_until: datetime | None = None,
    held_by: str = "",
    awake_until: datetime | None = None,
    spent_usd: float | None = None,
    expires_at: datetime | None = None,
    refused_until: Mapping[str, datetime] | None = None,
    wake_s: float,
    drain_s: float,
    look_s: float = 60.0,
) -> Situation:
    """The whole situation: the observation, and what annotations and the ledger say beside it."""
    return Situation(
        observation.at,
        slots_from(observation, refused_until),
        last_activity,
        wake_requests,
        hold_until,
        held_by,
        awake_until,
        spent_usd,
        expires_at,
        wake_s,
        drain_s,
        look_s,
    )


def _slot_now(view: SlotView, observation: Observation, refused_until: datetime | None) -> SlotNow:
    deployment = next((one for one in observation.deployments if one.name == view.slot.deployment_name), None)
    state, why, pod = _state(view, deployment, observation)
    requests = pod.requests if pod is not None else None
    serves = state in (SlotState.AWAKE, SlotState.DRAINING)
    block = view.block
    return SlotNow(
        view.slot.name,
        state,
        since=pod.since if pod is not None else None,
        running=requests.running if requests is not None else None if serves else 0,
        waiting=requests.waiting if requests is not None else None if serves else 0,
        unknown_reason=why or (pod.requests_unknown if pod is not None else ""),
        usd_per_hour=view.slot.usd_per_hour,
        prepaid=view.slot.purchase == "capacity-block",
        starts_at=block.usable_from if block is not None else None,
        # When it has to be empty, which is before its end: EC2 takes the machines first.
        ends_at=block.usable_until if block is not None else None,
        interruption_at=observation.at if any(one.notice for one in view.paid) else None,
        refused_until=refused_until,
        replica=view.slot.replica,
    )


def _state(
    view: SlotView, deployment: DeploymentView | None, observation: Observation
) -> tuple[SlotState, str, PodView | None]:
    """Its state, why it is unknown where it is, and its pod."""
    if view.desired is None or view.status is None:
        return SlotState.UNKNOWN, f"node group {view.slot.node_group_name} could not be read", None
    if deployment is None or deployment.pods is None or deployment.replicas is None:
        if not view.is_up:
            return SlotState.ASLEEP, "", None
        return SlotState.UNKNOWN, f"the pods of {view.slot.deployment_name} could not be read", None
    pods = [pod for pod in deployment.pods if _is_here(pod, view, observation)]
    for phase in (READY, TERMINATING, LOADING, PENDING):
        pod = next((one for one in pods if one.phase == phase), None)
        if pod is None:
            continue
        if phase == READY:
            return SlotState.AWAKE if pod.accepting and deployment.replicas else SlotState.DRAINING, "", pod
        if phase == TERMINATING:
            return SlotState.STOPPING, "", pod
        return SlotState.LOADING if phase == LOADING else SlotState.WAKING, "", pod
    if view.is_up:
        if deployment.replicas or observation.operation is not None:
            return SlotState.WAKING if deployment.replicas else SlotState.STOPPING, "", None
        return SlotState.UNKNOWN, f"the machine of {view.slot.name} is paid for, but no pod is wanted", None
    return SlotState.STOPPING if view.instances else SlotState.ASLEEP, "", None


def _is_here(pod: PodView, view: SlotView, observation: Observation) -> bool:
    """Whether the pod runs on this candidate's machine, or waits for it while it is the one that comes."""
    serving = slot_serving(pod, observation)
    return view.is_up if serving is None else serving is view
