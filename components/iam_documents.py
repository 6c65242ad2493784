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
    """A topic policy: `services` may publish on behalf of `account_id`."""
    return _document(
        [
            {
                "Effect": "Allow",
                "Principal": {"Service": list(services)},
                "Action": "sns:Publish",
                "Resource": topic_arn,
                "Condition": {"StringEquals": {"aws:SourceAccount": account_id}},
            }
        ]
    )


def _document(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})
