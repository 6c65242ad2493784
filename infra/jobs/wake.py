"""Wake a stack: try its capacity candidates in order until one serves.

Whatever an earlier wake has left behind is taken over, so a wake may be killed at any line and run again.
"""

from dataclasses import dataclass

from infra.clock import Clock
from infra.jobs.candidate import NODE_JOIN_S, Candidate
from infra.jobs.capacity import Refusal
from infra.jobs.clients import Clients
from infra.jobs.observation import READY, DeploymentView, Observation, PodView, SlotView
from infra.jobs.operation import Operation, hourly, require_readable, run_locked
from infra.jobs.progress import Journal, Progress, Report, silent
from infra.jobs.state import is_left_behind, slot_serving
from infra.outputs import Slot, StackOutputs
from serving.errors import CapacityError, ConfigurationError, Fault, JobError
from serving.units import duration_text


@dataclass(frozen=True)
class WakeRequest:
    """What is wanted.

    - `slot`: the only candidate to try, or None for all in order.
    - `timeout_s`: for everything together; None is every candidate's patience plus the startup window.
    """

    slot: str | None = None
    timeout_s: float | None = None


def wake(
    outputs: StackOutputs,
    clients: Clients,
    clock: Clock,
    progress: Progress = silent,
    request: WakeRequest | None = None,
) -> Report:
    """Bring the stack to awake: one node, one Ready pod in its zone, in the Service.

    Raises CapacityError naming each candidate's refusal, with everything back at 0; ConfigurationError for a slot
    that does not exist; JobError where the pod does not start or another job stands in the way; and botocore's and
    Kubernetes' errors. Running it again is safe in every case.
    """
    request = request or WakeRequest()
    candidates = _candidates(outputs, request)
    journal = Journal(clock, progress)
    patience_s = sum(slot.patience_s for slot in candidates) + NODE_JOIN_S
    timeout_s = outputs.startup_window_s + patience_s if request.timeout_s is None else request.timeout_s
    deadline_s = clock.monotonic_s() + timeout_s
    goal = f"wake --slot {request.slot}" if request.slot else "wake"
    return run_locked(
        outputs, clients, clock, journal, goal, deadline_s, lambda operation: _wake(operation, candidates, deadline_s)
    )


def _candidates(outputs: StackOutputs, request: WakeRequest) -> tuple[Slot, ...]:
    if request.slot is None:
        return outputs.slots
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
    refusals: list[Refusal] = []
    for slot in order:
        candidate = Candidate(operation, slot, deadline_s)
        refusal = candidate.bring_node() or candidate.start_pod()
        if refusal is None:
            return _woken(operation, slot, refusals)
        refusals.append(refusal)
        operation.journal.say("refused", str(refusal))
        _leave(operation, slot, refusal)
    raise CapacityError(
        "no candidate could give a GPU node; every node group is back at 0 and nothing is paid for:\n"
        + "\n".join(f"  - {refusal}" for refusal in refusals)
        + "\n"
        + _advice(refusals)
    )


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
    if changed or deployment.state != "awake":
        operation.annotate(deployment.name, "awake", "wake found the pod Ready")
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
    if kinds & {"capacity", "other", "node", "reservation"}:
        advice.append("try again later, or add a candidate in another zone or a Capacity Block to dormouse:capacity")
    return "What can help: " + "; ".join(advice) + "."
