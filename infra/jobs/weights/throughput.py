"""A volume's throughput raised for a wake and lowered after, within EBS's limits."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from components.weight_volume import iops_for
from infra.clock import Clock
from infra.jobs.aws_errors import error_code, error_message
from infra.jobs.clients import Clients
from infra.jobs.weights.volumes import Volume, read_volume, set_tag
from serving.errors import JobError
from serving.manifests.labels import PREFIX

CHANGES_TAG = f"{PREFIX}/throughput-changes"
"""On a volume: when it was changed last. EC2 itself shows only the most recent change of each volume."""
LARGEST_CHANGES = 4
"""Changes that EBS allows in any 24 hours (EC2's ModifyVolume)."""
_WINDOW = timedelta(hours=24)
_UNFINISHED = ("modifying", "optimizing")
_REFUSALS = ("VolumeModificationRateExceeded", "IncorrectModificationState", "VolumeModificationSizeLimitExceeded")


@dataclass(frozen=True)
class Change:
    """What came of a wish to change a volume.

    - `changed`: whether EC2 was asked. `words`: for people; why not, where it was not.
    - `left`: changes that EBS still allows within the next 24 hours.
    """

    volume_id: str
    changed: bool
    words: str
    left: int


def set_throughput(clients: Clients, clock: Clock, volume_id: str, mib_per_s: int, *, keep: int = 0) -> Change:
    """Ask for `mib_per_s` and the IOPS that it needs; nothing is done where the volume has it, or EBS's limits forbid.

    - `keep`: changes that must be left afterwards, such as 1 for lowering again what is raised now.

    Raises JobError where the volume is gone, and botocore's errors for anything but EBS's own limits.
    """
    volume = read_volume(clients, volume_id)
    latest = _latest(clients, volume_id)
    times = recent_changes(volume, latest, clock.now())
    left = LARGEST_CHANGES - len(times)
    if volume.throughput_mib_per_s == mib_per_s:
        return Change(volume_id, False, f"{volume_id} has {mib_per_s} MiB/s already", left)
    if latest is not None and latest.get("ModificationState") in _UNFINISHED:
        percent = latest.get("Progress", 0)
        words = f"{volume_id} is still at its last change ({latest['ModificationState']}, {percent} %); EBS takes one at a time"
        return Change(volume_id, False, words, left)
    if left <= keep:
        again = (min(times) + _WINDOW).strftime("%Y-%m-%d %H:%M UTC")
        reserve = f", {keep} kept for lowering it again" if keep else ""
        words = f"{volume_id} was changed {len(times)} times in 24 hours, and EBS allows {LARGEST_CHANGES}{reserve}; the next from {again}"
        return Change(volume_id, False, words, left)
    now = clock.now()
    # Written before: a run that is killed in between counts one too many, never one too few.
    stamps = ";".join(one.strftime("%Y%m%dT%H%M%SZ") for one in [*times, now][-LARGEST_CHANGES:])
    set_tag(clients, volume_id, CHANGES_TAG, stamps)
    try:
        clients.ec2.modify_volume(VolumeId=volume_id, Throughput=mib_per_s, Iops=max(iops_for(mib_per_s), 3000))
    except ClientError as error:
        if error_code(error) not in _REFUSALS:
            raise
        return Change(volume_id, False, f"EBS refused to change {volume_id}: {error_message(error)}", left - 1)
    words = f"{volume_id} goes from {volume.throughput_mib_per_s} to {mib_per_s} MiB/s; {left - 1} changes are left in 24 hours"
    return Change(volume_id, True, words, left - 1)


def raise_for_wake(
    clients: Clients, clock: Clock, volume_id: str, awake_mib_per_s: int, asleep_mib_per_s: int
) -> Change | None:
    """Before the pod starts: raise the volume, if the environment lowers it while asleep and a change to lower it is left.

    None where awake and asleep are the same. Never raises for EBS's limits: a slower wake is still a wake.
    """
    if awake_mib_per_s == asleep_mib_per_s:
        return None
    return set_throughput(clients, clock, volume_id, awake_mib_per_s, keep=1)


def lower_after(
    clients: Clients, clock: Clock, volume_id: str, awake_mib_per_s: int, asleep_mib_per_s: int
) -> Change | None:
    """After the weights are loaded, or asleep: lower the volume again; None where awake and asleep are the same."""
    if awake_mib_per_s == asleep_mib_per_s:
        return None
    return set_throughput(clients, clock, volume_id, asleep_mib_per_s)


def recent_changes(volume: Volume, latest: dict[str, Any] | None, now: datetime) -> list[datetime]:
    """When the volume was changed in the last 24 hours, oldest first: our own notes, and the one that EC2 shows."""
    times: list[datetime] = []
    for stamp in filter(None, volume.tags.get(CHANGES_TAG, "").split(";")):
        try:
            times.append(datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=now.tzinfo))
        except ValueError:
            continue
    shown = None if latest is None else latest.get("StartTime")
    # EC2 shows one change alone, the latest: well after our last note it is somebody else's.
    if shown is not None and all(shown - one > timedelta(minutes=2) for one in times):
        times.append(shown)
    return sorted(one for one in times if now - one < _WINDOW)


def _latest(clients: Clients, volume_id: str) -> dict[str, Any] | None:
    """EC2's record of the most recent change, or None where there was none."""
    try:
        found: list[dict[str, Any]] = clients.ec2.describe_volumes_modifications(VolumeIds=[volume_id])[
            "VolumesModifications"
        ]
    except ClientError as error:
        if error_code(error) == "InvalidVolumeModification.NotFound":
            return None
        raise
    return max(found, key=lambda one: one["StartTime"], default=None)


def require_changed(change: Change) -> Change:
    """Raise JobError for a change that a person asked for and EBS's limits forbid."""
    if not change.changed and "already" not in change.words:
        raise JobError(change.words)
    return change
