"""AWS Budgets calls that moto lacks."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# moto's classes are untyped.
# ruff: noqa: SLF001, since moto offers no other way in

import json
from typing import Any

from moto.budgets.exceptions import DuplicateRecordException, NotFoundException
from moto.budgets.responses import BudgetsResponse

_TAGS = "simulated_tags"


def install() -> None:
    """Add them to moto's Budgets."""
    create = BudgetsResponse.create_budget
    create_one_notification = BudgetsResponse.create_notification

    def create_budget(self: Any) -> str:
        answer = create(self)
        _tags(self)[_arn(self, self._get_param("Budget")["BudgetName"])] = _pairs(self._get_param("ResourceTags"))
        return answer

    def update_budget(self: Any) -> str:
        new: dict[str, Any] = self._get_param("NewBudget")
        held = _budget(self, new["BudgetName"])
        held.budget = {
            "TimePeriod": held.budget["TimePeriod"],
            "LastUpdatedTime": held.budget["LastUpdatedTime"],
            **new,
        }
        return json.dumps({})

    def describe_notifications_for_budget(self: Any) -> str:
        held = _budget(self, self._get_param("BudgetName"))
        shown = [{"NotificationState": "OK", **one.details} for one in held.notifications]
        return json.dumps({"Notifications": shown})

    def create_notification(self: Any) -> str:
        held = _budget(self, self._get_param("BudgetName"))
        given: dict[str, Any] = self._get_param("Notification")
        if any(_same(one.details, given) for one in held.notifications):
            raise DuplicateRecordException(record_type="notification", record_name=held.budget["BudgetName"])
        return create_one_notification(self)

    def update_notification(self: Any) -> str:
        _notification(self, "OldNotification").details = self._get_param("NewNotification")
        return json.dumps({})

    def delete_notification(self: Any) -> str:
        gone = _notification(self, "Notification")
        held = _budget(self, self._get_param("BudgetName"))
        held.notifications = [one for one in held.notifications if one is not gone]
        return json.dumps({})

    def describe_subscribers_for_notification(self: Any) -> str:
        return json.dumps({"Subscribers": _notification(self, "Notification").subscribers})

    def create_subscriber(self: Any) -> str:
        _notification(self, "Notification").subscribers.append(self._get_param("Subscriber"))
        return json.dumps({})

    def delete_subscriber(self: Any) -> str:
        subscribers: list[Any] = _notification(self, "Notification").subscribers
        if self._get_param("Subscriber") not in subscribers:
            raise NotFoundException("Unable to delete subscriber - the subscriber doesn't exist.")
        subscribers.remove(self._get_param("Subscriber"))
        return json.dumps({})

    def tag_resource(self: Any) -> str:
        _tags(self).setdefault(self._get_param("ResourceARN"), {}).update(_pairs(self._get_param("ResourceTags")))
        return json.dumps({})

    def untag_resource(self: Any) -> str:
        for key in self._get_param("ResourceTagKeys") or []:
            _tags(self).get(self._get_param("ResourceARN"), {}).pop(key, None)
        return json.dumps({})

    def list_tags_for_resource(self: Any) -> str:
        held = _tags(self).get(self._get_param("ResourceARN"), {})
        return json.dumps({"ResourceTags": [{"Key": key, "Value": value} for key, value in held.items()]})

    response: Any = BudgetsResponse
    for function in (
        create_budget,
        update_budget,
        describe_notifications_for_budget,
        create_notification,
        update_notification,
        delete_notification,
        describe_subscribers_for_notification,
        create_subscriber,
        delete_subscriber,
        tag_resource,
        untag_resource,
        list_tags_for_resource,
    ):
        setattr(response, function.__name__, function)


def _budget(response: Any, name: str) -> Any:
    """The budget as moto holds it; raises NotFoundException."""
    budgets = response.backend.budgets[response._get_param("AccountId")]
    if name not in budgets:
        raise NotFoundException(f"Unable to get budget: {name} - the budget doesn't exist.")
    return budgets[name]


def _notification(response: Any, parameter: str) -> Any:
    """The notification that the request names; raises NotFoundException."""
    given: dict[str, Any] = response._get_param(parameter)
    for one in _budget(response, response._get_param("BudgetName")).notifications:
        if _same(one.details, given):
            return one
    raise NotFoundException("Unable to find the notification - the notification doesn't exist.")


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    def key(details: dict[str, Any]) -> tuple[Any, ...]:
        names = ("NotificationType", "ComparisonOperator", "Threshold")
        return (*(details.get(name) for name in names), details.get("ThresholdType", "PERCENTAGE"))

    return key(one) == key(other)


def _tags(response: Any) -> dict[str, dict[str, str]]:
    return response.backend.__dict__.setdefault(_TAGS, {})


def _pairs(tags: list[dict[str, str]] | None) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tags or []}


def _arn(response: Any, name: str) -> str:
    return f"arn:aws:budgets::{response._get_param('AccountId')}:budget/{name}"
