"""Which node a pod may run on: the scheduler's filters, one function each, in the scheduler's own words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.quantities import parse_quantity
from infra.sandbox.kubernetes.selectors import matches_node_terms

Object = Mapping[str, Any]


def tolerates(tolerations: Sequence[Object], taint: Object) -> bool:
    """Whether any toleration lets a pod live with the taint."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def untolerated_taint(tolerations: Sequence[Object], node: Object) -> Object | None:
    """The first taint that keeps a pod off the node, or None; PreferNoSchedule keeps nobody off."""
    for taint in children(node["spec"], "taints"):
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerates(tolerations, taint):
            return taint
    return None


def selects_node(spec: Object, node: Object) -> bool:
    """Whether nodeSelector and required node affinity take the node."""
    labels: Mapping[str, str] = child(node["metadata"], "labels")
    if any(labels.get(key) != value for key, value in child(spec, "nodeSelector").items()):
        return False
    affinity: Object = child(child(spec, "affinity"), "nodeAffinity")
    required: Object | None = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or matches_node_terms(children(required, "nodeSelectorTerms"), node)


def pod_requests(spec: Object) -> dict[str, Decimal]:
    """What a pod takes of a node: containers and sidecars together, or the largest init container if that is more."""
    total: Counter[str] = Counter()
    peak: dict[str, Decimal] = {}
    for container in children(spec, "initContainers"):
        wanted = _requests(container)
        if container.get("restartPolicy") == "Always":
            total.update(wanted)  # pyright: ignore[reportArgumentType, reportCallIssue]
        else:
            for name, amount in wanted.items():
                peak[name] = max(peak.get(name, Decimal(0)), amount + total.get(name, 0))
    for container in children(spec, "containers"):
        total.update(_requests(container))  # pyright: ignore[reportArgumentType, reportCallIssue]
    names = {*total, *peak}
    return {name: max(Decimal(total.get(name, 0)), peak.get(name, Decimal(0))) for name in names}


def _requests(container: Object) -> dict[str, Decimal]:
    resources: Object = child(container, "resources")
    quantities: dict[str, Any] = {**child(resources, "limits"), **child(resources, "requests")}
    return {name: parse_quantity(text) for name, text in quantities.items()}


def insufficient(wanted: Mapping[str, Decimal], node: Object, others: Sequence[Object]) -> list[str]:
    """What the node lacks for `wanted` beside the pods in `others`, worded as the scheduler does."""
    allocatable: Mapping[str, Any] = child(child(node, "status"), "allocatable")
    reasons: list[str] = []
    if len(others) + 1 > parse_quantity(allocatable.get("pods", 110)):
        reasons.append("Too many pods")
    used: dict[str, Decimal] = {}
    for pod in others:
        for name, amount in pod_requests(pod["spec"]).items():
            used[name] = used.get(name, Decimal(0)) + amount
    for name, amount in sorted(wanted.items()):
        if amount and used.get(name, Decimal(0)) + amount > parse_quantity(allocatable.get(name, 0)):
            reasons.append(f"Insufficient {name}")
    return reasons


def unschedulable_words(reasons_by_node: Mapping[str, Sequence[str]]) -> str:
    """The scheduler's sentence for a pod that no node takes; one list of reasons a node."""
    count = len(reasons_by_node)
    tally: Counter[str] = Counter(reason for reasons in reasons_by_node.values() for reason in reasons)
    reasons = ", ".join(sorted(f"{times} {reason}" for reason, times in tally.items()))
    # Evicting others helps where only room is lacking.
    helpful = sum(
        all(reason.startswith(("Insufficient", "Too many pods")) for reason in node_reasons)
        for node_reasons in reasons_by_node.values()
    )
    preemption: list[str] = []
    if helpful:
        preemption.append(f"{helpful} No preemption victims found for incoming pod")
    if count - helpful:
        preemption.append(f"{count - helpful} Preemption is not helpful for scheduling")
    return (
        f"0/{count} nodes are available: {reasons}. preemption: 0/{count} nodes are available: {', '.join(preemption)}."
    )
