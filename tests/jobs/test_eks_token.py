import base64
from urllib.parse import parse_qs, urlsplit

import boto3
import botocore.session
import pytest

from infra.jobs.eks_token import eks_token
from serving.errors import DormouseError


def decoded(token):
    assert token.startswith("k8s-aws-v1.")
    assert not token.endswith("=")
    raw = token.removeprefix("k8s-aws-v1.")
    url = urlsplit(base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)).decode())
    return url, {name: values[0] for name, values in parse_qs(url.query).items()}


@pytest.fixture
def session():
    return boto3.Session("AKIAEXAMPLE", "secret", "session-token", "us-east-2")


def test_the_token_is_a_signed_question_who_am_i(session):
    url, query = decoded(eks_token(session, "kimi-dev", "us-east-2"))
    assert (url.scheme, url.netloc, url.path) == ("https", "sts.us-east-2.amazonaws.com", "/")
    assert (query["Action"], query["X-Amz-Expires"]) == ("GetCallerIdentity", "60")
    assert query["X-Amz-SignedHeaders"] == "host;x-k8s-aws-id"
    assert query["X-Amz-Credential"].startswith("AKIAEXAMPLE/")
    assert query["X-Amz-Security-Token"] == "session-token"


def test_another_cluster_gets_another_signature(session):
    signatures = {decoded(eks_token(session, name, "us-east-2"))[1]["X-Amz-Signature"] for name in ("a", "b")}
    assert len(signatures) == 2


def test_sessions_and_clients_of_every_kind(session):
    plain = botocore.session.Session()
    plain.set_credentials("AKIAEXAMPLE", "secret", "session-token")
    for given in (session, plain, session.client("eks"), session.client("sts")):
        _, query = decoded(eks_token(given, "kimi-dev", "us-east-2"))
        assert query["X-Amz-Credential"].startswith("AKIAEXAMPLE/")


def test_china_has_its_own_domain(session):
    assert decoded(eks_token(session, "c", "cn-north-1"))[0].netloc == "sts.cn-north-1.amazonaws.com.cn"


def test_without_credentials(monkeypatch):
    class Empty:
        def get_credentials(self):
            return None

    with pytest.raises(DormouseError, match="no AWS credentials to sign a token for cluster kimi-dev"):
        eks_token(Empty(), "kimi-dev", "us-east-2")
