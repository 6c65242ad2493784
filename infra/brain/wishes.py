"""What people and callers want, on one small ConfigMap that the command line, the brain and kubectl all read and change.

`dormouse.dev/wake-requested` (an ISO time) asks for a wake; `hold-until` and `held-by` keep everything as it is;
`awake-until` keeps the model awake. What the brain decided last stands beside them.
"""

import contextlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from infra.jobs.kubernetes_api import Conflict, KubernetesApi, NotFound
from serving.manifests.labels import PREFIX

NAME = "dormouse-wishes"
WAKE_REQUESTED = f"{PREFIX}/wake-requested"
WAKE_REQUESTS = f"{PREFIX}/wake-requests"
HOLD_UNTIL = f"{PREFIX}/hold-until"
HELD_BY = f"{PREFIX}/held-by"
AWAKE_UNTIL = f"{PREFIX}/awake-until"
DECISION = f"{PREFIX}/decision"
DECIDED_AT = f"{PREFIX}/decided-at"


@dataclass(frozen=True)
class Wishes:
    """The wishes at one moment; what cannot be read as a time counts as not there.

    - `wake_requested`: when somebody last asked for a wake. `wake_requests`: how many have asked since it was made.
    """

    wake_requested: datetime | None = None
    wake_requests: int = 0
    hold_until: datetime | None = None
    held_by: str = ""
    awake_until: datetime | None = None
    decision: str = ""


def read_wishes(api: KubernetesApi, namespace: str) -> Wishes:
    """The wishes; none where the ConfigMap does not exist. Raises KubernetesError where it cannot be read."""
    try:
        found = api.get(_path(namespace))
    except NotFound:
        return Wishes()
    noted = cast("dict[str, Any]", cast("dict[str, Any]", found["metadata"]).get("annotations") or {})
    count = str(noted.get(WAKE_REQUESTS, "0"))
    return Wishes(
        _instant(noted.get(WAKE_REQUESTED)),
        int(count) if count.isdecimal() else 0,
        _instant(noted.get(HOLD_UNTIL)),
        str(noted.get(HELD_BY, "")),
        _instant(noted.get(AWAKE_UNTIL)),
        str(noted.get(DECISION, "")),
    )


def note(api: KubernetesApi, namespace: str, annotations: dict[str, str | None]) -> None:
    """Set annotations, None takes one away; makes the ConfigMap where there is none. Raises KubernetesError."""
    body = {"metadata": {"annotations": annotations}}
    try:
        api.patch(_path(namespace), body)
    except NotFound:
        labels = {"app.kubernetes.io/managed-by": "dormouse"}
        empty = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "labels": labels}}
        with contextlib.suppress(Conflict):
            api.create(f"/api/v1/namespaces/{namespace}/configmaps", empty)
        api.patch(_path(namespace), body)


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{NAME}"


def _instant(text: object) -> datetime | None:
    try:
        read = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return read if read.tzinfo is not None else None
