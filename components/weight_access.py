"""What the pods of one service account may do with weights in S3, by EKS Pod Identity."""

from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components._inputs import Arguments
from components.iam_documents import s3_folders, trusted_service_with_tags


class WeightAccessArgs(TypedDict):
    """Arguments of `WeightAccess`."""

    cluster_name: pulumi.Input[str]
    """The EKS cluster, which runs the Pod Identity agent."""
    namespace: pulumi.Input[str]
    """The namespace of the service account."""
    service_account: pulumi.Input[str]
    """The service account whose pods get the role."""
    reads: list[str]
    """Folders that they may read, `s3://bucket/prefix`."""
    writes: NotRequired[list[str]]
    """Folders that they may write as well."""
    tags: NotRequired[dict[str, str]]
    """Tags of the role."""


class WeightAccess(pulumi.ComponentResource):
    """A role for one service account that reaches the given folders and nothing else."""

    role_arn: pulumi.Output[str]
    """The role."""

    def __init__(self, name: str, args: WeightAccessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the role and its association."""
        super().__init__("dormouse:index:WeightAccess", name, {}, opts)
        given = Arguments("WeightAccess", args)
        reads, writes = given.texts("reads", at_least=1), given.texts("writes")
        for key, uris in (("reads", reads), ("writes", writes)):
            for uri in uris:
                if not uri.startswith("s3://"):
                    given.fault(key, f"got {uri}; accepted: s3://bucket/prefix")
        cluster_name, namespace = given.required("cluster_name"), given.required("namespace")
        service_account = given.required("service_account")
        given.check()
        child = pulumi.ResourceOptions(parent=self)

        role = aws.iam.Role(
            name, assume_role_policy=trusted_service_with_tags("pods.eks.amazonaws.com"), tags=given.tags(), opts=child
        )
        policy = aws.iam.RolePolicy(name, role=role.name, policy=s3_folders(reads, writes), opts=child)
        aws.eks.PodIdentityAssociation(
            name,
            cluster_name=cluster_name,
            namespace=namespace,
            service_account=service_account,
            role_arn=role.arn,
            tags=given.tags(),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )
        self.role_arn = role.arn
        self.register_outputs({"roleArn": self.role_arn})
