"""Who a bearer token of EKS belongs to, and who that is for Kubernetes.

A token is `k8s-aws-v1.` and a presigned STS request. EKS has STS carry it out with the cluster's name as a header; here
the signature is checked against the secrets that the simulated IAM and STS gave out.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's backends are untyped.

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.iam.models import get_account_id_from, iam_backends
from moto.sts.models import sts_backends

from infra.sandbox.cloud.eks.access import CLUSTER_ADMIN_POLICY
from infra.sandbox.cloud.eks.state import AccessEntry, eks_state
from infra.sandbox.cloud.principals import role_or_user_arn, session_name

TOKEN_PREFIX = "k8s-aws-v1."  # noqa: S105, a prefix and no secret
_CLUSTER_HEADER = "x-k8s-aws-id"
# How long EKS takes a token after it was signed, whatever X-Amz-Expires says; and the clock difference it forgives.
_LIFETIME = timedelta(minutes=15)
_CLOCK_SKEW = timedelta(minutes=5)
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()

# Pairs that people export for a sandbox; a key that is neither here nor the simulated IAM's is taken at its word, as
# by moto everywhere else.
SANDBOX_SECRETS: Mapping[str, str] = {"testing": "testing", "test": "test"}


@dataclass(frozen=True)
class Entry:
    """One access entry: the principal, its Kubernetes name and groups, its policies with their namespaces.

    - `policies`: policy ARN and the namespaces of its scope; an empty tuple is the whole cluster.
    """

    principal_arn: str
    username: str
    groups: tuple[str, ...]
    policies: tuple[tuple[str, tuple[str, ...]], ...] = ()


def principal_of_token(token: str, cluster_name: str, wall_time: datetime | None = None) -> str | None:
    """The ARN of who signed the token, as STS GetCallerIdentity answers it; None where the token is not valid.

    - `cluster_name`: the cluster for which it must have been signed.
    - `wall_time`: aware; None is now. Signatures follow the wall clock: clients sign with their machine's time.
    """
    url = _presigned_url(token)
    if url is None:
        return None
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    host = parts.hostname or ""
    is_sts = host.startswith("sts.") and host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
    if not is_sts and host not in ("127.0.0.1", "localhost", "sts.amazonaws.com"):
        return None
    signed_headers = query.get("X-Amz-SignedHeaders", "").split(";")
    if query.get("Action") != "GetCallerIdentity" or not {"host", _CLUSTER_HEADER} <= set(signed_headers):
        return None
    if not _in_time(query.get("X-Amz-Date", ""), wall_time or datetime.now(UTC)):
        return None
    credential = query.get("X-Amz-Credential", "").split("/")
    if len(credential) != 5 or credential[3:] != ["sts", "aws4_request"] or not query.get("X-Amz-Signature"):
        return None
    access_key_id, region = credential[0], credential[2]
    account_id = str(get_account_id_from(access_key_id))
    secret = _secret(access_key_id, account_id)
    if secret is not None:
        expected = _signature(parts.netloc, parts.path, query, signed_headers, cluster_name, secret)
        if not hmac.compare_digest(expected, query["X-Amz-Signature"]):
            return None
    identity: Any = sts_backends[account_id]["aws"]
    return str(identity.get_caller_identity(access_key_id, region)[1])


def kubernetes_user(principal_arn: str, entries: Iterable[Entry]) -> tuple[str, tuple[str, ...]] | None:
    """The Kubernetes user name and groups of a principal, or None where no access entry names it.

    Cluster administration becomes the group `system:masters`. Every other access policy, which EKS evaluates itself,
    becomes the group `eks-access-policy:<policy>` or `eks-access-policy:<policy>:<namespace>`, for RBAC to bind.

    - `principal_arn`: as `principal_of_token` answers it.
    """
    wanted = _comparable(role_or_user_arn(principal_arn))
    for entry in entries:
        if _comparable(entry.principal_arn) != wanted:
            continue
        # Node user names hold the instance's DNS name, which a session of its role is named after in no way; the id is.
        name = entry.username.replace("{{SessionName}}", session_name(principal_arn).replace("@", "-"))
        name = name.replace("{{SessionNameRaw}}", session_name(principal_arn))
        name = name.replace("{{EC2PrivateDNSName}}", session_name(principal_arn))
        groups = [*entry.groups]
        for policy, namespaces in entry.policies:
            if policy == CLUSTER_ADMIN_POLICY and not namespaces:
                groups.append("system:masters")
                continue
            group = f"eks-access-policy:{policy.rsplit('/', 1)[1]}"
            groups += [f"{group}:{namespace}" for namespace in namespaces] or [group]
        return name, tuple(dict.fromkeys([*groups, "system:authenticated"]))
    return None


def access_entries(cluster_name: str, region: str, account_id: str = DEFAULT_ACCOUNT_ID) -> list[Entry]:
    """The access entries of a cluster of this process's simulated cloud; empty where there is no such cluster."""
    cluster = eks_state(account_id, region).clusters.get(cluster_name)
    return [_entry(held) for held in cluster.access_entries.values()] if cluster is not None else []


def _entry(held: AccessEntry) -> Entry:
    policies = tuple(
        (arn, tuple(policy["accessScope"].get("namespaces") or ())) for arn, policy in held.policies.items()
    )
    groups = tuple(held.description["kubernetesGroups"])
    return Entry(held.description["principalArn"], held.description["username"], groups, policies)


def _comparable(arn: str) -> str:
    """The ARN without a role's path, which a session's ARN does not show."""
    head, _, path = arn.rpartition(":")
    return f"{head}:role/{path.rsplit('/', 1)[1]}" if path.startswith("role/") else arn


def _presigned_url(token: str) -> str | None:
    if not token.startswith(TOKEN_PREFIX):
        return None
    encoded = token.removeprefix(TOKEN_PREFIX)
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, ValueError):
        return None


def _in_time(stamp: str, now: datetime) -> bool:
    try:
        signed = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return False
    return signed - _CLOCK_SKEW <= now < signed + _LIFETIME


def _secret(access_key_id: str, account_id: str) -> str | None:
    role: Any = sts_backends[account_id]["aws"].get_assumed_role_from_access_key(access_key_id)
    if role is not None:
        return str(role.secret_access_key)
    key: Any = iam_backends[account_id]["aws"].access_keys.get(access_key_id)
    return str(key.secret_access_key) if key is not None else SANDBOX_SECRETS.get(access_key_id)


def _signature(
    host: str, path: str, query: Mapping[str, str], signed_headers: list[str], cluster_name: str, secret: str
) -> str:
    """AWS's Signature Version 4 of the presigned request."""
    headers = {"host": host, _CLUSTER_HEADER: cluster_name}
    pairs = sorted((_quoted(key), _quoted(value)) for key, value in query.items() if key != "X-Amz-Signature")
    canonical = "\n".join(
        (
            "GET",
            path or "/",
            "&".join(f"{key}={value}" for key, value in pairs),
            *(f"{name}:{headers.get(name, '')}" for name in signed_headers),
            "",
            ";".join(signed_headers),
            _EMPTY_SHA256,
        )
    )
    scope = query["X-Amz-Credential"].split("/", 1)[1]
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = "\n".join(("AWS4-HMAC-SHA256", query["X-Amz-Date"], scope, digest))
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")
