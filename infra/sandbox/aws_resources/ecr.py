"""ECR's pull-through cache."""

from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.properties import Properties, Shape, picked
from infra.sandbox.aws_resources.resource import ResourceType

_NAMES = {
    "ecrRepositoryPrefix": "ecrRepositoryPrefix",
    "upstreamRegistryUrl": "upstreamRegistryUrl",
    "credentialArn": "credentialArn",
}


class PullThroughCacheRule(ResourceType):
    """A rule under whose prefix images of another registry are kept; its id is the prefix."""

    token = "aws:ecr/pullThroughCacheRule:PullThroughCacheRule"
    service = "ECR"
    label = "ECR Pull Through Cache Rule"
    inputs: ClassVar[Shape] = dict.fromkeys(_NAMES)
    required = ("ecrRepositoryPrefix", "upstreamRegistryUrl")
    computed = ("registryId",)
    replace_on = frozenset(_NAMES)
    fixed_identity = True

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        clients.client("ecr").create_pull_through_cache_rule(**picked(inputs, **_NAMES))
        return str(inputs["ecrRepositoryPrefix"])

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found: list[dict[str, Any]] = clients.client("ecr").describe_pull_through_cache_rules(
            ecrRepositoryPrefixes=[resource_id]
        )["pullThroughCacheRules"]
        if not found:
            return None
        return {name: found[0].get(name) for name in (*_NAMES, "registryId")}

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("ecr").delete_pull_through_cache_rule(ecrRepositoryPrefix=resource_id)
