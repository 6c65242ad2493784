"""Move a serving stack to another candidate: drain, stop, wake there; back or on where the target refuses.

One GPU node at a time: the weights' volume can be mounted once, and two such machines are dear. What a move is about
stands on the Deployment that it leaves, so a move may be killed at any line and run again.
"""

from dataclasses import dataclass
from datetime import timedelta

from infra.clock import Clock
from infra.jobs.candidate import NODE_JOIN_S
from infra.jobs.capacity import Refusal
from infra.jobs.clients import Clients
from infra.jobs.drain import drain
from infra.jobs.events import EventKind
from infra.jobs.hibernate import stop_pods
from infra.jobs.lane_state import lane_observation
from infra.jobs.lanes import lane_of
from infra.jobs.observation import READY, Observation, SlotView
from infra.jobs.operation import Operation, hourly, require_readable, run_locked
from infra.jobs.progress import Journal, Progress, Report, silent
from infra.jobs.state import is_being_taken, is_left_behind, slot_serving, state_of
from infra.jobs.wake import try_in_order
from infra.jobs.weight_volumes import await_detached
from infra.outputs import Slot, StackOutputs
from serving.errors import ConfigurationError, Fault, JobError
from serving.units import duration_text

NOTICE_DRAIN_S = 100.0
"""What of a spot notice's 120 s is good for draining; the rest is for seeing the notice and stopping the pod."""

MINIMUM_STAY_S = 6 * 3600.0
"""How long a candidate is kept before a better one is tried, in seconds: a try costs a whole start."""

RETRY_S = 2 * 3600.0
"""How long a better candidate's last refusal is held against it, in seconds."""


@dataclass(frozen=True)
class MoveRequest:
    """What is wanted.

    - `to`: the candidate to move to; None is the next one where the present one is being taken, else a better one.
    - `reason`: for people, into the annotations and the event.
    - `drain_timeout_s`: how long running requests are waited for; None is the stack's own `drain_s`.
    - `timeout_s`: for everything together; None is every candidate's patience plus the startup window and the drain.
    """

    to: str | None = None
    reason: str = ""
    drain_timeout_s: float | None = None
    timeout_s: float | None = None


@dataclass(frozen=True)
class _Course:
    """Where a move comes from and the candidates to try, in order."""

    origin: Slot
    order: tuple[Slot, ...]
    urgent: bool


def move(
    outputs: StackOutputs,
    clients: Clients,
    clock: Clock,
    progress: Progress = silent,
    request: MoveRequest | None = None,
) -> Report:
    """Bring a serving stack from its candidate to another one.

    Raises ConfigurationError for a slot that does not exist; JobError where nothing serves, no other candidate is
    meant, requests do not end, or another job stands in the way; CapacityError where every candidate refuses, with
    everything back at 0; and botocore's and Kubernetes' errors. Running it again is safe.
    """
    request = request or MoveRequest()
    if request.to is not None and request.to not in {slot.name for slot in outputs.slots}:
        names = ", ".join(slot.name for slot in outputs.slots)
        raise ConfigurationError([Fault("--to", repr(request.to), names)], "the command line")
    journal = Journal(clock, progress)
    patience_s = sum(slot.patience_s for slot in outputs.slots) + NODE_JOIN_S
    usual_s = outputs.startup_window_s + patience_s + 2 * outputs.drain_s
    deadline_s = clock.monotonic_s() + (usual_s if request.timeout_s is None else request.timeout_s)
    goal = f"move --to {request.to}" if request.to else "move"
    return run_locked(
        outputs,
        clients,
        clock,
        journal,
        goal,
        deadline_s,
        lambda operation: _move(_one_lane(operation, request), request, deadline_s),
    )


def _one_lane(operation: Operation, request: MoveRequest) -> Operation:
    """The job on the replica that is meant.

    That of the candidate to move to; without one the replica whose move was begun, whose machine is being taken or that
    serves, in this order.
    """
    outputs = operation.outputs
    if len(outputs.lanes) < 2:
        return operation
    if request.to is not None:
        return lane_of(operation, next(slot.replica for slot in outputs.slots if slot.name == request.to))
    seen = operation.observe()
    moving = {view.name for view in seen.deployments if view.moving}
    here = [slot for slot in outputs.slots if slot.deployment_name in moving]
    here += [view.slot for view in seen.slots if is_being_taken(view, seen)]
    served = [serving_slot(lane_observation(seen, lane)) for lane in outputs.lanes]
    here += [view.slot for view in served if view is not None]
    return lane_of(operation, here[0].replica if here else outputs.lanes[0])


def preferred_again(
    seen: Observation, *, minimum_stay_s: float = MINIMUM_STAY_S, retry_s: float = RETRY_S
) -> tuple[Slot, str] | None:
    """A better candidate that is worth a try now, and why; None where there is none. Pure.

    - `minimum_stay_s`: how long the present instance must have run.
    - `retry_s`: a candidate that refused within so many seconds is not tried again yet.

    Nobody can ask EC2 whether it would give an instance; the best that is known is that nothing speaks against it: no
    recent refusal, the node group sound, and a Capacity Block open for long enough.
    """
    here = serving_slot(seen)
    if here is None or not here.paid:
        return None
    stayed_s = (seen.at - min(one.launched_at for one in here.paid)).total_seconds()
    for view in seen.slots:
        if view.slot == here.slot:
            return None
        if view.slot.replica != here.slot.replica or not _may_give(view, seen, retry_s):
            continue
        # A Capacity Block that has begun is paid for whether it is used or not.
        if stayed_s < minimum_stay_s and view.slot.purchase != "capacity-block":
            continue
        return view.slot, (
            f"{view.slot.name} is preferred to {here.slot.name}, which has served for {duration_text(stayed_s)}, and "
            "nothing speaks against it now"
        )
    return None


def _may_give(view: SlotView, seen: Observation, retry_s: float) -> bool:
    if view.status != "ACTIVE" or view.issues:
        return False
    if view.failures and seen.at - view.failures[0].at < timedelta(seconds=retry_s):
        return False
    if view.slot.purchase == "capacity-block":
        # As long again as a candidate has to stay, or the way back would come at once.
        return (
            view.block is not None
            and view.block.is_open(seen.at)
            and (view.block.left_s(seen.at) or retry_s) >= retry_s
        )
    return True


def serving_slot(seen: Observation) -> SlotView | None:
    """The candidate whose pod is Ready, or None."""
    for deployment in seen.deployments:
        for pod in deployment.pods or ():
            if pod.phase == READY and deployment.replicas and not is_left_behind(deployment, seen):
                return slot_serving(pod, seen)
    return None


def _move(operation: Operation, request: MoveRequest, deadline_s: float) -> Report:
    seen = operation.observe()
    require_readable(seen)
    here = serving_slot(seen)
    noted = _noted(operation.outputs, seen)
    if here is None and noted is None:
        state = state_of(seen)
        raise JobError(
            f"nothing serves here to be moved: the stack is {state}: {state.why}; `dormouse wake"
            + (f" --slot {request.to}" if request.to else "")
            + "` starts it"
        )
    if here is not None and (request.to == here.slot.name or (noted is not None and here.slot != noted[0])):
        # Also where a killed move had come as far as serving, there or on another candidate.
        operation.settle_move(seen)
        return _report(operation, here.slot, [], changed=False)
    course = _course(operation.outputs, seen, here, noted, request)
    if here is not None:
        _leave_origin(operation, request, here, course, seen)
        seen = operation.observe()
    # A target that is up already was begun by an earlier run: what loads there goes on loading.
    begun = here is None and seen.slot(course.order[0].name).is_up
    if not begun:
        stop_pods(operation)
    others = tuple(view.slot for view in seen.slots if view.is_up and view.slot != course.order[0])
    operation.stop_nodes(tuple(dict.fromkeys((*others, course.origin))), until_terminated=True)
    if not begun:
        await_detached(operation, course.order[0].volume_ids)
    slot, refusals = try_in_order(operation, course.order, deadline_s)
    operation.settle_move(operation.observe())
    return _report(operation, slot, refusals, changed=True, back=slot == course.origin)


def _noted(outputs: StackOutputs, seen: Observation) -> tuple[Slot, Slot] | None:
    """The origin and the target of a move that was begun and not ended."""
    slots = {slot.name: slot for slot in outputs.slots}
    for view in seen.deployments:
        origin, _, target = view.moving.partition(">")
        if origin in slots and target in slots:
            return slots[origin], slots[target]
    return None


def _course(
    outputs: StackOutputs,
    seen: Observation,
    here: SlotView | None,
    noted: tuple[Slot, Slot] | None,
    request: MoveRequest,
) -> _Course:
    """Raises JobError where no other candidate is meant."""
    origin = noted[0] if noted is not None else here.slot if here is not None else outputs.slots[0]
    taken = is_being_taken(seen.slot(origin.name), seen)
    others = [slot for slot in outputs.slots if slot != origin]
    if request.to is not None:
        first = next((slot for slot in others if slot.name == request.to), None)
    elif noted is not None:
        first = noted[1]
    elif taken:
        first = next(iter(others), None)
    else:
        first = next(iter(outputs.slots[: outputs.slots.index(origin)]), None)
    if first is None:
        names = ", ".join(slot.name for slot in others) or "none; add one to dormouse:capacity"
        why = f"{taken}, and there is no other candidate" if taken else f"{origin.name} is the most preferred candidate"
        raise JobError(f"{why}; nothing was changed. Name another with --to: {names}")
    rest = [slot for slot in others if slot != first]
    # A machine that is taken is no place to go back to, unless nothing else gives one.
    order = [first, *rest, origin] if taken else [first, origin, *rest]
    return _Course(origin, tuple(order), bool(taken))


def _leave_origin(
    operation: Operation, request: MoveRequest, here: SlotView, course: _Course, seen: Observation
) -> None:
    """Note the move and drain; takes the note back where requests do not end in time."""
    origin, target = course.origin, course.order[0]
    taken = is_being_taken(here, seen)
    why = request.reason or taken or "asked for"
    operation.journal.say("drain", f"moving from {origin.name} to {target.name}: {why}")
    operation.mark_moving(origin.deployment_name, origin.name, target.name)
    noticed = any(one.notice for one in here.paid)
    wanted_s = float(operation.outputs.drain_s if request.drain_timeout_s is None else request.drain_timeout_s)
    try:
        drain(operation, min(wanted_s, NOTICE_DRAIN_S) if noticed else wanted_s, give_up=not course.urgent)
    except JobError:
        operation.mark_moving(origin.deployment_name, "", "")
        raise


def _report(operation: Operation, slot: Slot, refusals: list[Refusal], *, changed: bool, back: bool = False) -> Report:
    journal = operation.journal
    where = f"{slot.name}: {slot.instance_type} ({slot.purchase}) in {slot.zone}, at {hourly(slot.usd_per_hour)}"
    after = f"after {duration_text(journal.took_s)}"
    sentence = f"already on {where}"
    if changed:
        sentence = f"back on {where}, {after}: no other candidate gave a node" if back else f"moved to {where}, {after}"
    journal.say("done", sentence)
    if changed:
        operation.tell(EventKind.MOVED, sentence, slot)
    return Report(
        goal="move",
        state="awake",
        changed=changed,
        sentence=sentence,
        took_s=journal.took_s,
        slot=slot.name,
        refusals=tuple(refusals),
        notes=tuple(journal.notes),
        steps=tuple(journal.steps),
    )
