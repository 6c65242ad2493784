"""Rules for AWS's own warnings about capacity, as Pulumi's engine would see them."""

import json
from typing import Any

import pulumi
import pytest

from components import CapacityEvents, CapacityEventsArgs
from components.iam_documents import topic_publishers
from tests.support.recording import Recording, record

TOPIC = "arn:aws:sns:us-east-2:123456789012:dev"


def made(**changes: Any) -> Recording:
    args: dict[str, Any] = {"topic_arn": TOPIC, "purchases": ["spot", "capacity-block"], "tags": {"a": "b"}} | changes
    typed: CapacityEventsArgs = args  # type: ignore[assignment]  a TypedDict from a plain dictionary
    return record(lambda: CapacityEvents("events", typed) and None)


def patterns(recording: Recording) -> dict[str, Any]:
    return {rule.name: json.loads(rule.inputs["eventPattern"]) for rule in recording.of("EventRule")}


def test_each_purchase_has_the_rules_that_concern_it() -> None:
    recording = made()
    assert patterns(recording) == {
        "events-spot": {
            "source": ["aws.ec2"],
            "detail-type": ["EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation"],
        },
        "events-block": {"source": ["aws.ec2"], "detail-type": [{"prefix": "Capacity Block"}]},
    }
    for target in recording.of("EventTarget"):
        assert target.inputs["arn"] == TOPIC
        assert "roleArn" not in target.inputs
    assert patterns(made(purchases=["on-demand"])) == {}


def test_failed_launches_are_told_where_asked() -> None:
    pattern = patterns(made(purchases=["on-demand"], node_group_names=["gpu-a", "gpu-b"]))["events-launch"]
    assert pattern["detail-type"] == ["EC2 Instance Launch Unsuccessful"]
    assert pattern["detail"] == {"AutoScalingGroupName": [{"prefix": "eks-gpu-a-"}, {"prefix": "eks-gpu-b-"}]}


def test_an_unknown_purchase_is_refused() -> None:
    with pytest.raises(
        pulumi.errors.InputPropertiesError, match="got reserved; accepted: on-demand, spot, capacity-block"
    ):
        made(purchases=["reserved"])


def test_event_bridge_may_publish_and_budgets_for_this_account_alone() -> None:
    statements = json.loads(topic_publishers(TOPIC, ("budgets.amazonaws.com",), "123456789012"))["Statement"]
    assert [(one["Principal"]["Service"], one.get("Condition")) for one in statements] == [
        (["budgets.amazonaws.com"], {"StringEquals": {"aws:SourceAccount": "123456789012"}}),
        ("events.amazonaws.com", None),
    ]
