"""Put a stack to sleep: drain, stop the pod, stop every node, see that the weights are kept.

A streaming answer is not cut unless `force` says so. A hibernation may be killed at any line and run again.
"""

from dataclasses import dataclass

from infra.clock import Clock
from infra.jobs.clients import Clients
from infra.jobs.drain import drain
from infra.jobs.events import EventKind
from infra.jobs.kubernetes_api import AccessDenied, Unreachable
from infra.jobs.lanes import first_lanes, in_turn, together
from infra.jobs.observation import LOADING, PENDING, READY, Observation, PodView, SlotView
from infra.jobs.observe import observe
from infra.jobs.operation import Operation, hourly, require_readable, run_locked
from infra.jobs.progress import Journal, Progress, Report, Step, silent
from infra.jobs.state import StateKind, is_left_behind, slot_serving, state_of
from infra.jobs.volume_speed import lower_volumes
from infra.jobs.weight_volumes import await_detached
from infra.outputs import StackOutputs
from serving.errors import ConfigurationError, Fault, JobError
from serving.units import duration_text

_LOCK_WAIT_S = 3600.0
_POD_GONE_MARGIN_S = 180.0

# What a server that loads gets to end.
_LOADING_GRACE_S = 30


@dataclass(frozen=True)
class HibernateRequest:
    """What is wanted.

    - `force`: stop even where a model is loading or requests are running; vLLM still has its grace period.
    - `dry_run`: only say what would be done.
    - `drain_timeout_s`: how long running requests are waited for; None is the stack's own `drain_s`.
    - `prepaid`: stop even a Capacity Block that still has time; `force` does so too, without draining.
    - `replicas`: how many to leave as they are, counted from the first; 0 puts all to sleep.
    """

    force: bool = False
    dry_run: bool = False
    drain_timeout_s: float | None = None
    prepaid: bool = False
    replicas: int = 0


def hibernate(
    outputs: StackOutputs,
    clients: Clients,
    clock: Clock,
    progress: Progress = silent,
    request: HibernateRequest | None = None,
) -> Report:
    """Bring the stack, or its last replicas, to asleep: no pod, every node group at 0, every weight volume available.

    Raises JobError where a model is loading or requests do not end (without `force`), where another job stands in the
    way, or where something does not stop; and botocore's and Kubernetes' errors. Running it again is safe.
    """
    request = request or HibernateRequest()
    journal = Journal(clock, progress)
    kept = first_lanes(outputs, request.replicas, "--replicas", least=0)
    # The last first, so that what is left when somebody stops the job is what a smaller stack would have.
    lanes = [lane for lane in reversed(outputs.lanes) if lane not in kept]
    if not lanes:
        raise ConfigurationError([_keeps_all(outputs, request)], "the command line")
    if request.dry_run:
        return _dry_run_lanes(outputs, clients, clock, journal, request, lanes)
    deadline_s = clock.monotonic_s() + _LOCK_WAIT_S
    began = False

    def work(operation: Operation) -> Report:
        nonlocal began
        began = True
        return in_turn(operation, lanes, lambda lane: _hibernate(lane, request), go_on_after=(JobError,))

    try:
        on_other = "take" if request.force else "refuse"
        goal = f"hibernate --replicas {request.replicas}" if request.replicas else "hibernate"
        return run_locked(outputs, clients, clock, journal, goal, deadline_s, work, on_other)
    except (Unreachable, AccessDenied) as error:
        if began:
            raise
        if not request.force:
            raise JobError(
                f"{error}. Without the cluster nobody can tell whether requests are running, so nothing was changed; "
                "`dormouse hibernate --force` stops the nodes all the same"
            ) from error
        journal.note(f"the cluster is out of reach ({error.reason}): stopping the nodes without draining")
        blind = Operation(outputs, clients, clock, journal, None)
        return in_turn(blind, lanes, lambda lane: _stop_and_verify(lane, cluster=False), go_on_after=(JobError,))


def _keeps_all(outputs: StackOutputs, request: HibernateRequest) -> Fault:
    return Fault("--replicas", str(request.replicas), f"0 to {len(outputs.lanes) - 1}, how many are left awake")


def _hibernate(operation: Operation, request: HibernateRequest) -> Report:
    seen = operation.observe()
    require_readable(seen)
    if state_of(seen).kind is StateKind.ASLEEP and not any(view.replicas for view in seen.deployments):
        for view in seen.deployments:
            if view.state not in ("", "asleep"):
                operation.annotate(view.name, "asleep", "hibernate found nothing running")
        operation.settle_move(seen)
        lower_volumes(operation)
        operation.journal.say("done", "already asleep")
        return _report(operation, seen, changed=False)
    if not request.force:
        _refuse_loading(seen)
        if not request.prepaid:
            _refuse_prepaid(seen)
        drain(operation, request.drain_timeout_s)
    stop_pods(operation)
    return _stop_and_verify(operation, cluster=True)


def _refuse_loading(seen: Observation) -> None:
    starting = [
        (view, pod)
        for view in seen.deployments
        if view.replicas
        for pod in view.pods or ()
        if _is_starting(pod) and not (pod.phase == LOADING and is_left_behind(view, seen))
    ]
    if not starting:
        return
    view, pod = starting[0]
    state = state_of(seen)
    rest = f", about {duration_text(state.remaining_s)} to go" if state.remaining_s else ""
    raise JobError(
        f"pod {pod.name} in {view.zone} is {pod.phase}{rest}: somebody is waking this stack, and loading is not idling; "
        "nothing was changed. Wait until it is awake, or stop it with `dormouse hibernate --force`"
    )


def _is_starting(pod: PodView) -> bool:
    return pod.phase in (PENDING, LOADING)


def _refuse_prepaid(seen: Observation) -> None:
    serving = [slot_serving(pod, seen) for pod in seen.pods if pod.phase == READY]
    for view in serving:
        if view is None or view.slot.purchase != "capacity-block":
            continue
        if view.block is not None and view.block.is_over(seen.at):
            continue
        raise JobError(f"{_prepaid_words(view, seen)}; nothing was changed: --prepaid hibernates it all the same")


def _prepaid_words(view: SlotView, seen: Observation) -> str:
    left_s = view.block.left_s(seen.at) if view.block else None
    rest = "" if left_s is None else f" for another {duration_text(left_s)}"
    return (
        f"{view.slot.name} runs on a Capacity Block, which is prepaid{rest}: sleeping saves nothing, and the next wake "
        "has to load the model again"
    )


def stop_pods(operation: Operation) -> None:
    """Set every Deployment to 0 and wait until the pods are gone, or their grace period is over."""
    began_s = operation.clock.monotonic_s()
    while True:
        seen = operation.observe()
        for view in seen.deployments:
            if view.replicas:
                operation.journal.say("stop", f"stopping the pod of {view.name}")
                operation.annotate(view.name, "draining", "stopping the pod")
                operation.scale(view.name, 0)
                for pod in view.pods or ():
                    if _is_starting(pod):
                        # A loading vLLM ignores SIGTERM and answers nobody, so its long grace period buys nothing.
                        operation.delete_pod(pod.name, _LOADING_GRACE_S)
        pods = seen.pods
        readable = all(view.pods is not None and view.replicas == 0 for view in seen.deployments)
        if not pods and readable:
            return
        grace_s = max([pod.grace_period_s for pod in pods], default=0.0)
        waited_s = operation.clock.monotonic_s() - began_s
        if waited_s > grace_s + _POD_GONE_MARGIN_S:
            if not readable and not pods:
                require_readable(seen)
            names = ", ".join(pod.name for pod in pods)
            # After its grace period no request can be running; the node's end removes what is left.
            operation.journal.note(
                f"pod {names} is not gone after {duration_text(waited_s)}; stopping its node all the same"
            )
            return
        if pods:
            running = sum(pod.requests.total for pod in pods if pod.requests)
            ending = f" and ends {running} requests" if running else ""
            operation.journal.say("stop", f"pod {pods[0].name} stops{ending}, within {duration_text(grace_s)}")
        operation.pause(5.0)


def _stop_and_verify(operation: Operation, *, cluster: bool) -> Report:
    operation.stop_nodes(operation.outputs.slots, until_terminated=True)
    every = tuple(dict.fromkeys(one for slot in operation.outputs.slots for one in slot.volume_ids))
    seen = await_detached(operation, every)
    lower_volumes(operation)
    if cluster:
        for view in seen.deployments:
            operation.annotate(view.name, "asleep", "hibernated")
    blocks = [slot.name for slot in operation.outputs.slots if slot.purchase == "capacity-block"]
    if blocks:
        operation.journal.note(
            f"{', '.join(blocks)}: a Capacity Block is prepaid, so sleeping does not make it cheaper"
        )
    if cluster:
        operation.settle_move(seen)
    operation.journal.say("done", "asleep")
    operation.tell(EventKind.ASLEEP, "asleep: no GPU node is paid for, and the weights are kept")
    return _report(operation, seen, changed=True)


def _report(operation: Operation, seen: Observation, *, changed: bool) -> Report:
    outputs, journal = operation.outputs, operation.journal
    kept = ", ".join(f"{volume.volume_id} ({volume.zone})" for volume in seen.volumes) or "the copy in S3"
    after = f" after {duration_text(journal.took_s)}" if changed else ""
    cost = (
        "what it costs asleep is unknown"
        if outputs.asleep_usd_per_day is None
        else f"${outputs.asleep_usd_per_day:,.2f} a day while asleep"
    )
    return Report(
        goal="hibernate",
        state="asleep",
        changed=changed,
        sentence=f"{'asleep' if changed else 'already asleep'}{after}: no GPU node, weights kept on {kept}; {cost}",
        took_s=journal.took_s,
        notes=tuple(journal.notes),
        steps=tuple(journal.steps),
    )


def _dry_run_lanes(
    outputs: StackOutputs,
    clients: Clients,
    clock: Clock,
    journal: Journal,
    request: HibernateRequest,
    lanes: list[int],
) -> Report:
    if len(outputs.lanes) < 2:
        return _dry_run(outputs, clients, clock, journal, request)
    return together({lane: _dry_run(outputs.lane(lane), clients, clock, journal, request) for lane in lanes})


def _dry_run(
    outputs: StackOutputs, clients: Clients, clock: Clock, journal: Journal, request: HibernateRequest
) -> Report:
    """What would be done, from one look; nothing is locked or changed."""
    seen = observe(outputs, clients, clock)
    state = state_of(seen)
    for text in _planned(outputs, seen, request):
        journal.steps.append(Step("plan", text, seen.at))
    sentence = f"dry run, nothing was changed; the stack is {state}: {state.why}"
    return Report(
        goal="hibernate",
        state=str(state.kind),
        changed=False,
        sentence=sentence,
        took_s=journal.took_s,
        slot=state.slot,
        steps=tuple(journal.steps),
        dry_run=True,
    )


def _planned(outputs: StackOutputs, seen: Observation, request: HibernateRequest) -> list[str]:
    drain_s = outputs.drain_s if request.drain_timeout_s is None else request.drain_timeout_s
    steps: list[str] = []
    if not request.force and not request.prepaid:
        try:
            _refuse_prepaid(seen)
        except JobError as error:
            return [f"refuse, because {error}"]
    for view in seen.deployments:
        for pod in view.pods or ():
            if _is_starting(pod) and not request.force:
                return [f"refuse, because pod {pod.name} is {pod.phase}; --force would stop it"]
            if pod.phase == READY and not request.force:
                now = f"{pod.requests.total} now" if pod.requests else "unknown at the moment"
                steps.append(f"take pod {pod.name} out of the Service")
                steps.append(f"wait up to {duration_text(drain_s)} for its running requests to end ({now})")
        if view.replicas or view.pods:
            steps.append(f"set Deployment {view.name} to 0 and wait until its pod is gone")
    for slot_view in seen.slots:
        if slot_view.is_up:
            price = hourly(slot_view.slot.usd_per_hour)
            steps.append(f"set node group {slot_view.slot.node_group_name} to 0, which saves {price}")
        steps += [f"wait until instance {one.instance_id} is terminated" for one in slot_view.instances]
    steps += [f"see that weight volume {one.volume_id} in {one.zone} is available" for one in seen.volumes]
    return steps
