"""S3 buckets and the rules that belong to one."""

from abc import abstractmethod
from typing import Any, ClassVar

from botocore.exceptions import ClientError

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import tag_list, tag_map
from infra.sandbox.aws_resources.errors import error_code
from infra.sandbox.aws_resources.iam import invalid_json
from infra.sandbox.aws_resources.properties import Properties, Shape, listed, nested, picked
from infra.sandbox.aws_resources.resource import ResourceType

# S3's home, the only region whose name a bucket's location must not hold.
_FIRST_REGION = "us-east-1"
_FLAGS = {
    "blockPublicAcls": "BlockPublicAcls",
    "blockPublicPolicy": "BlockPublicPolicy",
    "ignorePublicAcls": "IgnorePublicAcls",
    "restrictPublicBuckets": "RestrictPublicBuckets",
}


class Bucket(ResourceType):
    """A bucket, whose id is its name."""

    token = "aws:s3/bucket:Bucket"
    service = "S3"
    label = "S3 Bucket"
    inputs: ClassVar[Shape] = dict.fromkeys(("bucket", "forceDestroy", "tags"))
    computed = ("arn", "bucketDomainName", "bucketRegion", "bucketRegionalDomainName", "tagsAll")
    name_key = "bucket"

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        name = str(inputs["bucket"])
        where = {} if clients.region == _FIRST_REGION else {"LocationConstraint": clients.region}
        clients.client("s3").create_bucket(Bucket=name, **({"CreateBucketConfiguration": where} if where else {}))
        self._put_tags(clients, name, nested(inputs, "tagsAll"))
        return name

    def _put_tags(self, clients: AwsClients, name: str, tags: dict[str, str]) -> None:
        if tags:
            clients.client("s3").put_bucket_tagging(Bucket=name, Tagging={"TagSet": tag_list(tags)})
        else:
            clients.client("s3").delete_bucket_tagging(Bucket=name)

    def _tags(self, clients: AwsClients, name: str) -> dict[str, str]:
        try:
            return tag_map(clients.client("s3").get_bucket_tagging(Bucket=name)["TagSet"])
        except ClientError as error:
            if error_code(error) == "NoSuchTagSet":
                return {}
            raise

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        kept = {key: value for key, value in self._tags(clients, resource_id).items() if key not in drop}
        self._put_tags(clients, resource_id, {**kept, **put})

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        """`forceDestroy` lives in the state alone."""

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        clients.client("s3").head_bucket(Bucket=resource_id)
        return {
            "arn": f"arn:{clients.partition}:s3:::{resource_id}",
            "bucket": resource_id,
            "bucketDomainName": f"{resource_id}.s3.amazonaws.com",
            "bucketRegion": clients.region,
            "bucketRegionalDomainName": f"{resource_id}.s3.{clients.region}.amazonaws.com",
            "tagsAll": self._tags(clients, resource_id),
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        s3 = clients.client("s3")
        if state.get("forceDestroy"):
            for page in s3.get_paginator("list_objects_v2").paginate(Bucket=resource_id):
                for one in page.get("Contents", []):
                    s3.delete_object(Bucket=resource_id, Key=one["Key"])
        s3.delete_bucket(Bucket=resource_id)


class BucketRule(ResourceType):
    """Settings that a bucket has once: made and changed by the same call, with the bucket's name as their id."""

    service = "S3"
    required = ("bucket",)
    replace_on = frozenset({"bucket"})
    fixed_identity = True

    @abstractmethod
    def _put(self, s3: Any, inputs: Properties) -> None:
        """Set them."""

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        self._put(clients.client("s3"), inputs)
        return str(inputs["bucket"])

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        self._put(clients.client("s3"), new)


class BucketPublicAccessBlock(BucketRule):
    """What keeps a bucket from becoming public."""

    token = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
    label = "S3 Bucket Public Access Block"
    inputs: ClassVar[Shape] = dict.fromkeys(("bucket", *_FLAGS))

    def _put(self, s3: Any, inputs: Properties) -> None:
        settings = {name: bool(inputs.get(key)) for key, name in _FLAGS.items()}
        s3.put_public_access_block(Bucket=inputs["bucket"], PublicAccessBlockConfiguration=settings)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = clients.client("s3").get_public_access_block(Bucket=resource_id)["PublicAccessBlockConfiguration"]
        return {"bucket": resource_id, **{key: bool(found.get(name)) for key, name in _FLAGS.items()}}

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("s3").delete_public_access_block(Bucket=resource_id)


class BucketEncryption(BucketRule):
    """How a bucket encrypts what says nothing of it."""

    token = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
    label = "S3 Bucket Server-side Encryption Configuration"
    inputs: ClassVar[Shape] = {
        "bucket": None,
        "rules": {
            "applyServerSideEncryptionByDefault": {"sseAlgorithm": None, "kmsMasterKeyId": None},
            "bucketKeyEnabled": None,
        },
    }
    required = ("bucket", "rules")

    def _put(self, s3: Any, inputs: Properties) -> None:
        rules: list[dict[str, Any]] = []
        for rule in listed(inputs, "rules"):
            default = nested(rule, "applyServerSideEncryptionByDefault")
            rules.append(
                {
                    "ApplyServerSideEncryptionByDefault": picked(
                        default, sseAlgorithm="SSEAlgorithm", kmsMasterKeyId="KMSMasterKeyID"
                    ),
                    "BucketKeyEnabled": bool(rule.get("bucketKeyEnabled")),
                }
            )
        s3.put_bucket_encryption(Bucket=inputs["bucket"], ServerSideEncryptionConfiguration={"Rules": rules})

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        answer = clients.client("s3").get_bucket_encryption(Bucket=resource_id)
        rules: list[Properties] = []
        for rule in answer["ServerSideEncryptionConfiguration"]["Rules"]:
            default = rule["ApplyServerSideEncryptionByDefault"]
            key = {"kmsMasterKeyId": default["KMSMasterKeyID"]} if default.get("KMSMasterKeyID") else {}
            shared = {"bucketKeyEnabled": True} if rule.get("BucketKeyEnabled") else {}
            applied = {"sseAlgorithm": default["SSEAlgorithm"], **key}
            rules.append({"applyServerSideEncryptionByDefault": applied, **shared})
        return {"bucket": resource_id, "rules": rules}

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("s3").delete_bucket_encryption(Bucket=resource_id)


class BucketLifecycle(BucketRule):
    """What S3 removes by itself; only the end of abandoned uploads is covered."""

    token = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
    label = "S3 Bucket Lifecycle Configuration"
    inputs: ClassVar[Shape] = {
        "bucket": None,
        "rules": {
            "id": None,
            "status": None,
            "filter": {"prefix": None},
            "abortIncompleteMultipartUpload": {"daysAfterInitiation": None},
        },
    }
    required = ("bucket", "rules")

    def _put(self, s3: Any, inputs: Properties) -> None:
        rules: list[dict[str, Any]] = [
            {
                "ID": rule["id"],
                "Status": rule["status"],
                "Filter": {"Prefix": nested(rule, "filter").get("prefix", "")},
                "AbortIncompleteMultipartUpload": {
                    "DaysAfterInitiation": nested(rule, "abortIncompleteMultipartUpload")["daysAfterInitiation"]
                },
            }
            for rule in listed(inputs, "rules")
        ]
        s3.put_bucket_lifecycle_configuration(Bucket=inputs["bucket"], LifecycleConfiguration={"Rules": rules})

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = clients.client("s3").get_bucket_lifecycle_configuration(Bucket=resource_id)["Rules"]
        return {
            "bucket": resource_id,
            "rules": [
                {
                    "id": rule["ID"],
                    "status": rule["Status"],
                    "filter": {"prefix": nested(rule, "Filter").get("Prefix", "")},
                    "abortIncompleteMultipartUpload": {
                        "daysAfterInitiation": nested(rule, "AbortIncompleteMultipartUpload").get("DaysAfterInitiation")
                    },
                }
                for rule in found
            ],
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("s3").delete_bucket_lifecycle(Bucket=resource_id)


class BucketPolicy(BucketRule):
    """Who may do what with a bucket, beside what roles allow."""

    token = "aws:s3/bucketPolicy:BucketPolicy"
    label = "S3 Bucket Policy"
    inputs: ClassVar[Shape] = dict.fromkeys(("bucket", "policy"))
    required = ("bucket", "policy")

    def _invalid(self, inputs: Properties) -> list[tuple[str, str]]:
        return invalid_json(inputs, "policy")

    def _put(self, s3: Any, inputs: Properties) -> None:
        s3.put_bucket_policy(Bucket=inputs["bucket"], Policy=inputs["policy"])

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = clients.client("s3").get_bucket_policy(Bucket=resource_id)
        return {"bucket": resource_id, "policy": str(found["Policy"])}

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("s3").delete_bucket_policy(Bucket=resource_id)
