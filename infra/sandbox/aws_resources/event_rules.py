"""EventBridge: rules on the default bus and their targets."""

from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import tag_list, tag_map
from infra.sandbox.aws_resources.errors import AwsResourceError
from infra.sandbox.aws_resources.properties import Properties, Shape, picked
from infra.sandbox.aws_resources.resource import ResourceType

_BUS = "default"


class EventRule(ResourceType):
    """Which events are picked."""

    token = "aws:cloudwatch/eventRule:EventRule"
    service = "EventBridge"
    label = "EventBridge Rule"
    inputs: ClassVar[Shape] = dict.fromkeys(("name", "description", "eventPattern", "state", "tags"))
    required = ("eventPattern",)
    computed = ("arn", "eventBusName", "tagsAll")
    name_key = "name"

    def _put(self, clients: AwsClients, inputs: Properties) -> None:
        request = picked(inputs, name="Name", description="Description", eventPattern="EventPattern", state="State")
        clients.client("events").put_rule(**request)

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        self._put(clients, inputs)
        self._tag(clients, str(inputs["name"]), {}, dict(inputs.get("tagsAll") or {}), [])
        return str(inputs["name"])

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        self._put(clients, new)

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        events, arn = clients.client("events"), clients.arn("events", f"rule/{resource_id}")
        if put:
            events.tag_resource(ResourceARN=arn, Tags=tag_list(put))
        if drop:
            events.untag_resource(ResourceARN=arn, TagKeys=drop)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        events = clients.client("events")
        found = events.describe_rule(Name=resource_id)
        return {
            "arn": found["Arn"],
            "description": found.get("Description") or None,
            "eventBusName": found.get("EventBusName") or _BUS,
            "eventPattern": found.get("EventPattern"),
            "name": resource_id,
            "tagsAll": tag_map(events.list_tags_for_resource(ResourceARN=found["Arn"]).get("Tags")),
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("events").delete_rule(Name=resource_id)


class EventTarget(ResourceType):
    """Where a rule's events go."""

    token = "aws:cloudwatch/eventTarget:EventTarget"
    service = "EventBridge"
    label = "EventBridge Target"
    inputs: ClassVar[Shape] = dict.fromkeys(("rule", "targetId", "arn"))
    required = ("rule", "arn")
    computed = ("eventBusName",)
    replace_on = frozenset({"rule", "targetId"})
    name_key = "targetId"
    fixed_identity = True

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        self._update(clients, "", {}, inputs)
        return f"{inputs['rule']}-{inputs['targetId']}"

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        answer = clients.client("events").put_targets(
            Rule=new["rule"], Targets=[{"Id": new["targetId"], "Arn": new["arn"]}]
        )
        if answer.get("FailedEntryCount"):
            raise AwsResourceError(f"putting {self.label} ({new['rule']}): {answer['FailedEntries'][0]}")

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        rule, target_id = _parts(resource_id, state)
        targets: list[dict[str, Any]] = clients.client("events").list_targets_by_rule(Rule=rule)["Targets"]
        found = next((one for one in targets if one["Id"] == target_id), None)
        if found is None:
            return None
        return {"rule": rule, "targetId": target_id, "arn": found["Arn"], "eventBusName": _BUS}

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        rule, target_id = _parts(resource_id, state)
        clients.client("events").remove_targets(Rule=rule, Ids=[target_id])


def _parts(resource_id: str, state: Properties) -> tuple[str, str]:
    """The rule's name and the target's id, from the state, or from an id that was imported as `rule/target`."""
    if state.get("rule") and state.get("targetId"):
        return str(state["rule"]), str(state["targetId"])
    rule, _, target_id = resource_id.partition("/")
    return rule, target_id
