"""A verified volume's twin in another zone: a snapshot of it, and a volume made of the snapshot."""

from typing import Any

from infra.clock import Clock
from infra.jobs.clients import Clients
from infra.jobs.progress import Journal, Progress, Report, silent
from infra.jobs.weights.places import VERIFIED_TAG, WeightPlace, read_places
from infra.jobs.weights.volumes import (
    Snapshot,
    Volume,
    read_snapshots,
    read_volume,
    snapshot_of,
    volume_of,
)
from infra.outputs import StackOutputs
from serving.errors import ConfigurationError, Fault, JobError
from serving.manifests.labels import CSI_VOLUME_TAG, PREFIX
from serving.units import duration_text

CLONE_TAG = f"{PREFIX}/clone-of"
"""On volumes and snapshots that `clone` made: the volume that they hold the weights of."""
RATES_MIB_PER_S = (100, 300)
"""The initialization rates that EBS sells (EBS user guide, volume initialization)."""
_ENVIRONMENT_TAG = f"{PREFIX}/environment"
_POLL_S = 15.0
_SNAPSHOT_S = 6 * 3600.0
_VOLUME_S = 1800.0
_COPIED_TAGS = ("dormouse.dev/owner", "dormouse.dev/managed-by", "dormouse.dev/model", "dormouse.dev/source")


def clone(
    outputs: StackOutputs,
    clients: Clients,
    clock: Clock,
    zone: str,
    progress: Progress = silent,
    *,
    rate_mib_per_s: int | None = None,
) -> Report:
    """Make a volume in `zone` (name or id) that holds what a verified volume of the stack holds.

    - `rate_mib_per_s`: how fast EBS brings the blocks from the snapshot, 100 to 300; None leaves them where they are
      until they are read, which makes the first wake slow.

    Idempotent: a clone of the same weights in the zone is taken as it is, as is a snapshot that is under way.
    Raises ConfigurationError for a wrong zone or rate, JobError where no volume is verified, and botocore's errors.
    """
    journal = Journal(clock, progress)
    if rate_mib_per_s is not None and not RATES_MIB_PER_S[0] <= rate_mib_per_s <= RATES_MIB_PER_S[1]:
        accepted = f"MiB/s from {RATES_MIB_PER_S[0]} to {RATES_MIB_PER_S[1]}"
        raise ConfigurationError([Fault("--rate", str(rate_mib_per_s), accepted)], "the command line")
    name = _zone_name(clients, zone)
    source = _source(read_places(outputs, clients), clients, name)
    for one in read_clones(outputs, clients):
        if one.zone == name and one.verified == source.verified:
            words = f"{one.volume_id} in {name} is a clone of {source.volume_id} already ({one.verified})"
            return Report("weights clone", "verified", False, words, journal.took_s)
    snapshot = _snapshot(outputs, clients, clock, journal, source)
    volume = _volume(outputs, clients, clock, journal, source, snapshot, name, rate_mib_per_s)
    words = (
        f"{volume.volume_id} in {name} holds the weights of {source.volume_id} ({source.verified}), "
        f"from {snapshot.snapshot_id}"
    )
    return Report("weights clone", "verified", True, words, journal.took_s, notes=tuple(journal.notes))


def read_clones(outputs: StackOutputs, clients: Clients) -> tuple[Volume, ...]:
    """The volumes that `clone` made for this environment, by id."""
    pages = clients.ec2.get_paginator("describe_volumes").paginate(
        Filters=[
            {"Name": f"tag:{_ENVIRONMENT_TAG}", "Values": [outputs.environment]},
            {"Name": "tag-key", "Values": [CLONE_TAG]},
        ]
    )
    found = (volume_of(one) for page in pages for one in page["Volumes"] if one["State"] not in ("deleting", "deleted"))
    return tuple(sorted(found, key=lambda volume: volume.volume_id))


def _zone_name(clients: Clients, zone: str) -> str:
    zones: list[dict[str, Any]] = clients.ec2.describe_availability_zones()["AvailabilityZones"]
    for one in zones:
        if zone in (one["ZoneName"], one["ZoneId"]):
            return str(one["ZoneName"])
    known = ", ".join(f"{one['ZoneName']} ({one['ZoneId']})" for one in zones)
    raise ConfigurationError([Fault("--zone", zone, known)], "the command line")


def _source(places: tuple[WeightPlace, ...], clients: Clients, zone: str) -> Volume:
    """The verified volume to copy: of another zone where there is one."""
    volumes = [read_volume(clients, place.volume_id) for place in places]
    verified = [volume for volume in volumes if volume.verified]
    if not verified:
        raise JobError(
            "no weight volume of this stack is verified, so a clone would copy nothing that is proven: "
            "run `dormouse weights hydrate` first"
        )
    return next((volume for volume in verified if volume.zone != zone), verified[0])


def _snapshot(outputs: StackOutputs, clients: Clients, clock: Clock, journal: Journal, source: Volume) -> Snapshot:
    """A completed snapshot of the verified weights: an earlier one, one that is under way, or a new one."""
    made = [one for one in read_snapshots(clients, [source.volume_id]) if one.verified == source.verified]
    usable = [one for one in made if one.state in ("completed", "pending")]
    snapshot = next((one for one in usable if one.state == "completed"), usable[0] if usable else None)
    if snapshot is None:
        journal.say("volume", f"taking a snapshot of {source.volume_id}")
        description = f"weights of {outputs.environment}, {source.verified}"
        snapshot = snapshot_of(
            clients.ec2.create_snapshot(
                VolumeId=source.volume_id,
                Description=description,
                TagSpecifications=[{"ResourceType": "snapshot", "Tags": _tags(outputs, source, description)}],
            )
        )
    began_s = clock.monotonic_s()
    while snapshot.state != "completed":
        if snapshot.state not in ("pending", ""):
            raise JobError(f"snapshot {snapshot.snapshot_id} is {snapshot.state}; run again for a new one")
        waited_s = clock.monotonic_s() - began_s
        if waited_s > _SNAPSHOT_S:
            raise JobError(
                f"snapshot {snapshot.snapshot_id} is at {snapshot.progress_percent} % after {duration_text(waited_s)}; "
                "it goes on by itself: run again later, the same one is used"
            )
        journal.say("volume", f"snapshot {snapshot.snapshot_id} is at {snapshot.progress_percent} %")
        clock.sleep(_POLL_S)
        snapshot = snapshot_of(clients.ec2.describe_snapshots(SnapshotIds=[snapshot.snapshot_id])["Snapshots"][0])
    return snapshot


def _volume(
    outputs: StackOutputs,
    clients: Clients,
    clock: Clock,
    journal: Journal,
    source: Volume,
    snapshot: Snapshot,
    zone: str,
    rate_mib_per_s: int | None,
) -> Volume:
    journal.say("volume", f"making a volume of {snapshot.snapshot_id} in {zone}")
    asked: dict[str, Any] = {
        "AvailabilityZone": zone,
        "SnapshotId": snapshot.snapshot_id,
        "VolumeType": "gp3",
        "Size": source.size_gib,
        "Throughput": source.throughput_mib_per_s,
        "Iops": source.iops,
        "Encrypted": True,
        # Asked again after a time-out, EC2 gives the same volume.
        "ClientToken": f"{outputs.environment}-{snapshot.snapshot_id}-{zone}"[:64],
        "TagSpecifications": [
            {"ResourceType": "volume", "Tags": _tags(outputs, source, f"dormouse-{outputs.environment}-clone-{zone}")}
        ],
    }
    if rate_mib_per_s is not None:
        asked["VolumeInitializationRate"] = rate_mib_per_s
    volume_id = clients.ec2.create_volume(**asked)["VolumeId"]
    began_s = clock.monotonic_s()
    while True:
        volume = read_volume(clients, volume_id)
        if volume.state == "available":
            return volume
        if volume.state == "error" or clock.monotonic_s() - began_s > _VOLUME_S:
            raise JobError(f"volume {volume_id} is {volume.state}; delete it in the EC2 console, then run again")
        journal.say("volume", f"volume {volume_id} is {volume.state}")
        clock.sleep(_POLL_S)


def _tags(outputs: StackOutputs, source: Volume, name: str) -> list[dict[str, str]]:
    tags = {
        **{key: value for key, value in source.tags.items() if key in _COPIED_TAGS},
        "Name": name,
        _ENVIRONMENT_TAG: outputs.environment,
        CLONE_TAG: source.volume_id,
        VERIFIED_TAG: source.verified,
        CSI_VOLUME_TAG: "true",
    }
    return [{"Key": key, "Value": value} for key, value in tags.items()]
