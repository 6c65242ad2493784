"""The bearer token that EKS accepts: a presigned STS request, signed on this machine without any network call."""

import base64
from typing import Any, cast

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest

from serving.errors import DormouseError

TOKEN_LIFETIME_S = 15 * 60
"""How long EKS accepts a token after it was signed, in seconds."""

_CLUSTER_HEADER = "x-k8s-aws-id"
_PREFIX = "k8s-aws-v1."
# What every EKS client signs with; the API server takes the token for 15 minutes regardless.
_SIGNED_EXPIRY_S = 60


def eks_token(session_or_client: Any, cluster_name: str, region: str) -> str:
    """A token for the cluster, valid for 15 minutes.

    - `session_or_client`: a boto3 or botocore session, or any boto3 client whose credentials shall be used.
    - `cluster_name`: the EKS cluster; a token for one cluster is refused by every other.
    - `region`: whose STS endpoint is asked by the API server, such as `us-east-2`.

    Raises DormouseError where there are no credentials.
    """
    credentials = _credentials(session_or_client)
    if credentials is None:
        raise DormouseError(
            f"no AWS credentials to sign a token for cluster {cluster_name}; set AWS_PROFILE, sign in with "
            "`aws sso login`, or run on a machine with a role"
        )
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    request = AWSRequest(
        method="GET",
        url=f"https://sts.{region}.{suffix}/?Action=GetCallerIdentity&Version=2011-06-15",
        headers={_CLUSTER_HEADER: cluster_name},
    )
    SigV4QueryAuth(credentials.get_frozen_credentials(), "sts", region, expires=_SIGNED_EXPIRY_S).add_auth(request)
    signed_url = cast("Any", request).url
    return _PREFIX + base64.urlsafe_b64encode(str(signed_url).encode()).decode().rstrip("=")


def _credentials(session_or_client: Any) -> Any:
    # A client keeps what it signs with in its request signer, and offers no public way to it.
    signer: Any = getattr(session_or_client, "_request_signer", None)
    return session_or_client.get_credentials() if signer is None else getattr(signer, "_credentials", None)
