"""What EKS resource types share: tags by ARN, and waiting for an update by its id."""

from collections.abc import Mapping
from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.errors import AwsResourceError
from infra.sandbox.aws_resources.properties import Properties, listed, nested
from infra.sandbox.aws_resources.resource import ResourceType


def own_tags(tags: Mapping[str, str] | None) -> dict[str, str]:
    """Tags without those that AWS itself sets."""
    return {key: value for key, value in (tags or {}).items() if not key.startswith("aws:")}


class EksType(ResourceType):
    """A resource of EKS.

    - `arn_key`: the output that holds its ARN.
    """

    service: ClassVar[str] = "EKS"
    arn_key: ClassVar[str] = "arn"

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        eks = clients.client("eks")
        if put:
            eks.tag_resource(resourceArn=state[self.arn_key], tags=put)
        if drop:
            eks.untag_resource(resourceArn=state[self.arn_key], tagKeys=drop)

    def _await_update(self, clients: AwsClients, answer: Mapping[str, Any], **names: str) -> None:
        """Wait until the update in `answer` succeeded.

        - `names`: `name` and, for parts of a cluster, `nodegroupName` or `addonName`.
        """
        update_id = str(answer["update"]["id"])

        def succeeded() -> bool:
            update = clients.client("eks").describe_update(updateId=update_id, **names)["update"]
            if update["status"] in ("Failed", "Cancelled"):
                reasons = "; ".join(
                    f"{error.get('errorCode')}: {error.get('errorMessage')}" for error in listed(update, "errors")
                )
                raise AwsResourceError(
                    f"{self.label} update {update_id} {update['status']}: {reasons or 'no reason given'}"
                )
            return update["status"] == "Successful"

        clients.wait(f"{self.label} update {update_id} ({', '.join(names.values())})", succeeded)


def issues(found: Mapping[str, Any]) -> str:
    """The health issues of a described cluster, node group or add-on in one line."""
    listed = nested(found, "health").get("issues") or ()
    return "; ".join(f"{issue.get('code')}: {issue.get('message')}" for issue in listed) or "no reason given"


def split_id(resource_id: str, separator: str = ":") -> tuple[str, str]:
    """`cluster:name` in its two parts."""
    cluster, _, rest = resource_id.partition(separator)
    return cluster, rest
