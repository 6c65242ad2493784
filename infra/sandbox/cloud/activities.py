"""What an Auto Scaling group did, as DescribeScalingActivities shows it."""

import json
import uuid
from collections import deque
from datetime import datetime
from typing import Any

from infra.sandbox.cloud.simulation import utc

# AWS keeps six weeks; a sandbox's readers look at the newest ones.
_KEPT = 200


class ActivityLog:
    """The activities of one group, newest first."""

    def __init__(self, group_name: str, group_arn: str) -> None:
        """Start empty."""
        self.group_name = group_name
        self.group_arn = group_arn
        self.entries: deque[dict[str, Any]] = deque(maxlen=_KEPT)

    def launched(self, instance_id: str, subnet_id: str, zone: str, before: int, at_s: float) -> None:
        """An instance came; `before` is how many there were."""
        cause = self._difference(at_s, before, before + 1)
        self._add(f"Launching a new EC2 instance: {instance_id}", cause, "Successful", None, at_s, subnet_id, zone)

    def failed(self, message: str, subnet_id: str, zone: str, before: int, desired: int, at_s: float) -> None:
        """EC2 refused one; `message` is its reason."""
        cause = self._difference(at_s, before, desired)
        description = f"Launching a new EC2 instance.  Status Reason: {message}"
        self._add(description, cause, "Failed", message, at_s, subnet_id, zone)

    def terminated(self, instance_id: str, reason: str, at_s: float) -> None:
        """An instance went; `reason` ends the sentence "At … instance … was taken out of service in response to"."""
        cause = f"At {_stamp(utc(at_s))} instance {instance_id} was taken out of service in response to {reason}."
        self._add(f"Terminating EC2 instance: {instance_id}", cause, "Successful", None, at_s, None, None)

    def last_failure(self) -> str | None:
        """The message of the newest launch where that failed, or None."""
        for entry in self.entries:
            if entry["Description"].startswith("Launching"):
                return entry.get("StatusMessage")
        return None

    def _difference(self, at_s: float, before: int, after: int) -> str:
        return (
            f"At {_stamp(utc(at_s))} an instance was started in response to a difference between desired and actual "
            f"capacity, increasing the capacity from {before} to {after}."
        )

    def _add(
        self,
        description: str,
        cause: str,
        status: str,
        message: str | None,
        at_s: float,
        subnet_id: str | None,
        zone: str | None,
    ) -> None:
        details = {"Subnet ID": subnet_id, "Availability Zone": zone} if subnet_id else {}
        entry: dict[str, Any] = {
            "ActivityId": str(uuid.uuid4()),
            "AutoScalingGroupName": self.group_name,
            "AutoScalingGroupARN": self.group_arn,
            "Description": description,
            "Cause": cause,
            "StartTime": utc(at_s),
            "EndTime": utc(at_s),
            "StatusCode": status,
            "Progress": 100,
            "Details": json.dumps(details),
        }
        if message is not None:
            entry["StatusMessage"] = message
        self.entries.appendleft(entry)


def _stamp(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
