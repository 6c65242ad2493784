"""What a job tells the world: one JSON message for each turn of an environment, on the stack's SNS topic.

A message is a courtesy: where it cannot be published the job goes on and says so.
"""

import json
from enum import StrEnum
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.clock import Clock
from infra.jobs.aws_errors import error_code, error_message
from infra.outputs import Slot, StackOutputs


class EventKind(StrEnum):
    """The turns that are told."""

    WAKING = "waking"
    AWAKE = "awake"
    REFUSED = "refused"
    ASLEEP = "asleep"
    MOVED = "moved"


def event_message(kind: EventKind, sentence: str, outputs: StackOutputs, clock: Clock, slot: Slot | None) -> str:
    """The message: plain JSON with stable keys; `slot`, `purchase`, `zone` and `usdPerHour` are null without a slot."""
    return json.dumps(
        {
            "source": "dormouse",
            "event": str(kind),
            "environment": outputs.environment,
            "region": outputs.region,
            "at": clock.now().isoformat(timespec="seconds"),
            "slot": slot.name if slot else None,
            "purchase": slot.purchase if slot else None,
            "zone": slot.zone if slot else None,
            "usdPerHour": slot.usd_per_hour if slot else None,
            "sentence": sentence,
        }
    )


def publish(
    sns: Any, kind: EventKind, sentence: str, outputs: StackOutputs, clock: Clock, slot: Slot | None = None
) -> str:
    """Publish the event where the stack has a topic; says why that failed, empty where it did not. Raises nothing."""
    if not outputs.topic_arn:
        return ""
    subject = f"dormouse {outputs.environment}: {kind}" + (f" on {slot.name}" if slot else "")
    try:
        sns.publish(
            TopicArn=outputs.topic_arn,
            # SNS takes 100 characters.
            Subject=subject[:100],
            Message=event_message(kind, sentence, outputs, clock, slot),
            MessageAttributes={"event": {"DataType": "String", "StringValue": str(kind)}},
        )
    except ClientError as error:
        return f"{error_code(error)}: {error_message(error)}"
    except BotoCoreError as error:
        return " ".join(str(error).split())
    return ""
