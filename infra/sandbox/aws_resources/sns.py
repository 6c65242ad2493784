"""SNS topics, their policies and subscriptions."""

from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import tag_list, tag_map, unless_gone
from infra.sandbox.aws_resources.properties import Properties, Shape, absent, changed, picked
from infra.sandbox.aws_resources.resource import ResourceType

_TOPIC_ATTRIBUTES = {
    "displayName": "DisplayName",
    "kmsMasterKeyId": "KmsMasterKeyId",
    "policy": "Policy",
    "deliveryPolicy": "DeliveryPolicy",
    "signatureVersion": "SignatureVersion",
    "tracingConfig": "TracingConfig",
}
_SUBSCRIPTION_ATTRIBUTES = {
    "deliveryPolicy": "DeliveryPolicy",
    "filterPolicy": "FilterPolicy",
    "filterPolicyScope": "FilterPolicyScope",
    "rawMessageDelivery": "RawMessageDelivery",
    "redrivePolicy": "RedrivePolicy",
    "subscriptionRoleArn": "SubscriptionRoleArn",
}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Topic(ResourceType):
    """Something that notifications are sent to."""

    token = "aws:sns/topic:Topic"
    service = "SNS"
    label = "SNS Topic"
    inputs: ClassVar[Shape] = dict.fromkeys(
        ("name", "fifoTopic", "contentBasedDeduplication", "tags", *_TOPIC_ATTRIBUTES)
    )
    computed = ("arn", "owner", "tagsAll")
    replace_on = frozenset({"fifoTopic"})
    name_key = "name"

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        attributes = {
            theirs: _text(inputs[ours])
            for ours, theirs in {
                **_TOPIC_ATTRIBUTES,
                "fifoTopic": "FifoTopic",
                "contentBasedDeduplication": "ContentBasedDeduplication",
            }.items()
            if not absent(inputs.get(ours))
        }
        request = {"Name": inputs["name"], "Tags": tag_list(inputs.get("tagsAll")), "Attributes": attributes}
        return str(clients.client("sns").create_topic(**request)["TopicArn"])

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        for ours, theirs in {
            **_TOPIC_ATTRIBUTES,
            "contentBasedDeduplication": "ContentBasedDeduplication",
        }.items():
            if changed(old, new, ours):
                clients.client("sns").set_topic_attributes(
                    TopicArn=resource_id, AttributeName=theirs, AttributeValue=_text(new.get(ours, ""))
                )

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        sns = clients.client("sns")
        if put:
            sns.tag_resource(ResourceArn=resource_id, Tags=tag_list(put))
        if drop:
            sns.untag_resource(ResourceArn=resource_id, TagKeys=drop)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        sns = clients.client("sns")
        found = sns.get_topic_attributes(TopicArn=resource_id)["Attributes"]
        return {
            # A policy of its own (TopicPolicy) would otherwise look like a change of the topic.
            **{
                ours: found.get(theirs) or None
                for ours, theirs in _TOPIC_ATTRIBUTES.items()
                if ours != "policy" or "policy" in state
            },
            "arn": resource_id,
            "fifoTopic": found.get("FifoTopic") == "true",
            "contentBasedDeduplication": found.get("ContentBasedDeduplication") == "true",
            "name": resource_id.rsplit(":", 1)[-1],
            "owner": found.get("Owner") or clients.account_id,
            "tagsAll": tag_map(sns.list_tags_for_resource(ResourceArn=resource_id).get("Tags")),
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        sns = clients.client("sns")
        sns.get_topic_attributes(TopicArn=resource_id)
        sns.delete_topic(TopicArn=resource_id)


class TopicPolicy(ResourceType):
    """Who may send to a topic."""

    token = "aws:sns/topicPolicy:TopicPolicy"
    service = "SNS"
    label = "SNS Topic Policy"
    inputs: ClassVar[Shape] = dict.fromkeys(("arn", "policy"))
    required = ("arn", "policy")
    computed = ("owner",)
    replace_on = frozenset({"arn"})
    fixed_identity = True

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        self._update(clients, inputs["arn"], {}, inputs)
        return str(inputs["arn"])

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        clients.client("sns").set_topic_attributes(
            TopicArn=resource_id, AttributeName="Policy", AttributeValue=new["policy"]
        )

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = clients.client("sns").get_topic_attributes(TopicArn=resource_id)["Attributes"]
        return {"arn": resource_id, "policy": found["Policy"], "owner": found.get("Owner") or clients.account_id}

    def delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        """Give the topic the policy that every new topic has: a topic is never without one."""
        unless_gone(lambda: self._delete(clients, resource_id, state))

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        sns = clients.client("sns")
        account = sns.get_topic_attributes(TopicArn=resource_id)["Attributes"].get("Owner") or clients.account_id
        policy = (
            '{"Version":"2008-10-17","Id":"__default_policy_ID","Statement":[{"Sid":"__default_statement_ID",'
            '"Effect":"Allow","Principal":{"AWS":"*"},"Action":["SNS:GetTopicAttributes","SNS:SetTopicAttributes",'
            '"SNS:AddPermission","SNS:RemovePermission","SNS:DeleteTopic","SNS:Subscribe",'
            f'"SNS:ListSubscriptionsByTopic","SNS:Publish"],"Resource":"{resource_id}",'
            f'"Condition":{{"StringEquals":{{"AWS:SourceOwner":"{account}"}}}}}}]}}'
        )
        sns.set_topic_attributes(TopicArn=resource_id, AttributeName="Policy", AttributeValue=policy)


class TopicSubscription(ResourceType):
    """Who gets a topic's messages."""

    token = "aws:sns/topicSubscription:TopicSubscription"
    service = "SNS"
    label = "SNS Topic Subscription"
    inputs: ClassVar[Shape] = dict.fromkeys(
        (
            "topic",
            "protocol",
            "endpoint",
            "endpointAutoConfirms",
            "confirmationTimeoutInMinutes",
            *_SUBSCRIPTION_ATTRIBUTES,
        )
    )
    required = ("topic", "protocol", "endpoint")
    computed = ("arn", "ownerId", "pendingConfirmation", "confirmationWasAuthenticated")
    replace_on = frozenset({"topic", "protocol", "endpoint"})

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        attributes = {
            theirs: _text(inputs[ours])
            for ours, theirs in _SUBSCRIPTION_ATTRIBUTES.items()
            if not absent(inputs.get(ours))
        }
        names = picked(inputs, topic="TopicArn", protocol="Protocol", endpoint="Endpoint")
        answer = clients.client("sns").subscribe(**names, Attributes=attributes, ReturnSubscriptionArn=True)
        return str(answer["SubscriptionArn"])

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        for ours, theirs in _SUBSCRIPTION_ATTRIBUTES.items():
            if changed(old, new, ours):
                clients.client("sns").set_subscription_attributes(
                    SubscriptionArn=resource_id, AttributeName=theirs, AttributeValue=_text(new.get(ours, ""))
                )

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = clients.client("sns").get_subscription_attributes(SubscriptionArn=resource_id)["Attributes"]
        live: Properties = {
            ours: found.get(theirs) or None for ours, theirs in _SUBSCRIPTION_ATTRIBUTES.items() if ours in state
        }
        return {
            **live,
            "arn": resource_id,
            "confirmationWasAuthenticated": found.get("ConfirmationWasAuthenticated") == "true",
            "endpoint": found["Endpoint"],
            "ownerId": found.get("Owner") or clients.account_id,
            "pendingConfirmation": found.get("PendingConfirmation") == "true",
            "protocol": found["Protocol"],
            "topic": found["TopicArn"],
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("sns").unsubscribe(SubscriptionArn=resource_id)
