import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from infra.jobs.eks_token import eks_token
from infra.sandbox.cloud.identity import Entry, kubernetes_user, principal_of_token
from tests.sandbox.cloud.world import REGION, SESSION, World

_MOTO = "arn:aws:iam::123456789012:user/moto"
_PREFIX = "k8s-aws-v1."


def _session(world: World, role_arn: str, name: str) -> boto3.Session:
    given = world.client("sts").assume_role(RoleArn=role_arn, RoleSessionName=name)["Credentials"]
    return boto3.Session(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], REGION)


def _changed(token: str, old: str, new: str) -> str:
    encoded = token.removeprefix(_PREFIX)
    url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    assert old in url
    return _PREFIX + base64.urlsafe_b64encode(url.replace(old, new).encode()).decode().rstrip("=")


def test_a_token_names_its_signer_for_its_cluster_only(world: World) -> None:
    token = eks_token(SESSION, "dev", REGION)
    assert principal_of_token(token, "dev") == _MOTO
    assert principal_of_token(token, "prod") is None
    role = world.role("admin", "ec2.amazonaws.com")
    token = eks_token(_session(world, role, "alice"), "dev", REGION)
    assert principal_of_token(token, "dev") == "arn:aws:sts::123456789012:assumed-role/admin/alice"
    assert principal_of_token(token, "prod") is None


def test_an_iam_users_own_key(world: World) -> None:
    iam = world.client("iam")
    iam.create_user(UserName="bob")
    key = iam.create_access_key(UserName="bob")["AccessKey"]
    session = boto3.Session(key["AccessKeyId"], key["SecretAccessKey"], region_name=REGION)
    assert principal_of_token(eks_token(session, "dev", REGION), "dev") == "arn:aws:iam::123456789012:user/bob"
    forged = boto3.Session(key["AccessKeyId"], "guessed", region_name=REGION)
    assert principal_of_token(eks_token(forged, "dev", REGION), "dev") is None


def test_tokens_end_and_cannot_be_changed(world: World) -> None:
    token = eks_token(SESSION, "dev", REGION)
    now = datetime.now(UTC)
    assert principal_of_token(token, "dev", now + timedelta(minutes=14)) == _MOTO
    assert principal_of_token(token, "dev", now + timedelta(minutes=16)) is None
    assert principal_of_token(token, "dev", now - timedelta(minutes=10)) is None
    for old, new in (
        ("GetCallerIdentity", "GetSessionToken"),
        ("sts.us-east-2.amazonaws.com", "example.com"),
        ("x-k8s-aws-id", "x-other"),
        ("X-Amz-Expires=60", "X-Amz-Expires=61"),
    ):
        assert principal_of_token(_changed(token, old, new), "dev") is None, old
    for text in ("", "k8s-aws-v1.!!", "Bearer x", _PREFIX + "AAAA"):
        assert principal_of_token(text, "dev") is None


@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        (
            "arn:aws:sts::1:assumed-role/admin/alice",
            ("arn:aws:sts::1:assumed-role/admin/alice", ("system:masters", "system:authenticated")),
        ),
        (
            "arn:aws:sts::1:assumed-role/viewer/bob@example.com",
            (
                "viewer:bob-example.com",
                ("team", "eks-access-policy:AmazonEKSViewPolicy:models", "system:authenticated"),
            ),
        ),
        (
            "arn:aws:sts::1:assumed-role/node/i-0123",
            ("system:node:i-0123", ("system:nodes", "system:authenticated")),
        ),
        ("arn:aws:sts::1:assumed-role/nobody/x", None),
        ("arn:aws:iam::1:user/admin", None),
    ],
)
def test_access_entries_make_kubernetes_users(principal: str, expected: Any) -> None:
    policies = "arn:aws:eks::aws:cluster-access-policy/"
    entries = [
        Entry(
            "arn:aws:iam::1:role/path/admin",
            "arn:aws:sts::1:assumed-role/admin/{{SessionName}}",
            (),
            ((policies + "AmazonEKSClusterAdminPolicy", ()),),
        ),
        Entry(
            "arn:aws:iam::1:role/viewer",
            "viewer:{{SessionName}}",
            ("team",),
            ((policies + "AmazonEKSViewPolicy", ("models",)),),
        ),
        Entry("arn:aws:iam::1:role/node", "system:node:{{EC2PrivateDNSName}}", ("system:nodes",)),
    ]
    assert kubernetes_user(principal, entries) == expected


def test_token_reviews_over_http(world: World) -> None:
    world.cluster()
    admin = world.server.admin
    token = eks_token(SESSION, "dev", REGION)
    assert admin.review_token(token, "dev", REGION) == (_MOTO, ["system:masters", "system:authenticated"])
    assert admin.review_token(token, "prod", REGION) is None
    stranger = _session(world, world.role("stranger", "ec2.amazonaws.com"), "eve")
    assert admin.review_token(eks_token(stranger, "dev", REGION), "dev", REGION) is None
    assert admin.review_token("nonsense", "dev", REGION) is None
