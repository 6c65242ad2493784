"""Empty a serving pod before it is stopped: no new requests, the running ones end by themselves."""

from infra.jobs.observation import READY, Observation, PodView
from infra.jobs.operation import Operation
from infra.jobs.state import is_left_behind
from serving.errors import JobError
from serving.units import duration_text

# A request that was on its way when the pod left the Service shows up in the metrics a moment later.
_SETTLE_S = 10.0
_POLL_S = 5.0
_UNREADABLE_READS = 4


def drain(operation: Operation, timeout_s: float | None, *, give_up: bool = True) -> None:
    """Take every Ready pod out of the Service and wait until it has no request left.

    - `timeout_s`: how long to wait; None is the stack's `drain_s`.
    - `give_up`: whether requests that still run at the end keep the pod alive; False where its node is lost anyway:
      it then says how many are cut, and returns.

    Where the metrics stay unreadable it says so and returns: vLLM then drains by itself after SIGTERM.
    Raises JobError, with the pods back in the Service, where requests still run at the end and `give_up` is set.
    """
    wanted_s = float(operation.outputs.drain_s if timeout_s is None else timeout_s)
    pods = _ready(operation.observe())
    if not pods:
        return
    for deployment_name, pod in pods:
        operation.journal.say("drain", f"taking pod {pod.name} out of the Service")
        operation.annotate(deployment_name, "draining", "waiting for running requests to end")
        operation.accept(pod.name, False)
    began_s = operation.clock.monotonic_s()
    empty_since_s: float | None = None
    unreadable = 0
    while True:
        operation.pause(_POLL_S)
        pods = _ready(operation.observe())
        now_s = operation.clock.monotonic_s()
        unknown = [pod for _, pod in pods if pod.requests is None]
        total = sum(pod.requests.total for _, pod in pods if pod.requests)
        if unknown:
            empty_since_s = None
            unreadable += 1
            if unreadable >= _UNREADABLE_READS and total == 0:
                operation.journal.note(
                    f"the metrics of pod {unknown[0].name} cannot be read ({unknown[0].requests_unknown}); vLLM ends "
                    f"its requests by itself within {duration_text(unknown[0].grace_period_s)} of SIGTERM"
                )
                return
        elif total == 0:
            unreadable = 0
            empty_since_s = now_s if empty_since_s is None else empty_since_s
            if now_s - empty_since_s >= _SETTLE_S:
                operation.journal.say("drain", "no request is running any more")
                return
        else:
            unreadable, empty_since_s = 0, None
        waited_s = now_s - began_s
        if not give_up and waited_s > wanted_s:
            operation.journal.note(
                f"{total} requests are still running after {duration_text(waited_s)}; the node is lost, so they are cut"
            )
            return
        if total and waited_s > wanted_s:
            _put_back(operation, pods, total, waited_s)
        words = f"{total} requests still running" if total else "looking whether all requests have ended"
        operation.journal.say("drain", words, max(0.0, wanted_s - waited_s))


def _put_back(operation: Operation, pods: list[tuple[str, PodView]], total: int, waited_s: float) -> None:
    for deployment_name, pod in pods:
        operation.accept(pod.name, True)
        operation.annotate(deployment_name, "awake", f"draining was given up: {total} requests still running")
    raise JobError(
        f"{total} requests are still running after {duration_text(waited_s)}, so nothing was stopped and the stack is awake "
        "again. Try later, give them longer with --drain-timeout SECONDS, or stop now with --force, which cuts what "
        "vLLM cannot end within its grace period"
    )


def _ready(seen: Observation) -> list[tuple[str, PodView]]:
    """The pods that may be serving, with the names of their Deployments."""
    return [
        (view.name, pod)
        for view in seen.deployments
        if not is_left_behind(view, seen)
        for pod in view.pods or ()
        if pod.phase == READY
    ]
