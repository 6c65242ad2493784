"""How the weight volumes stand: proven, being filled, empty; what holds them, and which copies there are."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from components.weight_volume import CHANGES_PER_DAY
from infra.clock import Clock
from infra.jobs.clients import Clients
from infra.jobs.kubernetes_api import KubernetesError, NotFound
from infra.jobs.observe_cluster import part
from infra.jobs.weights.clone import read_clones
from infra.jobs.weights.copy import copy_problem
from infra.jobs.weights.places import WeightPlace, jobs_path, read_places
from infra.jobs.weights.throughput import recent_changes
from infra.jobs.weights.volumes import Snapshot, Volume, read_snapshots, read_volume
from infra.outputs import StackOutputs
from serving.errors import JobError
from serving.manifests.hydrate import HYDRATOR_CONTAINER

_PERCENT = re.compile(r"\(([\d.]+) %\)")


class WeightState(StrEnum):
    """How one volume stands."""

    VERIFIED = "verified"
    """Every file's SHA-256 was compared."""
    HYDRATING = "hydrating"
    """A Job fills or checks it now."""
    FAILED = "failed"
    """The last Job failed; what it downloaded is there."""
    UNPROVEN = "unproven"
    """Empty, or filled by nobody knows whom: a server does not start on it."""
    MISSING = "missing"
    """The volume does not exist."""


@dataclass(frozen=True)
class WeightStatus:
    """One weight volume.

    - `volume`: None where it does not exist. `detail`: the state in words.
    - `percent`: of a running download, or None. `changes_left`: of throughput, within EBS's 24 hours.
    - `copy_to`: the regional copy that is filled too, or "".
    """

    place: WeightPlace
    volume: Volume | None
    state: WeightState
    detail: str
    percent: float | None
    snapshots: tuple[Snapshot, ...]
    changes_left: int
    copy_to: str

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON, in camelCase like the outputs."""
        volume = self.volume
        return {
            "zone": self.place.zone,
            "volumeId": self.place.volume_id,
            "state": str(self.state),
            "detail": self.detail,
            "percent": self.percent,
            "verified": volume.verified if volume else "",
            "sizeGib": volume.size_gib if volume else None,
            "throughputMibps": volume.throughput_mib_per_s if volume else None,
            "iops": volume.iops if volume else None,
            "attachedTo": volume.attached_to if volume else None,
            "throughputChangesLeft": self.changes_left,
            "nodeGroup": self.place.node_group or None,
            "s3Copy": self.copy_to or None,
            "snapshots": [
                {
                    "snapshotId": one.snapshot_id,
                    "state": one.state,
                    "percent": one.progress_percent,
                    "startedAt": one.started_at.isoformat(timespec="seconds"),
                    "verified": one.verified,
                }
                for one in self.snapshots
            ],
        }


@dataclass(frozen=True)
class WeightsReport:
    """All volumes of the stack, and the clones that belong to none of its zones' claims."""

    statuses: tuple[WeightStatus, ...]
    clones: tuple[Volume, ...]
    streaming: tuple[str, ...] = ()
    """Zones without a volume, which load from the copy at `copy_uri`."""
    copy_uri: str = ""
    copy_problem: str = ""
    """Why nothing can load from that copy, or why that could not be looked at; "" where it is whole."""

    @property
    def ok(self) -> bool:
        """Whether a server may start on every volume, and from the copy."""
        return all(one.state is WeightState.VERIFIED for one in self.statuses) and not self.copy_problem

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "volumes": [one.to_mapping() for one in self.statuses],
            "s3Copy": {"uri": self.copy_uri, "problem": self.copy_problem or None} if self.copy_uri else None,
            "streamingZones": list(self.streaming),
            "clones": [
                {"volumeId": one.volume_id, "zone": one.zone, "verified": one.verified, "sizeGib": one.size_gib}
                for one in self.clones
            ],
        }


def weights_status(outputs: StackOutputs, clients: Clients, clock: Clock, zone: str | None = None) -> WeightsReport:
    """Look at the volumes; takes no lock and changes nothing.

    Raises ConfigurationError for a zone without a volume, JobError where the stack has none, and botocore's errors.
    """
    places = read_places(outputs, clients, zone)
    snapshots = read_snapshots(clients, [place.volume_id for place in places])
    statuses = tuple(_status(place, outputs, clients, clock, snapshots) for place in places)
    streaming = sorted({slot.zone for slot in outputs.slots if slot.streams_from_s3 and zone is None})
    uri = outputs.weights_copy_uri
    problem, unread = copy_problem(clients, uri) if uri else ("", "")
    return WeightsReport(statuses, read_clones(outputs, clients), tuple(streaming), uri, problem or unread)


def _status(
    place: WeightPlace, outputs: StackOutputs, clients: Clients, clock: Clock, snapshots: tuple[Snapshot, ...]
) -> WeightStatus:
    own = tuple(one for one in snapshots if one.volume_id == place.volume_id)
    try:
        volume = read_volume(clients, place.volume_id)
    except JobError as gone:
        return WeightStatus(place, None, WeightState.MISSING, str(gone), None, own, 0, _copy_to(place))
    state, detail, percent = _state(place, volume, outputs, clients)
    left = CHANGES_PER_DAY - len(recent_changes(volume, None, clock.now()))
    return WeightStatus(place, volume, state, detail, percent, own, left, _copy_to(place))


def _state(
    place: WeightPlace, volume: Volume, outputs: StackOutputs, clients: Clients
) -> tuple[WeightState, str, float | None]:
    failed = ""
    for mode in ("hydrate", "verify"):
        name = f"{place.name}-{mode}"
        try:
            job = clients.kubernetes.get(jobs_path(outputs.namespace, name))
        except NotFound:
            continue
        conditions: list[dict[str, Any]] = part(job, "status").get("conditions") or []
        kinds = {one["type"] for one in conditions if one["status"] == "True"}
        if "Failed" in kinds:
            failed = f"Job {name} failed; `kubectl -n {outputs.namespace} logs job/{name}` says why"
        elif "Complete" not in kinds:
            line = _last_line(outputs, clients, name)
            found = _PERCENT.search(line)
            return (
                WeightState.HYDRATING,
                line or f"Job {name} waits for its machine",
                float(found[1]) if found else None,
            )
    if volume.verified:
        return WeightState.VERIFIED, volume.verified.removeprefix("verified:"), None
    if failed:
        return WeightState.FAILED, failed, None
    return WeightState.UNPROVEN, "empty, or filled by nobody knows whom; run `dormouse weights hydrate`", None


def _last_line(outputs: StackOutputs, clients: Clients, job_name: str) -> str:
    pods_path = f"/api/v1/namespaces/{outputs.namespace}/pods"
    for pod in clients.kubernetes.list(pods_path, label_selector=f"job-name={job_name}"):
        if pod["status"].get("phase") != "Running":
            continue
        try:
            path = f"{pods_path}/{pod['metadata']['name']}/log"
            lines = clients.kubernetes.get_text(path, container=HYDRATOR_CONTAINER, tailLines="1").splitlines()
        except KubernetesError:
            return ""
        return lines[-1] if lines else ""
    return ""


def _copy_to(place: WeightPlace) -> str:
    containers: list[dict[str, Any]] = place.template["spec"]["template"]["spec"]["containers"]
    values = {one["name"]: one.get("value", "") for one in containers[0].get("env", [])}
    return str(values.get("DORMOUSE_COPY_TO", ""))
