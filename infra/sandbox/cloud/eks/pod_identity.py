"""EKS operations on pod identity associations: which role the pods of a service account get."""

import uuid
from typing import Any

from infra.sandbox.cloud.eks import checks
from infra.sandbox.cloud.eks.call import Call
from infra.sandbox.cloud.eks.errors import in_use, invalid_parameter
from infra.sandbox.cloud.eks.state import Cluster, Description

_SUMMARY = ("clusterName", "namespace", "serviceAccount", "associationArn", "associationId", "ownerArn")


def create_pod_identity_association(call: Call) -> Description:
    """CreatePodIdentityAssociation."""
    cluster = call.cluster()
    association = associate(
        call, cluster, call.text("namespace"), call.text("serviceAccount"), call.text("roleArn"), None
    )
    for key in ("disableSessionTags", "targetRoleArn", "policy"):
        if call.parameters.get(key) is not None:
            association[key] = call.parameters[key]
    association["tags"] = call.mapping("tags")
    return {"association": association}


def describe_pod_identity_association(call: Call) -> Description:
    """DescribePodIdentityAssociation."""
    return {"association": call.cluster().association(call.text("associationId"))}


def list_pod_identity_associations(call: Call) -> Description:
    """ListPodIdentityAssociations, all or those of a namespace or a service account."""
    found = [
        {key: association[key] for key in _SUMMARY if key in association}
        for association in call.cluster().associations.values()
        if call.optional("namespace") in (None, association["namespace"])
        and call.optional("serviceAccount") in (None, association["serviceAccount"])
    ]
    return {"associations": found}


def update_pod_identity_association(call: Call) -> Description:
    """UpdatePodIdentityAssociation."""
    association = call.cluster().association(call.text("associationId"))
    _not_owned(association)
    role_arn = call.optional("roleArn")
    if role_arn:
        checks.role(call.state, role_arn, "pods.eks.amazonaws.com")
    changes: dict[str, Any] = {
        key: call.parameters[key]
        for key in ("roleArn", "disableSessionTags", "targetRoleArn", "policy")
        if call.parameters.get(key) is not None
    }
    association.update(changes, modifiedAt=call.now)
    return {"association": association}


def delete_pod_identity_association(call: Call) -> Description:
    """DeletePodIdentityAssociation."""
    cluster = call.cluster()
    association = cluster.association(call.text("associationId"))
    _not_owned(association)
    return {"association": cluster.associations.pop(association["associationId"])}


def associate(
    call: Call, cluster: Cluster, namespace: str, service_account: str, role_arn: str, owner_arn: str | None
) -> Description:
    """Add an association; raises ResourceInUseException where the service account has one.

    - `owner_arn`: the add-on that owns it, or None.
    """
    checks.role(call.state, role_arn, "pods.eks.amazonaws.com")
    for held in cluster.associations.values():
        if (held["namespace"], held["serviceAccount"]) == (namespace, service_account):
            message = f"Association already exists: {held['associationId']}"
            raise in_use(message, clusterName=cluster.name)
    identifier = "a-" + uuid.uuid4().hex[:17]
    association: Description = {
        "clusterName": cluster.name,
        "namespace": namespace,
        "serviceAccount": service_account,
        "roleArn": role_arn,
        "associationId": identifier,
        "associationArn": call.state.arn("podidentityassociation", cluster.name, identifier),
        "tags": {},
        "createdAt": call.now,
        "modifiedAt": call.now,
    }
    if owner_arn is not None:
        association["ownerArn"] = owner_arn
    cluster.associations[identifier] = association
    return association


def dissociate(cluster: Cluster, owner_arn: str) -> None:
    """Remove every association that the add-on owns."""
    for identifier, association in list(cluster.associations.items()):
        if association.get("ownerArn") == owner_arn:
            del cluster.associations[identifier]


def _not_owned(association: Description) -> None:
    if "ownerArn" in association:
        raise invalid_parameter(
            f"Association {association['associationId']} is owned by {association['ownerArn']}; change it there",
            clusterName=association["clusterName"],
        )
