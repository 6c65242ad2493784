"""AWS Budgets."""

from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import tag_list, tag_map
from infra.sandbox.aws_resources.eks_type import split_id
from infra.sandbox.aws_resources.properties import Properties, Shape, changed, listed, nested, pascal, renamed, same
from infra.sandbox.aws_resources.resource import ResourceType


def _amount(text: Any) -> str:
    """A decimal amount without trailing zeros: AWS answers "100.0" to "100"."""
    try:
        return format(Decimal(str(text)).normalize(), "f")
    except InvalidOperation:
        return str(text)


class Budget(ResourceType):
    """A limit on what is spent, with notifications."""

    token = "aws:budgets/budget:Budget"
    service = "Budgets"
    label = "Budget"
    inputs: ClassVar[Shape] = {
        **dict.fromkeys(("accountId", "budgetType", "limitAmount", "limitUnit", "name", "tags", "timeUnit")),
        "costFilters": dict.fromkeys(("name", "values")),
        "costTypes": dict.fromkeys(
            (
                "includeCredit",
                "includeDiscount",
                "includeOtherSubscription",
                "includeRecurring",
                "includeRefund",
                "includeSubscription",
                "includeSupport",
                "includeTax",
                "includeUpfront",
                "useAmortized",
                "useBlended",
            )
        ),
        "notifications": dict.fromkeys(
            (
                "comparisonOperator",
                "notificationType",
                "threshold",
                "thresholdType",
                "subscriberEmailAddresses",
                "subscriberSnsTopicArns",
            )
        ),
    }
    required = ("budgetType", "timeUnit", "limitAmount", "limitUnit")
    computed = ("arn", "tagsAll")
    replace_on = frozenset({"accountId"})
    name_key = "name"

    def _invalid(self, inputs: Properties) -> list[tuple[str, str]]:
        faults: list[tuple[str, str]] = []
        given: Any = inputs.get("notifications")
        notifications: list[Any] = list(given) if isinstance(given, list) else []  # pyright: ignore[reportUnknownArgumentType]
        for at, one in enumerate(notifications):
            if (
                isinstance(one, dict)
                and not one.get("subscriberEmailAddresses")
                and not one.get("subscriberSnsTopicArns")
            ):
                faults.append(
                    (f"notifications[{at}]", "a notification needs at least one subscriber: e-mail or SNS topic")
                )
        return faults

    def _budget(self, inputs: Properties) -> dict[str, Any]:
        budget: dict[str, Any] = {
            "BudgetName": inputs["name"],
            "BudgetType": inputs["budgetType"],
            "BudgetLimit": {"Amount": str(inputs["limitAmount"]), "Unit": inputs["limitUnit"]},
            "TimeUnit": inputs["timeUnit"],
        }
        if inputs.get("costFilters"):
            budget["CostFilters"] = {one["name"]: one["values"] for one in inputs["costFilters"]}
        if inputs.get("costTypes"):
            budget["CostTypes"] = renamed(inputs["costTypes"], pascal)
        return budget

    def _notification(self, one: Properties) -> dict[str, Any]:
        names = ("notificationType", "comparisonOperator", "threshold", "thresholdType")
        return {pascal(name): one[name] for name in names if name in one}

    def _subscribers(self, one: Properties) -> list[dict[str, str]]:
        mail = [{"SubscriptionType": "EMAIL", "Address": it} for it in listed(one, "subscriberEmailAddresses")]
        topics = [{"SubscriptionType": "SNS", "Address": it} for it in listed(one, "subscriberSnsTopicArns")]
        return mail + topics

    def _account(self, clients: AwsClients, inputs: Properties) -> str:
        return str(inputs.get("accountId") or clients.account_id)

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        account = self._account(clients, inputs)
        notifications = [
            {"Notification": self._notification(one), "Subscribers": self._subscribers(one)}
            for one in listed(inputs, "notifications")
        ]
        tags = {"ResourceTags": tag_list(inputs["tagsAll"])} if inputs.get("tagsAll") else {}
        clients.client("budgets").create_budget(
            AccountId=account, Budget=self._budget(inputs), NotificationsWithSubscribers=notifications, **tags
        )
        return f"{account}:{inputs['name']}"

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        budgets = clients.client("budgets")
        account, name = split_id(resource_id)
        if changed(old, new, "budgetType", "limitAmount", "limitUnit", "timeUnit", "costFilters", "costTypes"):
            budgets.update_budget(AccountId=account, NewBudget=self._budget(new))
        before, after = listed(old, "notifications"), listed(new, "notifications")
        where = {"AccountId": account, "BudgetName": name}
        for one in before:
            if not any(same(one, other) for other in after):
                budgets.delete_notification(**where, Notification=self._notification(one))
        for one in after:
            if not any(same(one, other) for other in before):
                budgets.create_notification(
                    **where, Notification=self._notification(one), Subscribers=self._subscribers(one)
                )

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        budgets = clients.client("budgets")
        if put:
            budgets.tag_resource(ResourceARN=state["arn"], ResourceTags=tag_list(put))
        if drop:
            budgets.untag_resource(ResourceARN=state["arn"], ResourceTagKeys=drop)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        budgets = clients.client("budgets")
        account, name = split_id(resource_id)
        where = {"AccountId": account, "BudgetName": name}
        found = budgets.describe_budget(**where)["Budget"]
        arn = clients.arn("budgets", f"budget/{name}", regional=False)
        limit = found["BudgetLimit"]
        given = state.get("limitAmount")
        live: Properties = {
            "accountId": account,
            "arn": arn,
            "budgetType": found["BudgetType"],
            "costFilters": [{"name": key, "values": value} for key, value in nested(found, "CostFilters").items()],
            "limitAmount": given if _amount(given) == _amount(limit["Amount"]) else _amount(limit["Amount"]),
            "limitUnit": limit["Unit"],
            "name": name,
            "notifications": self._live_notifications(budgets, where),
            "timeUnit": found["TimeUnit"],
        }
        if found.get("CostTypes"):
            live["costTypes"] = {key[:1].lower() + key[1:]: value for key, value in found["CostTypes"].items()}
        if state.get("tagsAll"):
            live["tagsAll"] = tag_map(budgets.list_tags_for_resource(ResourceARN=arn).get("ResourceTags"))
        return live

    def _live_notifications(self, budgets: Any, where: dict[str, str]) -> list[Properties]:
        notifications: list[Properties] = []
        for found in budgets.describe_notifications_for_budget(**where).get("Notifications") or ():
            sent = {key: value for key, value in found.items() if key != "NotificationState"}
            answer = budgets.describe_subscribers_for_notification(**where, Notification=sent)
            one: Properties = {key[:1].lower() + key[1:]: value for key, value in sent.items()}
            for kind, ours in (("EMAIL", "subscriberEmailAddresses"), ("SNS", "subscriberSnsTopicArns")):
                addresses = [it["Address"] for it in answer["Subscribers"] if it["SubscriptionType"] == kind]
                if addresses:
                    one[ours] = addresses
            notifications.append(one)
        return notifications

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        account, name = split_id(resource_id)
        clients.client("budgets").delete_budget(AccountId=account, BudgetName=name)
