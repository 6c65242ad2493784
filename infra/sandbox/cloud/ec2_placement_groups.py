"""EC2's placement groups, which moto lacks: names that launch templates ask to be placed in."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's classes are untyped.

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.ec2.utils import EC2_RESOURCE_TO_PREFIX
from moto.moto_api._internal import mock_random

_STRATEGIES = ("cluster", "spread", "partition")


def install() -> None:
    """Add CreatePlacementGroup, DescribePlacementGroups and DeletePlacementGroup to moto's EC2."""

    def create_placement_group(self: Any) -> ActionResult:
        name, strategy = str(self._get_param("GroupName")), str(self._get_param("Strategy", "cluster"))
        groups = _groups(self)
        if name in groups:
            raise EC2ClientError("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
        if strategy not in _STRATEGIES:
            raise EC2ClientError("InvalidParameterValue", f"The value '{strategy}' is not a valid placement strategy.")
        groups[name] = {
            "GroupName": name,
            "GroupId": f"pg-{mock_random.get_random_hex(17)}",
            "Strategy": strategy,
            "State": "available",
        }
        tags = self._parse_tag_specification().get("placement-group", {})
        self.ec2_backend.create_tags([groups[name]["GroupId"]], tags)
        return ActionResult({"PlacementGroup": _shown(self, groups[name])})

    def describe_placement_groups(self: Any) -> ActionResult:
        groups = _groups(self)
        names: list[str] = self._get_param("GroupNames", [])
        for name in names:
            _existing(groups, name)
        return ActionResult(
            {"PlacementGroups": [_shown(self, group) for name, group in groups.items() if not names or name in names]}
        )

    def delete_placement_group(self: Any) -> ActionResult:
        groups = _groups(self)
        name = str(self._get_param("GroupName"))
        _existing(groups, name)
        del groups[name]
        return ActionResult({})

    # moto refuses tags on ids that it does not know.
    EC2_RESOURCE_TO_PREFIX["placement-group"] = "pg"
    response: Any = EC2Response
    response.create_placement_group = create_placement_group
    response.describe_placement_groups = describe_placement_groups
    response.delete_placement_group = delete_placement_group


def _groups(response: Any) -> dict[str, dict[str, str]]:
    return response.ec2_backend.__dict__.setdefault("placement_groups", {})


def _existing(groups: dict[str, dict[str, str]], name: str) -> None:
    if name not in groups:
        raise EC2ClientError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")


def _shown(response: Any, group: dict[str, str]) -> dict[str, Any]:
    arn = f"arn:aws:ec2:{response.region}:{response.current_account}:placement-group/{group['GroupName']}"
    held = response.ec2_backend.tags.get(group["GroupId"], {})
    return {**group, "GroupArn": arn, "Tags": [{"Key": key, "Value": value} for key, value in held.items()]}
