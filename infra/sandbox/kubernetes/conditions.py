"""Conditions in a status: reading one, and writing one so that its time moves only when it turns."""

from collections.abc import Mapping, Sequence
from typing import Any

from infra.sandbox.kubernetes.documents import child, children

Object = dict[str, Any]


def condition_of(conditions: Sequence[Object], kind: str) -> Object | None:
    """The condition of a type, or None."""
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def with_condition(
    conditions: Sequence[Object], kind: str, holds: bool, reason: str, message: str, time: str
) -> list[Object]:
    """The conditions with one set; its lastTransitionTime stays where the status stays."""
    before = condition_of(conditions, kind)
    value = "True" if holds else "False"
    since = before["lastTransitionTime"] if before and before.get("status") == value else time
    condition: Object = {"type": kind, "status": value, "lastTransitionTime": since}
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return [condition if one is before else one for one in conditions] + ([] if before else [condition])


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is Ready and stays."""
    condition = condition_of(children(child(pod, "status"), "conditions"), "Ready")
    return condition is not None and condition["status"] == "True" and not pod["metadata"].get("deletionTimestamp")
