"""EC2 placement groups: machines that stand close together, or apart."""

from collections.abc import Mapping
from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import Ec2Type, first
from infra.sandbox.aws_resources.properties import Properties, Shape


class PlacementGroup(Ec2Type):
    """A placement group, whose id is its name."""

    token = "aws:ec2/placementGroup:PlacementGroup"
    label = "EC2 Placement Group"
    kind = "placement-group"
    inputs: ClassVar[Shape] = dict.fromkeys(("name", "strategy", "tags"))
    required = ("strategy",)
    computed = ("arn", "placementGroupId", "tagsAll")
    replace_on = frozenset({"strategy"})
    name_key = "name"

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        clients.client("ec2").create_placement_group(
            GroupName=inputs["name"], Strategy=inputs["strategy"], **self._tags_at_creation(inputs)
        )
        return str(inputs["name"])

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found: Mapping[str, Any] | None = first(
            clients.client("ec2").describe_placement_groups(GroupNames=[resource_id]), "PlacementGroups"
        )
        if found is None:
            return None
        common = self._common(clients, resource_id, found)
        common.pop("ownerId")
        return {
            **common,
            "name": found["GroupName"],
            "strategy": found["Strategy"],
            "placementGroupId": found["GroupId"],
        }

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        super()._tag(clients, str(state["placementGroupId"]), state, put, drop)

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("ec2").delete_placement_group(GroupName=resource_id)
