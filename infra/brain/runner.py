"""One look of the brain: see, decide, act with the very jobs that people call, remember, tell. It decides nothing itself.

Jobs may be killed anywhere and run again, so a look may end in the middle of a wake: the next one goes on with it. Two
brains never fight: a job takes the stack's lock, and of two that remember at once the later one's memory is dropped.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from infra.brain.circumstances import Action, Decision
from infra.brain.decision import decide
from infra.brain.from_observation import situation_from
from infra.brain.history import History
from infra.brain.memory import Memory, Remembered, recall, remember, spend
from infra.brain.policy_text import read_policy
from infra.brain.wishes import DECIDED_AT, DECISION, Wishes, note, read_wishes
from infra.clock import Clock
from infra.jobs.clients import Clients
from infra.jobs.hibernate import HibernateRequest, hibernate
from infra.jobs.kubernetes_api import Conflict, KubernetesError
from infra.jobs.move import MoveRequest, move, preferred_again
from infra.jobs.observation import READY, Observation
from infra.jobs.observe import observe
from infra.jobs.progress import Progress, silent
from infra.jobs.wake import WakeRequest, wake
from infra.outputs import StackOutputs
from serving.diagnosis.prometheus import read_metrics
from serving.engine_args import ENGINE_PORT
from serving.errors import CapacityError, DormouseError

RETRY_REFUSED_S = 900.0
"""How long a candidate that gave no machine is left alone, in seconds."""

_NODE_S = 360.0
# Stands among the pods for callers who came while it slept.
_DOOR = "(asleep)"
# Of a decision's reason in an annotation.
_SHOWN = 900


@dataclass(frozen=True)
class Look:
    """What one look came to.

    - `decision`: None where another job was at work and was left alone.
    - `outcome`: what the job that acted said, or why nothing was done.
    - `failed`: whether that job could not be ended as it should.
    """

    at: datetime
    decision: Decision | None
    outcome: str
    failed: bool = False

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON, in camelCase."""
        one = self.decision
        return {
            "at": self.at.isoformat(timespec="seconds"),
            "action": None if one is None else str(one.action),
            "rule": None if one is None else one.rule,
            "reason": None if one is None else one.reason,
            "target": None if one is None else one.target,
            "nextLook": None if one is None else one.next_look.isoformat(timespec="seconds"),
            "outcome": self.outcome,
            "failed": self.failed,
        }


def look(
    outputs: StackOutputs,
    clients: Clients,
    clock: Clock,
    *,
    progress: Progress = silent,
    act: bool = True,
    budget_s: float | None = None,
    look_s: float = 60.0,
) -> Look:
    """Look once and do what follows.

    - `act`: False decides and tells, and changes nothing at all.
    - `budget_s`: how long a job may take in this look; it is gone on with in the next. None sets no limit.
    - `look_s`: how soon the next look is expected.

    Raises ConfigurationError for a policy that is none, KubernetesError and botocore's errors where the stack cannot be
    read; what a job fails with is told in the look.
    """
    policy, expires_at = read_policy(outputs.policy, len(outputs.lanes))
    seen = observe(outputs, clients, clock)
    if seen.operation is not None:
        words = f"{seen.operation.holder} is at work on {seen.operation.goal}; it is left to it"
        return Look(seen.at, None, words)
    api, namespace = clients.kubernetes, outputs.namespace
    wishes = read_wishes(api, namespace)
    kept = recall(api, namespace, policy.timetable.zone.key)
    asked = _asked(wishes, kept.memory)
    counts = _finished(seen, clients, namespace)
    if counts is not None:
        counts[_DOOR] = float(wishes.wake_requests)
    _learn(kept, seen, counts, policy.timetable.zone.key, asked=bool(asked))
    situation = situation_from(
        seen,
        last_activity=kept.memory.last_activity,
        wake_requests=asked,
        hold_until=wishes.hold_until,
        held_by=wishes.held_by,
        awake_until=wishes.awake_until,
        spent_usd=None if kept.memory.unpriced else kept.memory.spent_usd,
        expires_at=expires_at,
        refused_until=kept.memory.refused_until,
        wake_s=outputs.planned_load_s + _NODE_S,
        drain_s=float(outputs.drain_s),
        look_s=look_s,
    )
    decision = decide(situation, policy, kept.history)
    better = preferred_again(seen) if outputs.return_to_preferred and decision.action is Action.STAY else None
    if better is not None and decision.rule in ("busy", "timetable", "pinned"):
        decision = replace(decision, action=Action.MOVE, rule="preferred", reason=better[1], target=better[0].name)
    if not act:
        return Look(seen.at, decision, "nothing was changed")
    with contextlib.suppress(Conflict):
        remember(api, namespace, kept)
    _tell(clients, namespace, decision, seen.at)
    return _act(outputs, clients, clock, decision, progress, budget_s, seen, wishes)


def _asked(wishes: Wishes, memory: Memory) -> int:
    """Wake requests that no wake has answered yet: 1 at least where somebody asked since."""
    if wishes.wake_requested is None:
        return 0
    return int(memory.answered_wish is None or wishes.wake_requested > memory.answered_wish)


def _learn(kept: Remembered, seen: Observation, finished: dict[str, float] | None, zone: str, *, asked: bool) -> None:
    """Take money, counters and activity of the time since the last look into the memory and the history."""
    memory = kept.memory
    if kept.history.zone != zone:
        kept.history = History(zone)
    came: float | None = None
    if finished is not None:
        # A counter that went down began anew with its server.
        came = sum(max(0.0, count - memory.finished.get(pod, 0.0)) for pod, count in finished.items())
    kept.history.observe(seen.at, came)
    running = any(pod.requests is not None and pod.requests.total for pod in seen.pods)
    active = running or bool(came) or asked
    machines = [(one.launched_at, slot.usd_per_hour) for slot, one in seen.paid if slot.purchase != "capacity-block"]
    kept.memory = replace(
        spend(memory, seen.at, machines),
        finished=memory.finished if finished is None else finished,
        last_activity=seen.at if active else memory.last_activity,
        refused_until={slot: until for slot, until in memory.refused_until.items() if until > seen.at},
    )


def _finished(seen: Observation, clients: Clients, namespace: str) -> dict[str, float] | None:
    """By pod, requests that it has finished or has in hand; None where a serving pod's metrics cannot be read."""
    counts: dict[str, float] = {}
    for pod in seen.pods:
        if pod.phase != READY:
            continue
        try:
            path = f"/api/v1/namespaces/{namespace}/pods/{pod.name}:{ENGINE_PORT}/proxy/metrics"
            page = read_metrics(clients.kubernetes.get_text(path))
        except KubernetesError:
            return None
        done, running = page.total("vllm:request_success_total"), page.total("vllm:num_requests_running")
        if done is None or running is None:
            return None
        counts[pod.name] = done + running + (page.total("vllm:num_requests_waiting") or 0.0)
    return counts


def _tell(clients: Clients, namespace: str, decision: Decision, at: datetime) -> None:
    """Leave the decision where `dormouse status` and kubectl show it; a note that cannot be written is no fault."""
    words = f"{decision.action}: {decision.reason}"[:_SHOWN]
    with contextlib.suppress(KubernetesError):
        note(clients.kubernetes, namespace, {DECISION: words, DECIDED_AT: at.isoformat(timespec="seconds")})


def _act(
    outputs: StackOutputs,
    clients: Clients,
    clock: Clock,
    decision: Decision,
    progress: Progress,
    budget_s: float | None,
    seen: Observation,
    wishes: Wishes,
) -> Look:
    job = _job(outputs, clients, clock, decision, progress, budget_s)
    if job is None:
        return Look(seen.at, decision, "nothing to do", decision.action is Action.ALARM)
    try:
        sentence = job()
    except CapacityError as error:
        _hold_against(clients, outputs.namespace, decision, clock.now())
        return Look(seen.at, decision, str(error), failed=True)
    except DormouseError as error:
        return Look(seen.at, decision, str(error), failed=True)
    if decision.action in (Action.WAKE, Action.SCALE) and wishes.wake_requested is not None:
        _answered(clients, outputs.namespace, wishes.wake_requested)
    return Look(seen.at, decision, sentence)


def _job(
    outputs: StackOutputs,
    clients: Clients,
    clock: Clock,
    decision: Decision,
    progress: Progress,
    budget_s: float | None,
) -> Callable[[], str] | None:
    """The job that carries a decision out; None where there is none."""
    target = decision.target
    # A block that ends and an environment past its end go whether they are paid for or not.
    prepaid = decision.rule in ("block-end", "expired")
    left = 0 if decision.replicas is None else decision.replicas
    awake = len({slot.replica for slot in outputs.slots})
    if decision.action is Action.WAKE or (decision.action is Action.SCALE and decision.rule == "scale-up"):
        request = WakeRequest(slot=target, timeout_s=budget_s)
        return lambda: wake(outputs, clients, clock, progress, request).sentence
    if decision.action in (Action.SLEEP, Action.DRAIN):
        # Several replicas go one by one, the last first.
        keep = next((slot.replica for slot in outputs.slots if slot.name == target), 0) if awake > 1 else 0
        stop = HibernateRequest(prepaid=prepaid, replicas=keep)
        return lambda: hibernate(outputs, clients, clock, progress, stop).sentence
    if decision.action is Action.SCALE:
        fewer = HibernateRequest(replicas=left)
        return lambda: hibernate(outputs, clients, clock, progress, fewer).sentence
    if decision.action is Action.MOVE:
        elsewhere = MoveRequest(to=target, reason=decision.reason, timeout_s=budget_s)
        return lambda: move(outputs, clients, clock, progress, elsewhere).sentence
    return None


def _hold_against(clients: Clients, namespace: str, decision: Decision, now: datetime) -> None:
    """Remember that the candidate gave nothing, so that the next look tries another one."""
    if decision.target is None:
        return
    until = now + timedelta(seconds=RETRY_REFUSED_S)

    def change(memory: Memory) -> Memory:
        return replace(memory, refused_until={**memory.refused_until, str(decision.target): until})

    _change_memory(clients, namespace, change)


def _answered(clients: Clients, namespace: str, wish: datetime) -> None:
    _change_memory(clients, namespace, lambda memory: replace(memory, answered_wish=wish))


def _change_memory(clients: Clients, namespace: str, change: Callable[[Memory], Memory]) -> None:
    with contextlib.suppress(KubernetesError):
        kept = recall(clients.kubernetes, namespace, "UTC")
        kept.memory = change(kept.memory)
        remember(clients.kubernetes, namespace, kept)
