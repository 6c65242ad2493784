"""Kubernetes' TokenReview for a simulated cluster: who the bearer of a token is, and in which groups."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# moto's constants are untyped.

from collections.abc import Mapping
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID

from infra.sandbox.cloud.eks.state import eks_state
from infra.sandbox.cloud.identity import access_entries, kubernetes_user, principal_of_token


def review(body: Mapping[str, Any], cluster_name: str | None, region: str) -> dict[str, Any]:
    """Answer an authentication.k8s.io/v1 TokenReview.

    - `cluster_name`: whose access entries decide; None is the only cluster of the region.

    Raises ValueError where the body is no TokenReview or no cluster can be told.
    """
    token = (body.get("spec") or {}).get("token")
    if body.get("kind") != "TokenReview" or not isinstance(token, str):
        raise ValueError("the body is no TokenReview with spec.token")
    if cluster_name is None:
        clusters = list(eks_state(DEFAULT_ACCOUNT_ID, region).clusters)
        if len(clusters) != 1:
            raise ValueError(f"{len(clusters)} clusters in {region}; say which with ?cluster=<name>")
        cluster_name = clusters[0]
    principal = principal_of_token(token, cluster_name)
    user = kubernetes_user(principal, access_entries(cluster_name, region)) if principal is not None else None
    status: dict[str, Any] = {"authenticated": False}
    if user is not None:
        name, groups = user
        extra = {"arn": [principal]}
        status = {
            "authenticated": True,
            "user": {"username": name, "uid": principal, "groups": list(groups), "extra": extra},
        }
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}
