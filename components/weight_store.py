"""The regional copy of the weights in S3, from which a zone without a volume loads."""

from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components._inputs import Arguments
from components.iam_documents import tls_only

LONGEST_BUCKET_NAME = 63  # S3 user guide, bucket naming rules
_ABANDONED_UPLOAD_DAYS = 7


class WeightStoreArgs(TypedDict):
    """Arguments of `WeightStore`."""

    bucket_name: str
    """The bucket's name, unique in all of AWS, 3 to 63 characters."""
    model: str
    """The model's name; becomes the folder and a tag."""
    tags: NotRequired[dict[str, str]]
    """Tags of the bucket."""


class WeightStore(pulumi.ComponentResource):
    """A private, encrypted bucket that speaks TLS only, protected from destroy and kept when it leaves the state.

    Its name is given and not made up: a second stack of the same name must fail here instead of paying for a second copy.
    """

    bucket_name: pulumi.Output[str]
    """The bucket."""
    uri: pulumi.Output[str]
    """The model's folder, `s3://bucket/model`."""

    def __init__(self, name: str, args: WeightStoreArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Register the bucket and its rules."""
        super().__init__("dormouse:index:WeightStore", name, {}, opts)
        given = Arguments("WeightStore", args)
        bucket_name, model = given.text("bucket_name"), given.text("model")
        if len(bucket_name) > LONGEST_BUCKET_NAME:
            given.fault(
                "bucket_name",
                f"got {bucket_name}, {len(bucket_name)} characters; accepted: {LONGEST_BUCKET_NAME} at most, so a "
                "shorter name of the stack",
            )
        given.check()

        bucket = aws.s3.Bucket(
            name,
            bucket=bucket_name,
            tags={**given.tags(), "Name": bucket_name, "dormouse.dev/model": model},
            # As for the volumes: 595 GB are not downloaded again because of one command.
            opts=pulumi.ResourceOptions(parent=self, protect=True, retain_on_delete=True),
        )
        # A bucket that is kept keeps its rules as well.
        kept = pulumi.ResourceOptions(parent=self, retain_on_delete=True)
        closed = aws.s3.BucketPublicAccessBlock(
            name,
            bucket=bucket.bucket,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=kept,
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            name,
            bucket=bucket.bucket,
            rules=[{"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}],
            opts=kept,
        )
        aws.s3.BucketLifecycleConfiguration(
            name,
            bucket=bucket.bucket,
            rules=[
                {
                    "id": "abandoned-uploads",
                    "status": "Enabled",
                    "filter": {"prefix": ""},
                    # Parts of an upload that nobody ends are billed and never listed.
                    "abort_incomplete_multipart_upload": {"days_after_initiation": _ABANDONED_UPLOAD_DAYS},
                }
            ],
            opts=kept,
        )
        # S3 takes one change of a bucket's access at a time.
        aws.s3.BucketPolicy(
            name,
            bucket=bucket.bucket,
            policy=tls_only(bucket_name),
            opts=pulumi.ResourceOptions.merge(kept, pulumi.ResourceOptions(depends_on=[closed])),
        )
        self.bucket_name = bucket.bucket
        self.uri = pulumi.Output.concat("s3://", bucket.bucket, "/", model)
        self.register_outputs({"bucketName": self.bucket_name, "uri": self.uri})


def weights_bucket_name(name: str, account_id: str, region: str) -> str:
    """The bucket of the server called `name`: bucket names are shared by all accounts and regions."""
    return f"{name}-weights-{account_id}-{region}"
