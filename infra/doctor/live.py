"""A live stack's own words: pod states, events, logs, failed launches and metrics, each diagnosed where it stands."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from infra.clock import Clock
from infra.jobs.clients import Clients
from infra.jobs.kubernetes_api import KubernetesError
from infra.jobs.lane_state import stack_state
from infra.jobs.observation import READY, Observation, PodView, SlotView
from infra.jobs.observe import observe
from infra.jobs.observe_cluster import deployment_path, pod_path
from infra.jobs.state import State, StateKind
from infra.outputs import StackOutputs
from serving.diagnosis.finding import Evidence, Finding
from serving.diagnosis.log import diagnose_log
from serving.diagnosis.manifest import diagnose_manifest
from serving.diagnosis.slow import diagnose_slow
from serving.engine_args import ENGINE_PORT

_LOG_LINES = "3000"
# A failed launch that is older than this was followed by something else.
_RECENT_S = 3600.0


@dataclass(frozen=True)
class LiveDiagnosis:
    """The state that a stack is in, what was found, and what could not be read."""

    state: State
    findings: tuple[Finding, ...]
    unread: tuple[str, ...]


def examine(outputs: StackOutputs, clients: Clients, clock: Clock) -> LiveDiagnosis:
    """Look at everything once; changes nothing. Raises botocore's errors where AWS cannot be asked at all."""
    seen = observe(outputs, clients, clock)
    state = stack_state(seen)
    unread = [f"{one.what}: {one.reason}" for one in seen.unknown]
    findings: list[Finding] = []
    for place, text in _words(outputs, clients, seen, unread):
        findings += [_placed(place, one) for one in diagnose_log(text)]
    findings += _metrics(outputs, clients, seen, unread)
    findings += _manifests(outputs, clients, seen, unread)
    if state.kind in (StateKind.INCONSISTENT, StateKind.UNKNOWN):
        findings.insert(0, _state(state))
    return LiveDiagnosis(state, _once(findings), tuple(unread))


def _words(outputs: StackOutputs, clients: Clients, seen: Observation, unread: list[str]) -> Iterator[tuple[str, str]]:
    """Every text that may hold a cause, with where it comes from."""
    awake = any(pod.phase == READY for pod in seen.pods)
    for view in seen.slots:
        if (text := _launches(view, seen)) and not awake:
            yield f"Auto Scaling, {view.slot.name}", text
    for deployment in seen.deployments:
        for pod in deployment.pods or ():
            if pod.phase != READY:
                yield f"pod {pod.name}", _pod_words(outputs, clients, pod, unread)
            yield f"log of pod {pod.name}", _log(outputs, clients, pod, unread, previous=False)
            if pod.restarts:
                yield f"log of pod {pod.name} before its restart", _log(outputs, clients, pod, unread, previous=True)


def _launches(view: SlotView, seen: Observation) -> str:
    if not view.is_up:
        return ""
    recent = [one for one in view.failures if (seen.at - one.at).total_seconds() < _RECENT_S]
    return "\n".join(one.message for one in recent)


def _pod_words(outputs: StackOutputs, clients: Clients, pod: PodView, unread: list[str]) -> str:
    """The pod's events and what the kubelet says of its containers."""
    lines = [pod.reason] if pod.reason else []
    try:
        found = clients.kubernetes.get(pod_path(outputs.namespace, pod.name))
        status = cast("dict[str, Any]", found.get("status", {}))
        for kind in ("initContainerStatuses", "containerStatuses"):
            for one in cast("list[dict[str, Any]]", status.get(kind) or []):
                lines += _container_words(one)
        events = clients.kubernetes.list(
            f"/api/v1/namespaces/{outputs.namespace}/events", field_selector=f"involvedObject.name={pod.name}"
        )
        lines += [
            f"{one.get('reason', '')}: {one.get('message', '')}" for one in events if one.get("type") == "Warning"
        ]
    except KubernetesError as error:
        unread.append(f"events of pod {pod.name}: {error.message}")
    return "\n".join(lines)


def _container_words(container: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for moment in ("state", "lastState"):
        for kind in ("waiting", "terminated"):
            told = cast("dict[str, Any]", (container.get(moment) or {}).get(kind) or {})
            if told:
                code = f", exit code {told['exitCode']}" if "exitCode" in told else ""
                lines.append(
                    f"container {container['name']}: {told.get('reason', '')}{code}: {told.get('message', '')}"
                )
    return lines


def _log(outputs: StackOutputs, clients: Clients, pod: PodView, unread: list[str], *, previous: bool) -> str:
    query = {"container": "vllm", "tailLines": _LOG_LINES, **({"previous": "true"} if previous else {})}
    try:
        return clients.kubernetes.get_text(f"{pod_path(outputs.namespace, pod.name)}/log", **query)
    except KubernetesError as error:
        # A container that has not begun has no log, and says so with 400.
        if error.status not in (400, 404):
            unread.append(f"log of pod {pod.name}: {error.message}")
        return ""


def _metrics(outputs: StackOutputs, clients: Clients, seen: Observation, unread: list[str]) -> list[Finding]:
    findings: list[Finding] = []
    for pod in seen.pods:
        if pod.phase != READY:
            continue
        path = f"/api/v1/namespaces/{outputs.namespace}/pods/{pod.name}:{ENGINE_PORT}/proxy/metrics"
        try:
            page = clients.kubernetes.get_text(path)
        except KubernetesError as error:
            unread.append(f"metrics of pod {pod.name}: {error.message}")
            continue
        findings += [_placed(f"pod {pod.name}", one) for one in diagnose_slow(page)]
    return findings


def _manifests(outputs: StackOutputs, clients: Clients, seen: Observation, unread: list[str]) -> list[Finding]:
    """What somebody has changed for the worse in the Deployments."""
    documents: list[object] = []
    for view in seen.deployments:
        try:
            documents.append(
                {**clients.kubernetes.get(deployment_path(outputs.namespace, view.name)), "kind": "Deployment"}
            )
        except KubernetesError as error:
            unread.append(f"Deployment {view.name}: {error.message}")
    return list(diagnose_manifest(documents))


def _state(state: State) -> Finding:
    kind = f"stack-{state.kind}"
    title = "The stack's parts do not fit together" if state.kind is StateKind.INCONSISTENT else "Parts cannot be read"
    return Finding(
        kind, title, state.why, "`dormouse status` shows every part; the sentence above names the job that settles it.",
        Evidence("state", str(state)),
    )  # fmt: skip


def _placed(place: str, finding: Finding) -> Finding:
    return replace(finding, evidence=Evidence(f"{place}, {finding.evidence.place}", finding.evidence.text))


def _once(findings: list[Finding]) -> tuple[Finding, ...]:
    """Each cause once with the same words: events and kubelet say the same thing twice."""
    kept: dict[tuple[str, str], Finding] = {}
    for one in findings:
        kept.setdefault((one.cause_id, one.cause), one)
    return tuple(sorted(kept.values(), key=lambda one: one.severity == "warning"))
