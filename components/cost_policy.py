"""Money stops by itself: a budget that warns and a one-shot expiry that sets every GPU node group to 0.

Both stand outside the cluster and work with a dead API server.
"""

import json
from datetime import UTC, datetime
from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components._inputs import Arguments
from components.iam_documents import allow, topic_publishers, trusted_service

_UNIVERSAL_TARGET = "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig"
# Shares of the budget at which people are told; the last one is a forecast, which comes before the money is gone.
_ACTUAL_STEPS = (50, 80, 100)
_FORECAST_STEP = 100


class CostPolicyArgs(TypedDict):
    """Arguments of `CostPolicy`."""

    account_id: str
    """The AWS account."""
    cluster_name: pulumi.Input[str]
    """The EKS cluster."""
    node_group_names: pulumi.Input[list[str]]
    """The GPU node groups that expiry sets to 0."""
    node_group_arns: pulumi.Input[list[str]]
    """Their ARNs, in the same order; the schedule's role may touch these alone."""
    slots: list[str]
    """Their candidates' names, in the same order, for resource names."""
    cost_tag: str
    """`key=value` of the cost allocation tag that the budget counts."""
    monthly_budget_usd: NotRequired[float]
    """US dollars a month. Default: no budget."""
    notify_emails: NotRequired[list[str]]
    """Addresses that the budget's warnings go to, beside the topic."""
    expires_at: NotRequired[str]
    """ISO time with offset, such as `2026-12-24T18:00:00+01:00`, at which the GPU groups are set to 0. Default: never."""
    tags: NotRequired[dict[str, str]]
    """Tags of every resource."""


class CostPolicy(pulumi.ComponentResource):
    """A topic for warnings, a monthly budget and the expiry schedules."""

    topic_arn: pulumi.Output[str]
    """The SNS topic that warnings go to."""

    def __init__(self, name: str, args: CostPolicyArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the policy."""
        super().__init__("dormouse:index:CostPolicy", name, {}, opts)
        given = Arguments("CostPolicy", args)
        account_id = given.text("account_id")
        cluster_name = given.required("cluster_name")
        names = given.required("node_group_names")
        arns = given.required("node_group_arns")
        slots = given.texts("slots", at_least=1)
        cost_tag = given.text("cost_tag")
        emails = given.texts("notify_emails")
        budget_usd = given.given("monthly_budget_usd")
        if budget_usd is not None and (not isinstance(budget_usd, (int, float)) or budget_usd <= 0):
            given.fault("monthly_budget_usd", f"got {budget_usd!r}; accepted: a number of US dollars above 0")
        expires_at = given.optional_text("expires_at")
        when = scheduler_time(expires_at) if expires_at else None
        if expires_at and when is None:
            given.fault("expires_at", f"got {expires_at}; accepted: an ISO time with its offset from UTC")
        given.check()
        tags = given.tags()
        child = pulumi.ResourceOptions(parent=self)

        # Not encrypted with a key of ours: AWS Budgets cannot publish to such a topic, and no secret passes here.
        topic = aws.sns.Topic(name, tags=tags, opts=child)
        aws.sns.TopicPolicy(
            name,
            arn=topic.arn,
            policy=topic.arn.apply(lambda arn: topic_publishers(arn, ("budgets.amazonaws.com",), account_id)),
            opts=child,
        )
        for index, address in enumerate(emails):
            aws.sns.TopicSubscription(
                f"{name}-email-{index}", topic=topic.arn, protocol="email", endpoint=address, opts=child
            )
        if budget_usd is not None:
            self._budget(name, float(budget_usd), cost_tag, topic, tags)
        if when is not None:
            self._expiry(name, when, cluster_name, names, arns, slots, account_id, tags)

        self.topic_arn = topic.arn
        self.register_outputs({"topicArn": self.topic_arn})

    def _budget(self, name: str, usd: float, cost_tag: str, topic: aws.sns.Topic, tags: dict[str, str]) -> None:
        key, value = cost_tag.split("=", 1)

        def warning(kind: str, percent: int) -> aws.budgets.BudgetNotificationArgs:
            return aws.budgets.BudgetNotificationArgs(
                comparison_operator="GREATER_THAN",
                notification_type=kind,
                threshold=percent,
                threshold_type="PERCENTAGE",
                subscriber_sns_topic_arns=[topic.arn],
            )

        aws.budgets.Budget(
            name,
            budget_type="COST",
            time_unit="MONTHLY",
            limit_amount=f"{usd:.2f}",
            limit_unit="USD",
            cost_filters=[{"name": "TagKeyValue", "values": [f"user:{key}${value}"]}],
            notifications=[
                *(warning("ACTUAL", percent) for percent in _ACTUAL_STEPS),
                warning("FORECASTED", _FORECAST_STEP),
            ],
            tags=tags,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _expiry(
        self,
        name: str,
        when: str,
        cluster_name: pulumi.Input[str],
        names: pulumi.Input[list[str]],
        arns: pulumi.Input[list[str]],
        slots: list[str],
        account_id: str,
        tags: dict[str, str],
    ) -> None:
        child = pulumi.ResourceOptions(parent=self)
        role = aws.iam.Role(
            f"{name}-expiry",
            assume_role_policy=trusted_service("scheduler.amazonaws.com", account_id),
            tags=tags,
            opts=child,
        )
        permission = aws.iam.RolePolicy(
            f"{name}-expiry",
            role=role.name,
            policy=pulumi.Output.from_input(arns).apply(lambda groups: allow(["eks:UpdateNodegroupConfig"], groups)),
            opts=child,
        )
        for index, slot in enumerate(slots):
            target = pulumi.Output.all(cluster_name, names).apply(lambda v, i=index: _set_to_zero(v[0], v[1][i]))
            aws.scheduler.Schedule(
                f"{name}-expiry-{slot}",
                description=f"Sets the GPU node group {slot} to 0 when the environment expires",
                schedule_expression=f"at({when})",
                schedule_expression_timezone="UTC",
                flexible_time_window={"mode": "OFF"},
                target={
                    "arn": _UNIVERSAL_TARGET,
                    "role_arn": role.arn,
                    "input": target,
                    "retry_policy": {"maximum_retry_attempts": 20, "maximum_event_age_in_seconds": 3600},
                },
                opts=pulumi.ResourceOptions(parent=self, depends_on=[permission]),
            )


def scheduler_time(iso: str) -> str | None:
    """`iso` in UTC as EventBridge Scheduler writes it, or None where it is no time with an offset."""
    try:
        moment = datetime.fromisoformat(iso)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _set_to_zero(cluster_name: str, node_group_name: str) -> str:
    """The request of the universal target; its keys are PascalCase, or CreateSchedule refuses it."""
    return json.dumps(
        {
            "ClusterName": cluster_name,
            "NodegroupName": node_group_name,
            "ScalingConfig": {"MinSize": 0, "DesiredSize": 0},
        }
    )
