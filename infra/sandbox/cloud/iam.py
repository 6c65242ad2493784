"""AWS's managed policies, and who moto says a caller is."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false
# moto's classes are untyped.
# ruff: noqa: SLF001, since moto offers no other way in

import copy
import json
from functools import cache
from typing import Any

from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import AWSManagedPolicy, IAMBackend
from moto.sts.models import STSBackend


@cache
def _managed_policies(account_id: str, region: str) -> list[AWSManagedPolicy]:
    """All of AWS's managed policies; reading the 1,500 of them takes a second, so once in a process."""
    known: dict[str, Any] = json.loads(aws_managed_policies_data)
    return [AWSManagedPolicy.from_data(name, account_id, region, data) for name, data in known.items()]


def install() -> None:
    """Load the managed policies whatever moto's settings say, and name unknown callers as IAM users."""
    identify = STSBackend.get_caller_identity

    def _init_aws_policies(self: Any) -> list[AWSManagedPolicy]:
        # Copies, because each counts its own attachments; nobody may change AWS's documents.
        return [copy.copy(policy) for policy in _managed_policies(str(self.account_id), str(self.region_name))]

    def get_caller_identity(self: Any, access_key_id: str, region: str) -> tuple[str, str, str]:
        user_id, arn, account_id = identify(self, access_key_id, region)
        # moto calls the owner of a key it did not make `arn:aws:sts::…:user/moto`; users are IAM's.
        if arn.split(":")[2] == "sts" and arn.split(":", 5)[5].startswith("user/"):
            arn = arn.replace(":sts:", ":iam:", 1)
        return user_id, arn, account_id

    backend: Any = IAMBackend
    backend._init_aws_policies = _init_aws_policies
    identities: Any = STSBackend
    identities.get_caller_identity = get_caller_identity
