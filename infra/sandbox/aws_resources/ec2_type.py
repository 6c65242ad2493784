"""What all EC2 resource types share: one way of tagging, one of describing."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from botocore.exceptions import ClientError

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.errors import is_gone
from infra.sandbox.aws_resources.properties import Properties, listed
from infra.sandbox.aws_resources.resource import ResourceType


def tag_list(tags: Mapping[str, str] | None) -> list[dict[str, str]]:
    """Tags as `[{"Key": …, "Value": …}]`, the form of EC2, IAM and most other services."""
    return [{"Key": key, "Value": value} for key, value in (tags or {}).items()]


def tag_map(tags: list[dict[str, str]] | None) -> dict[str, str]:
    """The reverse of `tag_list`, without the tags that AWS itself sets."""
    return {tag["Key"]: tag["Value"] for tag in tags or () if not tag["Key"].startswith("aws:")}


class Ec2Type(ResourceType):
    """A resource of EC2.

    - `kind`: EC2's name of the resource type in tag specifications and ARNs, such as `route-table`.
    """

    service: ClassVar[str] = "EC2"
    kind: ClassVar[str] = ""

    def _tags_at_creation(self, inputs: Properties) -> dict[str, Any]:
        tags = inputs.get("tagsAll")
        return {"TagSpecifications": [{"ResourceType": self.kind, "Tags": tag_list(tags)}]} if tags else {}

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        ec2 = clients.client("ec2")
        if put:
            ec2.create_tags(Resources=[resource_id], Tags=tag_list(put))
        if drop:
            ec2.delete_tags(Resources=[resource_id], Tags=[{"Key": key} for key in drop])

    def _common(self, clients: AwsClients, resource_id: str, found: Mapping[str, Any]) -> Properties:
        """The outputs that every EC2 resource has: ARN, owner and tags."""
        return {
            "arn": clients.arn("ec2", f"{self.kind}/{resource_id}"),
            "ownerId": found.get("OwnerId") or clients.account_id,
            "tagsAll": tag_map(found.get("Tags")),
        }


def first(answer: Mapping[str, Any], key: str) -> Any:
    """The first of the listed things, or None."""
    items = listed(answer, key)
    return items[0] if items else None


def unless_gone(call: Callable[[], object]) -> None:
    """Make one step of a deletion; what isn't there any more is done."""
    try:
        call()
    except ClientError as error:
        if not is_gone(error):
            raise
