"""Wake a stack: try its capacity candidates in order until one serves.

Whatever an earlier wake has left behind is taken over, so a wake may be killed at any line and run again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from infra.clock import Clock
from infra.jobs.candidate import NO_COPY, NODE_JOIN_S, UNPROVEN, Candidate
from infra.jobs.capacity import Refusal
from infra.jobs.clients import Clients
from infra.jobs.events import EventKind
from infra.jobs.lanes import first_lanes, in_turn
from infra.jobs.observation import READY, DeploymentView, Observation, PodView, SlotView
from infra.jobs.operation import Operation, hourly, require_readable, run_locked
from infra.jobs.progress import Journal, Progress, Report, silent
from infra.jobs.state import is_left_behind, slot_serving
from infra.jobs.volume_speed import lower_volumes
from infra.outputs import Slot, StackOutputs
from serving.errors import CapacityError, ConfigurationError, Fault, JobError
from serving.units import duration_text


@dataclass(frozen=True)
class WakeRequest:
    """What is wanted.

    - `slot`: the only candidate to try, or None for all in order.
    - `timeout_s`: for everything together; None is every candidate's patience plus each replica's startup window.
    - `replicas`: how many to have awake, counted from the first; None is all. What else is awake stays so.
    """

    slot: str | None = None
    timeout_s: float | None = None
    replicas: int | None = None


def wake(
    outputs: StackOutputs,
    clients: Clients,
    clock: Clock,
    progress: Progress = silent,
    request: WakeRequest | None = None,
) -> Report:
    """Bring the stack to awake: for each replica its node, or nodes, and its Ready pod in the Service, one by one.

    Raises CapacityError naming each candidate's refusal, with everything back at 0; ConfigurationError for a slot
    that does not exist; JobError where the pod does not start or another job stands in the way; and botocore's and
    Kubernetes' errors. Running it again is safe in every case.
    """
    request = request or WakeRequest()
    candidates = _candidates(outputs, request)
    journal = Journal(clock, progress)
    lanes = sorted({slot.replica for slot in candidates})
    patience_s = sum(slot.patience_s for slot in candidates) + NODE_JOIN_S * len(lanes)
    usual_s = outputs.startup_window_s * len(lanes) + patience_s
    deadline_s = clock.monotonic_s() + (usual_s if request.timeout_s is None else request.timeout_s)
    goal = f"wake --slot {request.slot}" if request.slot else "wake"
    if request.replicas is not None:
        goal += f" --replicas {request.replicas}"

    def one(operation: Operation) -> Report:
        return _wake(operation, tuple(slot for slot in candidates if slot in operation.outputs.slots), deadline_s)

    def work(operation: Operation) -> Report:
        # A candidate that has no machine says nothing of another replica's; a pod that does not start speaks for all.
        return in_turn(operation, lanes, one, go_on_after=(CapacityError,))

    return run_locked(outputs, clients, clock, journal, goal, deadline_s, work)


def _candidates(outputs: StackOutputs, request: WakeRequest) -> tuple[Slot, ...]:
    lanes = first_lanes(outputs, request.replicas, "--replicas", least=1)
    if request.slot is None:
        return tuple(slot for slot in outputs.slots if slot.replica in lanes)
    chosen = tuple(slot for slot in outputs.slots if slot.name == request.slot)
    if not chosen:
        names = ", ".join(slot.name for slot in outputs.slots)
        raise ConfigurationError([Fault("--slot", repr(request.slot), names)], "the command line")
    return chosen


def _wake(operation: Operation, candidates: tuple[Slot, ...], deadline_s: float) -> Report:
    seen = operation.observe()
    require_readable(seen)
    serving = next(
        (
            (deployment, pod)
            for deployment in seen.deployments
            if deployment.replicas
            for pod in deployment.pods or ()
            if pod.phase == READY and not is_left_behind(deployment, seen)
        ),
        None,
    )
    if serving is not None:
        return _already_awake(operation, seen, *serving, candidates)
    order = _order(seen, candidates)
    adopted = next((slot for slot in order if seen.slot(slot.name).is_up), None)
    _clear_others(operation, seen, order[0])
    if adopted is not None:
        operation.journal.note(f"going on with {adopted.name}, which an earlier job has asked for")
    operation.tell(EventKind.WAKING, f"waking on the first of {', '.join(slot.name for slot in order)} that has a node")
    slot, refusals = try_in_order(operation, order, deadline_s)
    operation.settle_move(seen)
    return _woken(operation, slot, refusals)


def try_in_order(operation: Operation, order: Sequence[Slot], deadline_s: float) -> tuple[Slot, list[Refusal]]:
    """Try candidates until one serves; each that refuses is put back to 0 before the next one is asked.

    - `deadline_s`: the clock's monotonic time at which to give up.

    Returns the candidate that serves, and the refusals before it. Raises CapacityError where all refuse, with
    everything back at 0; JobError where a pod does not start or time is up.
    """
    refusals: list[Refusal] = []
    unproven: set[str] = set()
    for slot in order:
        if slot.volume_id and slot.volume_id in unproven:
            # Another machine would find the same volume as it is.
            refusals.append(Refusal(slot.name, UNPROVEN, f"{slot.volume_id} is refused, as before; not asked for", 0.0))
            continue
        candidate = Candidate(operation, slot, deadline_s)
        refusal = candidate.bring_node() or candidate.start_pod()
        if refusal is None:
            behind = {one for other in order[: len(refusals)] for one in other.volume_ids} - set(slot.volume_ids)
            lower_volumes(operation, sorted(behind))
            return slot, refusals
        refusals.append(refusal)
        if refusal.kind == UNPROVEN:
            unproven.add(slot.volume_id)
        operation.journal.say("refused", str(refusal))
        _leave(operation, slot, refusal)
        operation.tell(EventKind.REFUSED, str(refusal), slot)
    lower_volumes(operation, sorted({one for slot in order for one in slot.volume_ids}))
    bare = any(refusal.kind in (UNPROVEN, NO_COPY) for refusal in refusals)
    none = "no candidate serves" if bare else "no candidate could give a GPU node"
    sentence = (
        f"{none}; every node group is back at 0 and nothing is paid for:\n"
        + "\n".join(f"  - {refusal}" for refusal in refusals)
        + "\n"
        + _advice(refusals)
    )
    operation.tell(EventKind.ASLEEP, sentence)
    raise CapacityError(sentence)


def _already_awake(
    operation: Operation,
    seen: Observation,
    deployment: DeploymentView,
    pod: PodView,
    candidates: tuple[Slot, ...],
) -> Report:
    view = slot_serving(pod, seen)
    if view is not None and view.slot not in candidates:
        raise JobError(
            f"the stack is awake on {view.slot.name}, and never runs on two slots at once; "
            f"`dormouse hibernate` first, then `dormouse wake --slot {candidates[0].name}`"
        )
    changed = False
    if view is not None:
        changed = _stop_others(operation, seen, view)
    if not pod.accepting:
        operation.journal.say("ready", f"putting pod {pod.name} back into the Service")
        operation.accept(pod.name, True)
        changed = True
    operation.settle_move(seen)
    if changed or deployment.state != "awake":
        operation.annotate(deployment.name, "awake", "wake found the pod Ready")
    taken = next((one for one in view.paid if one.notice), None) if view is not None else None
    if view is not None and taken is not None:
        operation.journal.note(
            f"EC2 takes spot instance {taken.instance_id} of {view.slot.name} back ({taken.notice}): `dormouse move` "
            "goes to the next candidate"
        )
    again = "awake again" if changed else "already awake"
    operation.journal.say("done", f"{again}: pod {pod.name} serves")
    return Report(
        goal="wake",
        state="awake",
        changed=changed,
        sentence=f"{again}: pod {pod.name} serves {operation.outputs.served_model_name} in {deployment.zone}",
        took_s=operation.journal.took_s,
        slot=view.slot.name if view else None,
        notes=tuple(operation.journal.notes),
        steps=tuple(operation.journal.steps),
    )


def _order(seen: Observation, candidates: tuple[Slot, ...]) -> list[Slot]:
    """The candidates, with what is already on its way first.

    Raises JobError where another slot than the only one wanted is up.
    """

    def progress_made(view: SlotView) -> tuple[bool, bool, bool]:
        replicas = seen.deployment(view.slot.deployment_name).replicas
        return (view.ready_instance is not None and bool(replicas), bool(view.paid), bool(view.desired))

    up = [view for view in seen.slots if view.is_up]
    if up:
        first = max(up, key=progress_made).slot
        if first not in candidates:
            raise JobError(
                f"{first.name} is already up, and a stack never runs on two slots at once; `dormouse wake` goes on "
                "with it, `dormouse hibernate` stops it"
            )
        return [first, *(slot for slot in candidates if slot != first)]
    return sorted(candidates, key=lambda slot: not seen.deployment(slot.deployment_name).replicas)


def _clear_others(operation: Operation, seen: Observation, keep: Slot) -> None:
    """Leave nothing running or wanted beside the slot that is tried first."""
    for deployment in seen.deployments:
        if deployment.replicas and deployment.name != keep.deployment_name:
            operation.journal.say("stop", f"Deployment {deployment.name} wants a pod in another zone; setting it to 0")
            operation.scale(deployment.name, 0)
    _stop_others(operation, seen, seen.slot(keep.name))


def _stop_others(operation: Operation, seen: Observation, keep: SlotView) -> bool:
    others = tuple(view.slot for view in seen.slots if view.is_up and view.slot != keep.slot)
    if others:
        operation.journal.note(f"stopping {', '.join(slot.name for slot in others)}: {keep.slot.name} is enough")
        operation.stop_nodes(others, until_terminated=False)
    return bool(others)


def _leave(operation: Operation, slot: Slot, refusal: Refusal) -> None:
    """Put a candidate that refused back to 0, before another is asked."""
    if operation.observe().deployment(slot.deployment_name).replicas:
        operation.scale(slot.deployment_name, 0)
    operation.stop_nodes((slot,), until_terminated=False)
    operation.annotate(slot.deployment_name, "asleep", str(refusal))


def _woken(operation: Operation, slot: Slot, refusals: list[Refusal]) -> Report:
    took_s = operation.journal.took_s
    sentence = (
        f"awake on {slot.name} after {duration_text(took_s)}: {slot.instance_type} ({slot.purchase}) in {slot.zone}, "
        f"at {hourly(slot.usd_per_hour)}"
    )
    operation.journal.say("done", sentence)
    operation.tell(EventKind.AWAKE, sentence, slot)
    return Report(
        goal="wake",
        state="awake",
        changed=True,
        sentence=sentence,
        took_s=took_s,
        slot=slot.name,
        refusals=tuple(refusals),
        notes=tuple(operation.journal.notes),
        steps=tuple(operation.journal.steps),
    )


def _advice(refusals: list[Refusal]) -> str:
    kinds = {refusal.kind for refusal in refusals}
    advice: list[str] = []
    if "quota" in kinds:
        advice.append("raise the quota that is named (Service Quotas, EC2)")
    if "configuration" in kinds:
        advice.append("correct what is named and run `pulumi up`")
    if UNPROVEN in kinds:
        advice.append("fill the volumes: `dormouse weights hydrate`, then wake again")
    if NO_COPY in kinds:
        advice.append("fill the copy in S3: `dormouse weights hydrate`, then wake again")
    if kinds & {"capacity", "other", "node", "reservation"}:
        advice.append("try again later, or add a candidate in another zone or a Capacity Block to dormouse:capacity")
    return "What can help: " + "; ".join(advice) + "."
