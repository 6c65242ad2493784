"""A volume's throughput raised for a wake and lowered after, within EBS's limits."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from botocore.exceptions import ClientError

from components.weight_volume import CHANGES_PER_DAY, iops_for
from infra.clock import Clock
from infra.jobs.aws_errors import error_code, error_message
from infra.jobs.clients import Clients
from infra.jobs.weights.volumes import Volume, read_volume, set_tag
from infra.outputs import StackOutputs
from serving.errors import JobError
from serving.manifests.labels import PREFIX

CHANGES_TAG = f"{PREFIX}/throughput-changes"
"""On a volume: when it was changed last. EC2 itself shows only the most recent change of each volume."""
_WINDOW = timedelta(hours=24)
_UNFINISHED = ("modifying", "optimizing")
_REFUSALS = ("VolumeModificationRateExceeded", "IncorrectModificationState", "VolumeModificationSizeLimitExceeded")


class Outcome(StrEnum):
    """What came of a wish to change a volume."""

    CHANGED = "changed"
    """EC2 was asked, and took it."""
    ALREADY = "already"
    """The volume has it."""
    REFUSED = "refused"
    """EBS's limits forbid it now."""


@dataclass(frozen=True)
class Change:
    """What came of a wish to change a volume.

    - `words`: for people; why not, where it was not changed.
    - `left`: changes that EBS still allows within the next 24 hours.
    """

    volume_id: str
    outcome: Outcome
    words: str
    left: int

    @property
    def changed(self) -> bool:
        """Whether EC2 was asked and took it."""
        return self.outcome is Outcome.CHANGED


def set_throughput(
    clients: Clients, clock: Clock, volume_id: str, mib_per_s: int, iops: int | None = None, *, keep: int = 0
) -> Change:
    """Ask for `mib_per_s` and `iops`; nothing is done where the volume has them, or EBS's limits forbid.

    - `iops`: None is the fewest that the throughput needs.
    - `keep`: changes that must be left afterwards, such as 1 for lowering again what is raised now.

    Raises JobError where the volume is gone, and botocore's errors for anything but EBS's own limits.
    """
    wanted = (mib_per_s, iops_for(mib_per_s) if iops is None else iops)
    volume = read_volume(clients, volume_id)
    latest = _latest(clients, volume_id)
    times = recent_changes(volume, latest, clock.now())
    left = CHANGES_PER_DAY - len(times)
    if (volume.throughput_mib_per_s, volume.iops) == wanted:
        return Change(volume_id, Outcome.ALREADY, f"{volume_id} has {mib_per_s} MiB/s already", left)
    if latest is not None and latest.get("ModificationState") in _UNFINISHED:
        percent = latest.get("Progress", 0)
        words = f"{volume_id} is still at its last change ({latest['ModificationState']}, {percent} %); EBS takes one at a time"
        return Change(volume_id, Outcome.REFUSED, words, left)
    if left <= keep:
        again = (min(times) + _WINDOW).strftime("%Y-%m-%d %H:%M UTC")
        reserve = f", {keep} kept for lowering it again" if keep else ""
        words = f"{volume_id} was changed {len(times)} times in 24 hours, and EBS allows {CHANGES_PER_DAY}{reserve}; the next from {again}"
        return Change(volume_id, Outcome.REFUSED, words, left)
    now = clock.now()
    # Written before: a run that is killed in between counts one too many, never one too few.
    stamps = ";".join(one.strftime("%Y%m%dT%H%M%SZ") for one in [*times, now][-CHANGES_PER_DAY:])
    set_tag(clients, volume_id, CHANGES_TAG, stamps)
    try:
        clients.ec2.modify_volume(VolumeId=volume_id, Throughput=wanted[0], Iops=wanted[1])
    except ClientError as error:
        if error_code(error) not in _REFUSALS:
            raise
        refused = f"EBS refused to change {volume_id}: {error_message(error)}"
        return Change(volume_id, Outcome.REFUSED, refused, left - 1)
    words = f"{volume_id} goes from {volume.throughput_mib_per_s} to {mib_per_s} MiB/s; {left - 1} changes are left in 24 hours"
    return Change(volume_id, Outcome.CHANGED, words, left - 1)


def raise_for_wake(outputs: StackOutputs, clients: Clients, clock: Clock, volume_id: str) -> Change | None:
    """Before the pod starts: raise the volume, if the environment lowers it while asleep and a change to lower it is left.

    None where awake and asleep are the same. EBS's limits are an outcome; raises as `set_throughput` does.
    """
    if outputs.volume_mib_per_s == outputs.volume_asleep_mib_per_s:
        return None
    return set_throughput(clients, clock, volume_id, outputs.volume_mib_per_s, outputs.volume_iops, keep=1)


def lower_after(outputs: StackOutputs, clients: Clients, clock: Clock, volume_id: str) -> Change | None:
    """Asleep: lower the volume again; None where awake and asleep are the same. Raises as `set_throughput` does."""
    if outputs.volume_mib_per_s == outputs.volume_asleep_mib_per_s:
        return None
    return set_throughput(clients, clock, volume_id, outputs.volume_asleep_mib_per_s)


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
    if change.outcome is Outcome.REFUSED:
        raise JobError(change.words)
    return change
