"""Why a node did not come: Auto Scaling's failed launches, sorted by whether waiting can help."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from serving.units import duration_text


class FailureKind(StrEnum):
    """What stood in the way of a launch."""

    CAPACITY = "capacity"
    QUOTA = "quota"
    RESERVATION = "reservation"
    CONFIGURATION = "configuration"
    OTHER = "other"

    @property
    def may_heal(self) -> bool:
        """Whether the same request can succeed a minute later without anybody changing anything."""
        return self in (FailureKind.CAPACITY, FailureKind.RESERVATION, FailureKind.OTHER)


# The first line that matches decides. Words are from EC2's and Auto Scaling's published error messages.
_WORDS: tuple[tuple[FailureKind, tuple[str, ...]], ...] = (
    (
        FailureKind.QUOTA,
        (
            "vcpulimitexceeded",
            "instancelimitexceeded",
            "maxspotinstancecountexceeded",
            "max spot instance count exceeded",
            "vcpu limit",
            "quota",
        ),
    ),
    (
        FailureKind.CONFIGURATION,
        (
            "has expired",
            "has ended",
            "is cancelled",
            "invalidcapacityreservation",
            "unauthorizedoperation",
            "not authorized",
            "accessdenied",
            "invalidamiid",
            "invalidsubnet",
            "invalidgroup",
            "invalidparameter",
            "invalid iam instance profile",
            "client.internalerror",
            "kms",
            "unsupported",
            "not supported",
            "launch template",
        ),
    ),
    (
        FailureKind.RESERVATION,
        ("reservationcapacityexceeded", "capacity reservation", "capacity block", "not active"),
    ),
    (
        FailureKind.CAPACITY,
        (
            "insufficientinstancecapacity",
            "insufficientcapacity",
            "unfulfillablecapacity",
            "do not have sufficient",
            "insufficient capacity",
            "insufficienthostcapacity",
            "no spot capacity",
            "spotmaxpricetoolow",
        ),
    ),
)


def failure_kind(message: str) -> FailureKind:
    """Sort an error message of EC2 or Auto Scaling."""
    lowered = message.lower()
    for kind, words in _WORDS:
        if any(word in lowered for word in words):
            return kind
    return FailureKind.OTHER


@dataclass(frozen=True)
class LaunchFailure:
    """A failed scaling activity, with AWS's own message."""

    activity_id: str
    at: datetime
    message: str

    @property
    def kind(self) -> FailureKind:
        """What stood in the way."""
        return failure_kind(self.message)


@dataclass(frozen=True)
class Refusal:
    """A candidate that gave no node.

    - `slot`: its name.
    - `kind`: capacity, quota, reservation, configuration, node (it came and never joined), weights (its
      volume's are not proven) or other.
    - `words`: what AWS said, or what did not happen.
    - `after_s`: how long it was tried, in seconds.
    """

    slot: str
    kind: str
    words: str
    after_s: float

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.slot}: {self.words} (after {duration_text(self.after_s)})"


def launch_failures(autoscaling: Any, group_name: str) -> tuple[LaunchFailure, ...]:
    """The group's failed launches, newest first; raises botocore's errors."""
    page = autoscaling.describe_scaling_activities(AutoScalingGroupName=group_name, MaxRecords=50)
    failures = [
        LaunchFailure(
            activity_id=activity["ActivityId"],
            at=activity["StartTime"],
            message=(activity.get("StatusMessage") or activity.get("Cause") or "no reason given").strip(),
        )
        for activity in page["Activities"]
        if activity.get("StatusCode") in ("Failed", "Cancelled") and "erminating" not in activity.get("Description", "")
    ]
    return tuple(sorted(failures, key=lambda failure: failure.at, reverse=True))
