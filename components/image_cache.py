"""A pull-through cache in ECR for images of Docker Hub, so that a wake does not depend on the hub or its rate limit."""

from typing import TypedDict

import pulumi
import pulumi_aws as aws

from components._inputs import Arguments
from components.iam_documents import allow

_DOCKER_HUB = "registry-1.docker.io"
_LONGEST_PREFIX = 30  # of EcrRepositoryPrefix (ECR API)


class ImageCacheArgs(TypedDict):
    """Arguments of `ImageCache`."""

    account_id: str
    """The AWS account."""
    region: str
    """The AWS region."""
    prefix: str
    """What the names of the cached repositories begin with, 2 to 30 characters of a-z, 0-9 and dashes."""
    secret_arn: str
    """Credentials of a Docker Hub account; ECR wants the secret to be called `ecr-pullthroughcache/…`."""
    node_role_arn: pulumi.Input[str]
    """The nodes' role, which gets the right to fill the cache."""


class ImageCache(pulumi.ComponentResource):
    """A rule that fetches an image from Docker Hub at its first pull and from ECR ever after, and the right to use it."""

    registry: pulumi.Output[str]
    """What stands in front of a Docker Hub image's name: `<account>.dkr.ecr.<region>.amazonaws.com/<prefix>`."""

    def __init__(self, name: str, args: ImageCacheArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the rule."""
        super().__init__("dormouse:index:ImageCache", name, {}, opts)
        given = Arguments("ImageCache", args)
        account, region = given.text("account_id"), given.text("region")
        prefix, secret_arn = given.text("prefix")[:_LONGEST_PREFIX].rstrip("-"), given.text("secret_arn")
        if ":secret:ecr-pullthroughcache/" not in secret_arn:
            given.fault("secret_arn", f"got {secret_arn}; accepted: the ARN of a secret called ecr-pullthroughcache/…")
        role_arn = given.required("node_role_arn")
        given.check()
        child = pulumi.ResourceOptions(parent=self)

        rule = aws.ecr.PullThroughCacheRule(
            name, ecr_repository_prefix=prefix, upstream_registry_url=_DOCKER_HUB, credential_arn=secret_arn, opts=child
        )
        # Pulling is in the nodes' managed policy; making a repository at the first pull is not.
        aws.iam.RolePolicy(
            name,
            role=pulumi.Output.from_input(role_arn).apply(lambda arn: arn.rsplit("/", 1)[-1]),
            policy=allow(
                ["ecr:BatchImportUpstreamImage", "ecr:CreateRepository"],
                [f"arn:aws:ecr:{region}:{account}:repository/{prefix}/*"],
            ),
            opts=child,
        )
        self.registry = rule.ecr_repository_prefix.apply(
            lambda made: f"{account}.dkr.ecr.{region}.amazonaws.com/{made}"
        )
        self.register_outputs({"registry": self.registry})
