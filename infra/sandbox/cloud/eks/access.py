"""EKS operations on access entries and access policies."""

import uuid
from typing import Any

from infra.sandbox.cloud.eks import checks
from infra.sandbox.cloud.eks.call import Call
from infra.sandbox.cloud.eks.errors import in_use, invalid_parameter, invalid_request
from infra.sandbox.cloud.eks.state import AccessEntry, Cluster, Description
from infra.sandbox.cloud.principals import role_or_user_arn

CLUSTER_ADMIN_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
ACCESS_POLICIES: tuple[str, ...] = tuple(
    f"arn:aws:eks::aws:cluster-access-policy/{name}"
    for name in (
        "AmazonEKSAdminPolicy",
        "AmazonEKSAdminViewPolicy",
        "AmazonEKSClusterAdminPolicy",
        "AmazonEKSEditPolicy",
        "AmazonEKSSecretReaderPolicy",
        "AmazonEKSViewPolicy",
    )
)
_NODE_TYPES = ("EC2_LINUX", "EC2_WINDOWS", "EC2", "FARGATE_LINUX", "HYBRID_LINUX", "HYPERPOD_LINUX")
_NODE_USERNAME = "system:node:{{EC2PrivateDNSName}}"


def create_access_entry(call: Call) -> Description:
    """CreateAccessEntry."""
    cluster = _with_entries(call)
    principal, kind = call.text("principalArn"), call.optional("type") or "STANDARD"
    if principal in cluster.access_entries:
        message = "The specified access entry resource is already in use on this cluster."
        raise in_use(message, clusterName=cluster.name)
    if ":iam::" not in principal or principal.rsplit(":", 1)[-1].split("/")[0] not in ("role", "user", "root"):
        raise invalid_parameter(
            f"The specified principalArn is invalid: invalid principal {principal}", clusterName=cluster.name
        )
    if principal.rsplit(":", 1)[-1].startswith("role/"):
        checks.role(call.state, principal)
    if kind != "STANDARD" and (call.parameters.get("kubernetesGroups") or call.parameters.get("username")):
        raise invalid_parameter(
            f"kubernetesGroups and username cannot be set for type {kind}", clusterName=cluster.name
        )
    groups = call.texts("kubernetesGroups")
    _no_system_groups(cluster, groups)
    username = call.optional("username") or _usual_username(principal, kind)
    return {"accessEntry": _add(call, cluster, principal, kind, username, groups).description}


def describe_access_entry(call: Call) -> Description:
    """DescribeAccessEntry."""
    return {"accessEntry": call.cluster().access_entry(call.text("principalArn")).description}


def list_access_entries(call: Call) -> Description:
    """ListAccessEntries, all or those with one associated policy."""
    wanted = call.optional("associatedPolicyArn")
    entries = call.cluster().access_entries.items()
    return call.page("accessEntries", sorted(arn for arn, entry in entries if wanted in (None, *entry.policies)))


def update_access_entry(call: Call) -> Description:
    """UpdateAccessEntry."""
    cluster = call.cluster()
    entry = cluster.access_entry(call.text("principalArn"))
    if "kubernetesGroups" in call.parameters:
        groups = call.texts("kubernetesGroups")
        _no_system_groups(cluster, groups)
        entry.description["kubernetesGroups"] = groups
    entry.description["username"] = call.optional("username") or entry.description["username"]
    entry.description["modifiedAt"] = call.now
    return {"accessEntry": entry.description}


def delete_access_entry(call: Call) -> Description:
    """DeleteAccessEntry."""
    cluster = call.cluster()
    cluster.access_entry(call.text("principalArn"))
    del cluster.access_entries[call.text("principalArn")]
    return {}


def associate_access_policy(call: Call) -> Description:
    """AssociateAccessPolicy; a second association of the same policy replaces its scope."""
    cluster = call.cluster()
    entry = cluster.access_entry(call.text("principalArn"))
    policy, scope = call.text("policyArn"), call.mapping("accessScope")
    if policy not in ACCESS_POLICIES:
        raise invalid_parameter(f"The policyArn parameter format is not valid: {policy}", clusterName=cluster.name)
    if entry.description["type"] != "STANDARD":
        raise invalid_request("Access policies can only be associated with STANDARD entries", clusterName=cluster.name)
    if (scope.get("type") == "namespace") != bool(scope.get("namespaces")):
        message = "A scope of type namespace needs namespaces, and one of type cluster takes none"
        raise invalid_parameter(message, clusterName=cluster.name)
    _associate(call, entry, policy, scope)
    answer = {"clusterName": cluster.name, "principalArn": call.text("principalArn")}
    return {**answer, "associatedAccessPolicy": entry.policies[policy]}


def disassociate_access_policy(call: Call) -> Description:
    """DisassociateAccessPolicy."""
    entry = call.cluster().access_entry(call.text("principalArn"))
    if entry.policies.pop(call.text("policyArn"), None) is None:
        raise invalid_request(f"The policy {call.text('policyArn')} is not associated with this access entry")
    return {}


def list_associated_access_policies(call: Call) -> Description:
    """ListAssociatedAccessPolicies."""
    cluster = call.cluster()
    policies = list(cluster.access_entry(call.text("principalArn")).policies.values())
    answer: Description = {"clusterName": cluster.name, "principalArn": call.text("principalArn")}
    return {**answer, "associatedAccessPolicies": policies}


def list_access_policies(_call: Call) -> Description:
    """ListAccessPolicies."""
    return {"accessPolicies": [{"name": arn.rsplit("/", 1)[1], "arn": arn} for arn in ACCESS_POLICIES]}


def bootstrap_creator(call: Call, cluster: Cluster) -> None:
    """Give who creates the cluster an entry with cluster administration, as EKS does when asked to."""
    principal = role_or_user_arn(call.caller_arn)
    entry = _add(call, cluster, principal, "STANDARD", _usual_username(principal, "STANDARD"), [])
    _associate(call, entry, CLUSTER_ADMIN_POLICY, {"type": "cluster", "namespaces": []})


def admit_nodes(call: Call, cluster: Cluster, role_arn: str) -> None:
    """Give a node group's role the entry that EKS makes for it, unless there is one."""
    if cluster.description["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
        return
    if role_arn not in cluster.access_entries:
        _add(call, cluster, role_arn, "EC2_LINUX", _NODE_USERNAME, ["system:nodes"])


def _add(call: Call, cluster: Cluster, principal: str, kind: str, username: str, groups: list[str]) -> AccessEntry:
    if kind in _NODE_TYPES:
        groups = ["system:nodes"]
    path = principal.rsplit(":", 1)[1]
    entry = AccessEntry(
        {
            "clusterName": cluster.name,
            "principalArn": principal,
            "kubernetesGroups": groups,
            "accessEntryArn": call.state.arn("access-entry", cluster.name, path, str(uuid.uuid4())),
            "createdAt": call.now,
            "modifiedAt": call.now,
            "tags": call.mapping("tags") if call.parameters.get("principalArn") == principal else {},
            "username": username,
            "type": kind,
        }
    )
    cluster.access_entries[principal] = entry
    return entry


def _associate(call: Call, entry: AccessEntry, policy: str, scope: dict[str, Any]) -> None:
    first = entry.policies.get(policy, {}).get("associatedAt", call.now)
    scope = {"namespaces": [], **scope}
    entry.policies[policy] = {
        "policyArn": policy,
        "accessScope": scope,
        "associatedAt": first,
        "modifiedAt": call.now,
    }


def _with_entries(call: Call) -> Cluster:
    cluster = call.cluster()
    if cluster.description["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
        raise invalid_request(
            "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this "
            "operation.",
            clusterName=cluster.name,
        )
    return cluster


def _no_system_groups(cluster: Cluster, groups: list[str]) -> None:
    if any(group.startswith("system:") for group in groups):
        raise invalid_parameter("The kubernetes group name must not begin with system:", clusterName=cluster.name)


def _usual_username(principal: str, kind: str) -> str:
    if kind in _NODE_TYPES:
        return _NODE_USERNAME
    account, path = principal.split(":")[4], principal.rsplit(":", 1)[1]
    if path.startswith("role/"):
        return f"arn:aws:sts::{account}:assumed-role/{path.rsplit('/', 1)[1]}/{{{{SessionName}}}}"
    return principal
