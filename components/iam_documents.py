"""IAM documents as JSON text: who may assume a role, and what it may do."""

import json
from collections.abc import Sequence
from typing import Any


def trusted_service(service: str, account_id: str | None = None) -> str:
    """Trust for one AWS service; with `account_id` only on behalf of that account (no confused deputy)."""
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
    }
    if account_id is not None:
        statement["Condition"] = {"StringEquals": {"aws:SourceAccount": account_id}}
    return _document([statement])


def trusted_service_with_tags(service: str) -> str:
    """Trust for EKS and EKS Pod Identity, which tag the sessions they open."""
    return _document(
        [
            {
                "Effect": "Allow",
                "Principal": {"Service": service},
                "Action": ["sts:AssumeRole", "sts:TagSession"],
            }
        ]
    )


def allow(actions: Sequence[str], resources: Sequence[str]) -> str:
    """A policy that allows `actions` on `resources` and nothing else."""
    return _document([{"Effect": "Allow", "Action": list(actions), "Resource": list(resources)}])


def topic_publishers(topic_arn: str, services: Sequence[str], account_id: str) -> str:
    """A topic policy: `services` may publish on behalf of `account_id`, and EventBridge may publish.

    EventBridge's statement has no condition, as in AWS's own instructions for an SNS target.
    """
    return _document(
        [
            {
                "Effect": "Allow",
                "Principal": {"Service": list(services)},
                "Action": "sns:Publish",
                "Resource": topic_arn,
                "Condition": {"StringEquals": {"aws:SourceAccount": account_id}},
            },
            {
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sns:Publish",
                "Resource": topic_arn,
            },
        ]
    )


def s3_folders(reads: Sequence[str], writes: Sequence[str]) -> str:
    """A policy that reads the `s3://bucket/prefix` folders of both, writes those of `writes`, and nothing else."""
    folders = [uri.removeprefix("s3://").rstrip("/") for uri in dict.fromkeys((*reads, *writes))]
    statements: list[dict[str, Any]] = [
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject"],
            "Resource": [f"arn:aws:s3:::{folder}/*" for folder in folders],
        },
        {
            "Effect": "Allow",
            # Of the whole bucket: without it S3 answers 403 instead of 404 for an object that is not there yet.
            "Action": ["s3:ListBucket"],
            "Resource": list(dict.fromkeys(f"arn:aws:s3:::{folder.partition('/')[0]}" for folder in folders)),
        },
    ]
    if writes:
        statements.append(
            {
                "Effect": "Allow",
                "Action": ["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
                "Resource": [f"arn:aws:s3:::{uri.removeprefix('s3://').rstrip('/')}/*" for uri in writes],
            }
        )
    return _document(statements)


def tls_only(bucket_name: str) -> str:
    """A bucket's policy that refuses everybody who does not speak TLS."""
    arn = f"arn:aws:s3:::{bucket_name}"
    return _document(
        [
            {
                "Effect": "Deny",
                "Principal": "*",
                "Action": "s3:*",
                "Resource": [arn, f"{arn}/*"],
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            }
        ]
    )


def _document(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})
