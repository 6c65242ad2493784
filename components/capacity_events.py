"""AWS's own warnings about capacity, from EventBridge to the environment's topic.

Both kinds come without anybody asking, and while the cluster is out of reach too: EC2 takes a spot machine back in two
minutes, a Capacity Block starts, ends or is about to end.
"""

import json
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components._inputs import Arguments
from components.gpu_node_group import Purchase

_SPOT = ("EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation")
# AWS's pages word these events differently ("… Reservation Delivered", "… Expiration Warning"); the beginning is one.
_BLOCK_PREFIX = "Capacity Block"


class CapacityEventsArgs(TypedDict):
    """Arguments of `CapacityEvents`."""

    topic_arn: pulumi.Input[str]
    """The SNS topic, whose policy lets EventBridge publish."""
    purchases: list[str]
    """How the candidates are bought: on-demand, spot, capacity-block; each kind gets the rules that concern it."""
    node_group_names: NotRequired[pulumi.Input[list[str]]]
    """Node groups whose failed launches are told, one message for each try of Auto Scaling. Default: none."""
    tags: NotRequired[dict[str, str]]
    """Tags of the rules."""


class CapacityEvents(pulumi.ComponentResource):
    """EventBridge rules for spot notices, Capacity Blocks and, if asked, failed launches; each sends to the topic.

    EC2's spot events name an instance and nothing else, so they come for the whole account and region.
    """

    def __init__(self, name: str, args: CapacityEventsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the rules."""
        super().__init__("dormouse:index:CapacityEvents", name, {}, opts)
        given = Arguments("CapacityEvents", args)
        topic_arn = given.required("topic_arn")
        purchases = given.texts("purchases", at_least=1)
        known = [purchase.value for purchase in Purchase]
        for purchase in purchases:
            if purchase not in known:
                given.fault("purchases", f"got {purchase}; accepted: {', '.join(known)}")
        groups = given.given("node_group_names")
        given.check()
        tags = given.tags()

        if Purchase.SPOT.value in purchases:
            pattern = {"source": ["aws.ec2"], "detail-type": list(_SPOT)}
            self._rule(f"{name}-spot", "EC2 takes a spot machine back", json.dumps(pattern), topic_arn, tags)
        if Purchase.CAPACITY_BLOCK.value in purchases:
            pattern = {"source": ["aws.ec2"], "detail-type": [{"prefix": _BLOCK_PREFIX}]}
            self._rule(
                f"{name}-block", "A Capacity Block starts, ends or is about to", json.dumps(pattern), topic_arn, tags
            )
        if groups is not None:
            launches = pulumi.Output.from_input(groups).apply(_failed_launches)
            self._rule(f"{name}-launch", "Auto Scaling could not launch a GPU machine", launches, topic_arn, tags)
        self.register_outputs({})

    def _rule(
        self,
        name: str,
        description: str,
        pattern: pulumi.Input[str],
        topic_arn: pulumi.Input[str],
        tags: dict[str, str],
    ) -> None:
        child = pulumi.ResourceOptions(parent=self)
        rule = aws.cloudwatch.EventRule(name, description=description, event_pattern=pattern, tags=tags, opts=child)
        # No role: EventBridge publishes by the topic's policy, and with a role its delivery may fail.
        aws.cloudwatch.EventTarget(name, rule=rule.name, target_id="topic", arn=topic_arn, opts=child)


def _failed_launches(node_group_names: list[str]) -> str:
    # EKS calls a node group's Auto Scaling group eks-<node group>-<uuid>.
    prefixes: list[Any] = [{"prefix": f"eks-{group}-"} for group in node_group_names]
    return json.dumps(
        {
            "source": ["aws.autoscaling"],
            "detail-type": ["EC2 Instance Launch Unsuccessful"],
            "detail": {"AutoScalingGroupName": prefixes},
        }
    )
