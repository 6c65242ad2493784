"""Who and what may do something in a cluster: add-ons, pod identities, access entries and their policies."""

from collections.abc import Mapping
from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.eks_type import EksType, issues, own_tags, split_id
from infra.sandbox.aws_resources.errors import AwsResourceError
from infra.sandbox.aws_resources.properties import Properties, Shape, changed, listed, picked, same


class Addon(EksType):
    """A part of the cluster's own software at a pinned version."""

    token = "aws:eks/addon:Addon"
    label = "EKS Add-On"
    inputs: ClassVar[Shape] = {
        **dict.fromkeys(
            (
                "addonName",
                "addonVersion",
                "clusterName",
                "configurationValues",
                "preserve",
                "resolveConflictsOnCreate",
                "resolveConflictsOnUpdate",
                "serviceAccountRoleArn",
                "tags",
            )
        ),
        "podIdentityAssociations": dict.fromkeys(("roleArn", "serviceAccount")),
    }
    required = ("addonName", "clusterName")
    computed = ("arn", "createdAt", "tagsAll")
    volatile = ("modifiedAt",)
    replace_on = frozenset({"addonName", "clusterName"})
    fixed_identity = True

    def _identity(self, name: str, inputs: Properties) -> str:
        return f"{inputs.get('clusterName')}:{inputs.get('addonName')}"

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        request = picked(
            inputs,
            "addonName",
            "addonVersion",
            "clusterName",
            "configurationValues",
            "podIdentityAssociations",
            "serviceAccountRoleArn",
            resolveConflictsOnCreate="resolveConflicts",
            tagsAll="tags",
        )
        clients.client("eks").create_addon(**request)
        return f"{inputs['clusterName']}:{inputs['addonName']}"

    def _found(self, clients: AwsClients, resource_id: str) -> Any:
        cluster, name = split_id(resource_id)
        return clients.client("eks").describe_addon(clusterName=cluster, addonName=name)["addon"]

    def _settle(self, clients: AwsClients, resource_id: str, inputs: Properties) -> None:
        def active() -> bool:
            found = self._found(clients, resource_id)
            if found["status"] in ("CREATE_FAILED", "UPDATE_FAILED", "DEGRADED"):
                raise AwsResourceError(f"EKS Add-On ({resource_id}) is in status {found['status']}: {issues(found)}")
            return found["status"] == "ACTIVE"

        clients.wait(f"EKS Add-On ({resource_id}) to be ACTIVE", active)

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        sent = ("addonVersion", "configurationValues", "podIdentityAssociations", "serviceAccountRoleArn")
        if not changed(old, new, *sent):
            return
        cluster, name = split_id(resource_id)
        request = picked(new, *sent, resolveConflictsOnUpdate="resolveConflicts")
        if changed(old, new, "podIdentityAssociations"):
            request["podIdentityAssociations"] = listed(new, "podIdentityAssociations")
        answer = clients.client("eks").update_addon(clusterName=cluster, addonName=name, **request)
        self._await_update(clients, answer, name=cluster, addonName=name)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = self._found(clients, resource_id)
        live = {
            "addonName": found["addonName"],
            "addonVersion": found["addonVersion"],
            "arn": found["addonArn"],
            "clusterName": found["clusterName"],
            "configurationValues": found.get("configurationValues") or None,
            "createdAt": found["createdAt"].isoformat(),
            "modifiedAt": found["modifiedAt"].isoformat(),
            "serviceAccountRoleArn": found.get("serviceAccountRoleArn") or None,
            "tagsAll": own_tags(found.get("tags")),
        }
        if "podIdentityAssociations" in state:
            live["podIdentityAssociations"] = self._pod_identities(clients, found)
        return live

    def _pod_identities(self, clients: AwsClients, found: Any) -> list[Properties]:
        """The associations the add-on owns; EKS names them by ARN only."""
        eks = clients.client("eks")
        owned: list[Properties] = []
        for arn in listed(found, "podIdentityAssociations"):
            answer = eks.describe_pod_identity_association(
                clusterName=found["clusterName"], associationId=str(arn).rsplit("/", 1)[-1]
            )
            owned.append(picked(answer["association"], "roleArn", "serviceAccount"))
        return owned

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        cluster, name = split_id(resource_id)
        if self._found(clients, resource_id)["status"] != "DELETING":
            preserve = bool(state.get("preserve", False))
            clients.client("eks").delete_addon(clusterName=cluster, addonName=name, preserve=preserve)


class PodIdentityAssociation(EksType):
    """The role that pods of one service account have."""

    token = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
    label = "EKS Pod Identity Association"
    inputs: ClassVar[Shape] = dict.fromkeys(
        ("clusterName", "namespace", "serviceAccount", "roleArn", "targetRoleArn", "disableSessionTags", "tags")
    )
    required = ("clusterName", "namespace", "serviceAccount", "roleArn")
    computed = ("associationArn", "associationId", "tagsAll")
    replace_on = frozenset({"clusterName", "namespace", "serviceAccount"})
    fixed_identity = True
    arn_key = "associationArn"

    def _identity(self, name: str, inputs: Properties) -> str:
        return f"{inputs.get('clusterName')}:{inputs.get('namespace')}/{inputs.get('serviceAccount')}"

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        sent = ("clusterName", "namespace", "serviceAccount", "roleArn", "targetRoleArn", "disableSessionTags")
        request = picked(inputs, *sent, tagsAll="tags")
        answer = clients.client("eks").create_pod_identity_association(**request)
        return str(answer["association"]["associationId"])

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        clients.client("eks").update_pod_identity_association(
            clusterName=new["clusterName"],
            associationId=resource_id,
            **picked(new, "roleArn", "targetRoleArn", "disableSessionTags"),
        )

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        answer = clients.client("eks").describe_pod_identity_association(
            clusterName=state["clusterName"], associationId=resource_id
        )
        found = answer["association"]
        return {
            **picked(found, "associationArn", "associationId", "clusterName", "namespace", "serviceAccount", "roleArn"),
            "disableSessionTags": bool(found.get("disableSessionTags")),
            "tagsAll": own_tags(found.get("tags")),
            "targetRoleArn": found.get("targetRoleArn"),
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("eks").delete_pod_identity_association(
            clusterName=state["clusterName"], associationId=resource_id
        )


class AccessEntry(EksType):
    """A role or user that the cluster's API server knows."""

    token = "aws:eks/accessEntry:AccessEntry"
    label = "EKS Access Entry"
    inputs: ClassVar[Shape] = dict.fromkeys(
        ("clusterName", "principalArn", "kubernetesGroups", "type", "userName", "tags")
    )
    required = ("clusterName", "principalArn")
    defaults: ClassVar[Mapping[str, Any]] = {"type": "STANDARD"}
    computed = ("accessEntryArn", "createdAt", "tagsAll")
    volatile = ("modifiedAt",)
    replace_on = frozenset({"clusterName", "principalArn", "type"})
    fixed_identity = True
    arn_key = "accessEntryArn"

    def _identity(self, name: str, inputs: Properties) -> str:
        return f"{inputs.get('clusterName')}:{inputs.get('principalArn')}"

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        sent = ("clusterName", "principalArn", "kubernetesGroups", "type")
        clients.client("eks").create_access_entry(**picked(inputs, *sent, userName="username", tagsAll="tags"))
        return f"{inputs['clusterName']}:{inputs['principalArn']}"

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        cluster, principal = split_id(resource_id)
        clients.client("eks").update_access_entry(
            clusterName=cluster,
            principalArn=principal,
            kubernetesGroups=listed(new, "kubernetesGroups"),
            **picked(new, userName="username"),
        )

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        cluster, principal = split_id(resource_id)
        found = clients.client("eks").describe_access_entry(clusterName=cluster, principalArn=principal)["accessEntry"]
        return {
            "accessEntryArn": found["accessEntryArn"],
            "clusterName": cluster,
            "createdAt": found["createdAt"].isoformat(),
            "kubernetesGroups": listed(found, "kubernetesGroups"),
            "modifiedAt": found["modifiedAt"].isoformat(),
            "principalArn": principal,
            "tagsAll": own_tags(found.get("tags")),
            "type": found["type"],
            "userName": found.get("username"),
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        cluster, principal = split_id(resource_id)
        clients.client("eks").delete_access_entry(clusterName=cluster, principalArn=principal)


class AccessPolicyAssociation(EksType):
    """What an access entry may do."""

    token = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
    label = "EKS Access Policy Association"
    inputs: ClassVar[Shape] = {
        **dict.fromkeys(("clusterName", "principalArn", "policyArn")),
        "accessScope": dict.fromkeys(("type", "namespaces")),
    }
    required = ("clusterName", "principalArn", "policyArn", "accessScope")
    computed = ("associatedAt", "modifiedAt")
    replace_on = frozenset({"clusterName", "principalArn", "policyArn", "accessScope"})
    fixed_identity = True

    def _identity(self, name: str, inputs: Properties) -> str:
        return "#".join(str(inputs.get(key)) for key in ("clusterName", "principalArn", "policyArn"))

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        request = picked(inputs, "clusterName", "principalArn", "policyArn", "accessScope")
        clients.client("eks").associate_access_policy(**request)
        return self._identity("", inputs)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        cluster, principal, policy = resource_id.split("#")
        answer = clients.client("eks").list_associated_access_policies(clusterName=cluster, principalArn=principal)
        for found in answer["associatedAccessPolicies"]:
            if same(found["policyArn"], policy):
                return {
                    "accessScope": picked(found["accessScope"], "type", "namespaces"),
                    "associatedAt": found["associatedAt"].isoformat(),
                    "clusterName": cluster,
                    "modifiedAt": found["modifiedAt"].isoformat(),
                    "policyArn": policy,
                    "principalArn": principal,
                }
        return None

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        # EKS refuses to take away what isn't there with the same code as a wrong request.
        if self._live(clients, resource_id, state) is None:
            return
        cluster, principal, policy = resource_id.split("#")
        clients.client("eks").disassociate_access_policy(clusterName=cluster, principalArn=principal, policyArn=policy)
