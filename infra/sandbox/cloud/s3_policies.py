"""Bucket policies that refuse plain HTTP: every caller of the simulated S3 counts as one that speaks TLS."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# moto's classes are untyped.

import json
from typing import Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket


def install() -> None:
    """Leave those statements out; moto takes a denial whose condition it cannot weigh for one that holds."""
    bucket: Any = FakeBucket

    def get_permission(self: Any, action: str, resource: str) -> Any:
        if self.policy is None:
            return PermissionResult.NEUTRAL
        document: dict[str, Any] = json.loads(self.policy)
        given: Any = document["Statement"]
        statements: list[dict[str, Any]] = given if isinstance(given, list) else [given]
        held = [one for one in statements if not _plain_only(one)]
        policy = json.dumps({**document, "Statement": held})
        return IAMPolicy(policy).is_action_permitted(action, resource)

    bucket.get_permission = get_permission


def _plain_only(statement: dict[str, Any]) -> bool:
    """Whether `statement` denies nothing but requests without TLS."""
    return statement.get("Effect") == "Deny" and statement.get("Condition") == {
        "Bool": {"aws:SecureTransport": "false"}
    }
