"""Weight volumes and their snapshots as EC2 shows them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from infra.jobs.aws_errors import error_code
from infra.jobs.clients import Clients
from infra.jobs.weights.places import VERIFIED_TAG
from serving.errors import JobError


@dataclass(frozen=True)
class Volume:
    """One EBS volume.

    - `state`: EC2's word: creating, available, in-use, deleting, error.
    - `attached_to`: the instance that holds it, or None. `tags`: all of them.
    """

    volume_id: str
    zone: str
    size_gib: int
    throughput_mib_per_s: int
    iops: int
    state: str
    attached_to: str | None
    tags: dict[str, str]

    @property
    def verified(self) -> str:
        """`verified:<revision>:<digest>`, or "" where nobody has proven what is on it."""
        return self.tags.get(VERIFIED_TAG, "")


@dataclass(frozen=True)
class Snapshot:
    """One snapshot of a weight volume; `progress_percent` is EC2's own."""

    snapshot_id: str
    volume_id: str
    state: str
    progress_percent: int
    started_at: datetime
    size_gib: int
    tags: dict[str, str]

    @property
    def verified(self) -> str:
        """The tag of the volume at the time of the snapshot, or ""."""
        return self.tags.get(VERIFIED_TAG, "")


def read_volume(clients: Clients, volume_id: str) -> Volume:
    """The volume; raises JobError where it does not exist, and botocore's errors."""
    found: list[dict[str, Any]] = []
    try:
        found = clients.ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]
    except ClientError as error:
        if error_code(error) != "InvalidVolume.NotFound":
            raise
    if not found:
        raise JobError(
            f"weight volume {volume_id} does not exist any more; `pulumi refresh` and `pulumi up` make an empty one, "
            "`dormouse weights clone` fills it from another zone"
        )
    return volume_of(found[0])


def volume_of(found: dict[str, Any]) -> Volume:
    """EC2's answer as a `Volume`."""
    holders = [one["InstanceId"] for one in found.get("Attachments", []) if one.get("State") != "detached"]
    return Volume(
        volume_id=found["VolumeId"],
        zone=found["AvailabilityZone"],
        size_gib=int(found["Size"]),
        throughput_mib_per_s=int(found.get("Throughput") or 0),
        iops=int(found.get("Iops") or 0),
        state=found["State"],
        attached_to=holders[0] if holders else None,
        tags=tags_of(found),
    )


def read_snapshots(clients: Clients, volume_ids: list[str]) -> tuple[Snapshot, ...]:
    """The account's snapshots of these volumes, newest first."""
    pages = clients.ec2.get_paginator("describe_snapshots").paginate(
        OwnerIds=["self"], Filters=[{"Name": "volume-id", "Values": volume_ids}]
    )
    found = [snapshot_of(one) for page in pages for one in page["Snapshots"]]
    return tuple(sorted(found, key=lambda one: one.started_at, reverse=True))


def snapshot_of(found: dict[str, Any]) -> Snapshot:
    """EC2's answer as a `Snapshot`."""
    digits = str(found.get("Progress") or "0").rstrip("%")
    return Snapshot(
        snapshot_id=found["SnapshotId"],
        volume_id=found["VolumeId"],
        state=found["State"],
        progress_percent=int(digits) if digits.isdigit() else 0,
        started_at=found["StartTime"],
        size_gib=int(found["VolumeSize"]),
        tags=tags_of(found),
    )


def tags_of(found: dict[str, Any]) -> dict[str, str]:
    """The tags of one of EC2's answers."""
    return {tag["Key"]: tag["Value"] for tag in found.get("Tags", [])}


def set_tag(clients: Clients, resource_id: str, key: str, value: str) -> None:
    """Write one tag."""
    clients.ec2.create_tags(Resources=[resource_id], Tags=[{"Key": key, "Value": value}])


def drop_tag(clients: Clients, resource_id: str, key: str) -> None:
    """Take one tag off; one that is not there is no fault."""
    clients.ec2.delete_tags(Resources=[resource_id], Tags=[{"Key": key}])
