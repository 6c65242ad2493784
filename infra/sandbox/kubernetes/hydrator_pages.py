"""What a simulated hydrator says: its log while it runs, and its last words; no byte is downloaded."""

import hashlib
import json
from datetime import datetime
from typing import Any

from infra.sandbox.kubernetes.documents import child, children
from serving.manifests.hydrate import (
    COMPONENT_LABEL,
    HYDRATOR_COMPONENT,
    HYDRATOR_CONTAINER,
    PLANNED_RUN_ANNOTATION,
)

Object = dict[str, Any]


def is_hydrator(pod: Object) -> bool:
    """Whether the pod fills or checks a weight volume."""
    labels: Object = child(pod["metadata"], "labels")
    main: Object = pod["spec"]["containers"][0]
    return labels.get(COMPONENT_LABEL) == HYDRATOR_COMPONENT and main["name"] == HYDRATOR_CONTAINER


def log_lines(pod: Object, now: datetime) -> list[str]:
    """The log so far: how far a download would be that took as long as the plan says."""
    lines = ["simulated: nothing is downloaded behind this log"]
    states = [child(status, "state") for status in children(pod["status"], "containerStatuses")]
    running: Object = child(states[0], "running") if states else {}
    if running.get("startedAt"):
        planned_s = float(child(pod["metadata"], "annotations").get(PLANNED_RUN_ANNOTATION, "0"))
        passed_s = (now - datetime.fromisoformat(running["startedAt"])).total_seconds()
        share = min(1.0, max(0.0, passed_s / planned_s)) if planned_s else 1.0
        left_s = max(0.0, planned_s - passed_s)
        lines.append(f"simulated: {100 * share:.1f} of 100 parts ({100 * share:.1f} %), about {left_s:,.0f} s left")
    elif states:
        words: str = child(states[0], "terminated").get("message") or last_words(pod)
        lines.append(str(json.loads(words)["message"]))
    return lines


def last_words(pod: Object) -> str:
    """The termination message of a run that ended well, in the hydrator's own form."""
    values = {one["name"]: one.get("value", "") for one in children(pod["spec"]["containers"][0], "env")}
    source = values.get("DORMOUSE_SOURCE", "")
    # No manifest was written; a digest that says so keeps two sources apart.
    digest = hashlib.sha256(f"simulated {source}".encode()).hexdigest()
    revision = values.get("DORMOUSE_REVISION") or "simulated"
    words = {
        "outcome": "verified",
        "message": f"simulated: weights of {source} at {revision} count as verified; nothing was downloaded",
        "source": source,
        "revision": revision,
        "manifest_sha256": digest,
    }
    return json.dumps(words)
