"""The weight volumes of a stack, read off the cluster: each has a suspended CronJob that says what fills it."""

import contextlib
from dataclasses import dataclass
from typing import Any

from infra.jobs.clients import Clients
from infra.jobs.kubernetes_api import NotFound
from infra.outputs import StackOutputs
from serving.errors import ConfigurationError, Fault, JobError
from serving.manifests.hydrate import (
    BYTES_ANNOTATION,
    COMPONENT_LABEL,
    HYDRATOR_COMPONENT,
    NODE_GROUP_ANNOTATION,
    VOLUME_ANNOTATION,
    ZONE_ANNOTATION,
)
from serving.manifests.labels import PREFIX

VERIFIED_TAG = f"{PREFIX}/weights"
"""On a volume or a snapshot: `verified:<revision>:<first 12 digits of the manifest's SHA-256>`."""
_DIGEST_DIGITS = 12


@dataclass(frozen=True)
class WeightPlace:
    """One weight volume of the stack.

    - `name`: of its CronJob, such as `weights-us-east-2a`.
    - `node_group`: of the small machine; "" where the zone's GPU node does the work.
    - `template`: the Job that the CronJob would make: metadata and spec.
    """

    name: str
    zone: str
    volume_id: str
    node_group: str
    weights_bytes: int
    template: dict[str, Any]


def verified_tag(revision: str, manifest_sha256: str) -> str:
    """The tag's value for weights that were proven."""
    return f"verified:{revision}:{manifest_sha256[:_DIGEST_DIGITS]}"


def cron_jobs_path(namespace: str) -> str:
    """The collection of CronJobs."""
    return f"/apis/batch/v1/namespaces/{namespace}/cronjobs"


def jobs_path(namespace: str, name: str = "") -> str:
    """The collection of Jobs, or one of them."""
    return f"/apis/batch/v1/namespaces/{namespace}/jobs" + (f"/{name}" if name else "")


def read_places(outputs: StackOutputs, clients: Clients, zone: str | None = None) -> tuple[WeightPlace, ...]:
    """The stack's weight volumes, or those of one zone (by name or id), by name.

    Raises ConfigurationError for a zone that has none, JobError where the stack has no CronJob at all.
    """
    selector = f"{COMPONENT_LABEL}={HYDRATOR_COMPONENT}"
    found: list[dict[str, Any]] = []
    with contextlib.suppress(NotFound):
        found = clients.kubernetes.list(cron_jobs_path(outputs.namespace), label_selector=selector)
    places = tuple(sorted((_place(one) for one in found), key=lambda place: place.name))
    if not places:
        raise JobError(
            f"namespace {outputs.namespace} has no CronJob weights-…, so nothing says what fills the volumes: "
            "run `pulumi up` with this release"
        )
    if zone is None:
        return places
    names = {slot.zone_id: slot.zone for slot in outputs.slots}
    wanted = names.get(zone, zone)
    chosen = tuple(place for place in places if place.zone == wanted)
    if not chosen:
        known = ", ".join(sorted({place.zone for place in places}))
        if any(slot.zone == wanted and slot.streams_from_s3 for slot in outputs.slots):
            zone = f"{zone}, which has none and streams from S3"
        raise ConfigurationError([Fault("--zone", zone, f"a zone with a weight volume: {known}")], "the command line")
    return chosen


def _place(cron_job: dict[str, Any]) -> WeightPlace:
    metadata: dict[str, Any] = cron_job["metadata"]
    annotations: dict[str, str] = metadata.get("annotations") or {}
    return WeightPlace(
        name=metadata["name"],
        zone=annotations.get(ZONE_ANNOTATION, ""),
        volume_id=annotations.get(VOLUME_ANNOTATION, ""),
        node_group=annotations.get(NODE_GROUP_ANNOTATION, ""),
        weights_bytes=int(annotations.get(BYTES_ANNOTATION, "0")),
        template=cron_job["spec"]["jobTemplate"],
    )
