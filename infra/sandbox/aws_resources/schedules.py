"""EventBridge Scheduler: the checks that AWS makes and the simulation leaves out, and the resource type."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, cast
from zoneinfo import ZoneInfo

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.errors import AwsResourceError
from infra.sandbox.aws_resources.properties import Properties, Shape, pascal, picked, renamed
from infra.sandbox.aws_resources.resource import ResourceType

_AT = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")
_RATE = re.compile(r"rate\((\d+) (minute|minutes|hour|hours|day|days)\)")
_CRON_FIELDS = 6
_UNIVERSAL_TARGET = ":aws-sdk:"
_SCALING_TARGET = ":aws-sdk:eks:updateNodegroupConfig"
# The request of eks:UpdateNodegroupConfig as a universal target takes it: PascalCase all the way down.
_SCALING_REQUEST: Shape = {
    **dict.fromkeys(("ClusterName", "NodegroupName", "ClientRequestToken")),
    "Labels": dict.fromkeys(("AddOrUpdateLabels", "RemoveLabels")),
    "NodeRepairConfig": None,
    "ScalingConfig": dict.fromkeys(("MinSize", "MaxSize", "DesiredSize")),
    "Taints": dict.fromkeys(("AddOrUpdateTaints", "RemoveTaints")),
    "UpdateConfig": None,
}


class InvalidScheduleError(AwsResourceError):
    """A schedule that EventBridge Scheduler refuses; the message begins with its ValidationException."""

    def __init__(self, what: str) -> None:
        """Word it as AWS does."""
        super().__init__(f"ValidationException: {what}")


def check_expression(expression: str, time_zone: str | None, now: datetime) -> None:
    """Refuse what AWS refuses: unknown forms, an unknown time zone, a one-time schedule that lies in the past.

    Raises InvalidScheduleError.
    """
    try:
        zone = ZoneInfo(time_zone or "UTC")
    except (KeyError, ValueError, OSError):
        raise InvalidScheduleError(
            f"Invalid Schedule Expression Timezone {time_zone}. Accepted: a name of the IANA time zone database."
        ) from None
    once = _AT.fullmatch(expression)
    if once:
        try:
            moment = datetime.fromisoformat(once[1]).replace(tzinfo=zone)
        except ValueError:
            raise InvalidScheduleError(f"Invalid Schedule Expression {expression}.") from None
        if moment.astimezone(UTC) <= now:
            raise InvalidScheduleError(
                f"Invalid Schedule Expression {expression}: the time is in the past (it is {now:%Y-%m-%dT%H:%M:%S}Z)."
            )
        return
    rate = _RATE.fullmatch(expression)
    if rate and int(rate[1]) > 0:
        return
    fields = expression[5:-1].split() if expression.startswith("cron(") and expression.endswith(")") else []
    # One of day-of-month and day-of-week must be left open, as everywhere in EventBridge.
    if len(fields) == _CRON_FIELDS and (fields[2] == "?") != (fields[4] == "?"):
        return
    raise InvalidScheduleError(
        f"Invalid Schedule Expression {expression}. Accepted: at(yyyy-mm-ddThh:mm:ss), rate(value unit), "
        "cron(minutes hours day-of-month month day-of-week year) with ? for one of the two days."
    )


def check_target(arn: str, document: str | None) -> None:
    """Refuse a universal target whose input isn't the API's request in PascalCase.

    Raises InvalidScheduleError.
    """
    if _UNIVERSAL_TARGET not in arn:
        return
    try:
        request: Any = json.loads(document or "")
    except ValueError:
        raise InvalidScheduleError(f"The Input of the universal target {arn} must be a JSON object.") from None
    if not isinstance(request, dict):
        raise InvalidScheduleError(f"The Input of the universal target {arn} must be a JSON object.")
    if not arn.endswith(_SCALING_TARGET):
        return
    given = cast("dict[str, Any]", request)
    _check_request(given, _SCALING_REQUEST, "")
    for name in ("ClusterName", "NodegroupName"):
        if not isinstance(given.get(name), str):
            raise InvalidScheduleError(f"Invalid RequestJson provided. Reason: {name} is missing.")


def _check_request(request: dict[str, Any], shape: Shape, prefix: str) -> None:
    for key, value in request.items():
        if key not in shape:
            raise InvalidScheduleError(
                f"Invalid RequestJson provided. Reason: unknown field {prefix}{key}; "
                f"accepted: {', '.join(prefix + name for name in shape)}."
            )
        inner = shape[key]
        if inner is not None and isinstance(value, dict):
            _check_request(cast("dict[str, Any]", value), inner, f"{prefix}{key}.")


class Schedule(ResourceType):
    """Something that AWS does at a time, even when nothing of ours runs."""

    token = "aws:scheduler/schedule:Schedule"
    service = "Scheduler"
    label = "EventBridge Scheduler Schedule"
    inputs: ClassVar[Shape] = {
        **dict.fromkeys(
            (
                "actionAfterCompletion",
                "description",
                "endDate",
                "groupName",
                "kmsKeyArn",
                "name",
                "scheduleExpression",
                "scheduleExpressionTimezone",
                "startDate",
                "state",
            )
        ),
        "flexibleTimeWindow": dict.fromkeys(("mode", "maximumWindowInMinutes")),
        "target": {
            **dict.fromkeys(("arn", "roleArn", "input")),
            "deadLetterConfig": {"arn": None},
            "eventbridgeParameters": dict.fromkeys(("detailType", "source")),
            "retryPolicy": dict.fromkeys(("maximumEventAgeInSeconds", "maximumRetryAttempts")),
            "sqsParameters": {"messageGroupId": None},
        },
    }
    required = ("flexibleTimeWindow", "scheduleExpression", "target")
    defaults: ClassVar[Mapping[str, Any]] = {
        "groupName": "default",
        "scheduleExpressionTimezone": "UTC",
        "state": "ENABLED",
    }
    computed = ("arn",)
    replace_on = frozenset({"groupName"})
    name_key = "name"

    def _identity(self, name: str, inputs: Properties) -> str:
        return f"{inputs.get('groupName', 'default')}/{inputs.get('name', name)}"

    def _request(self, clients: AwsClients, inputs: Properties, *, check_time: bool) -> dict[str, Any]:
        if check_time:
            check_expression(
                inputs["scheduleExpression"], inputs.get("scheduleExpressionTimezone"), clients.clock.now()
            )
        target = inputs["target"]
        check_target(target["arn"], target.get("input"))
        # AWS refuses a role that isn't there; the simulation doesn't look.
        clients.client("iam").get_role(RoleName=str(target["roleArn"]).rsplit("/", 1)[-1])
        request = picked(
            inputs,
            actionAfterCompletion="ActionAfterCompletion",
            description="Description",
            endDate="EndDate",
            groupName="GroupName",
            kmsKeyArn="KmsKeyArn",
            name="Name",
            scheduleExpression="ScheduleExpression",
            scheduleExpressionTimezone="ScheduleExpressionTimezone",
            startDate="StartDate",
            state="State",
        )
        request["FlexibleTimeWindow"] = renamed(inputs["flexibleTimeWindow"], pascal)
        request["Target"] = renamed(target, _target_name)
        return request

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        try:
            request = self._request(clients, inputs, check_time=True)
        except InvalidScheduleError as error:
            identity = self._identity("", inputs)
            raise AwsResourceError(
                f"creating {self.label} ({identity}): operation error Scheduler: CreateSchedule, {error}"
            ) from None
        clients.client("scheduler").create_schedule(**request)
        return f"{inputs['groupName']}/{inputs['name']}"

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        # A one-time schedule that has fired may still be described anew as long as its time stays.
        moved = any(old.get(key) != new.get(key) for key in ("scheduleExpression", "scheduleExpressionTimezone"))
        try:
            request = self._request(clients, new, check_time=moved)
        except InvalidScheduleError as error:
            raise AwsResourceError(
                f"updating {self.label} ({resource_id}): operation error Scheduler: UpdateSchedule, {error}"
            ) from None
        clients.client("scheduler").update_schedule(**request)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        group, _, name = resource_id.partition("/")
        found = clients.client("scheduler").get_schedule(GroupName=group, Name=name)
        target = renamed(found["Target"], _our_target_name)
        return {
            "actionAfterCompletion": found.get("ActionAfterCompletion") or state.get("actionAfterCompletion"),
            "arn": found["Arn"],
            "description": found.get("Description") or None,
            "flexibleTimeWindow": renamed(found["FlexibleTimeWindow"], _our_target_name),
            "groupName": found.get("GroupName") or group,
            "kmsKeyArn": found.get("KmsKeyArn") or None,
            "name": found["Name"],
            "scheduleExpression": found["ScheduleExpression"],
            "scheduleExpressionTimezone": found.get("ScheduleExpressionTimezone") or "UTC",
            "state": found.get("State") or "ENABLED",
            "target": target,
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        group, _, name = resource_id.partition("/")
        clients.client("scheduler").delete_schedule(GroupName=group, Name=name)


def _target_name(name: str) -> str:
    return "EventBridgeParameters" if name == "eventbridgeParameters" else pascal(name)


def _our_target_name(name: str) -> str:
    return "eventbridgeParameters" if name == "EventBridgeParameters" else name[:1].lower() + name[1:]
