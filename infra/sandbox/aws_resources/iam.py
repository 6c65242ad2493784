"""IAM roles and policies."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from botocore.exceptions import ClientError

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import tag_list, tag_map, unless_gone
from infra.sandbox.aws_resources.errors import is_gone
from infra.sandbox.aws_resources.properties import Properties, Shape, changed, is_unknown, listed, nested, picked
from infra.sandbox.aws_resources.resource import ResourceType

_LONGEST_HISTORY = 5


def _document(value: Any) -> str:
    """A policy document as compact JSON text; boto3 hands it out parsed."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def invalid_json(inputs: Properties, key: str) -> list[tuple[str, str]]:
    """The fault of a policy at `key` that is no JSON object, or nothing."""
    value = inputs.get(key)
    if not isinstance(value, str) or is_unknown(value):
        return []
    try:
        parsed = json.loads(value)
    except ValueError as error:
        return [(key, f"{key} contains an invalid JSON policy: {error}")]
    return [] if isinstance(parsed, dict) else [(key, f"{key} contains an invalid JSON policy: it is not an object")]


class Role(ResourceType):
    """An identity that AWS services and pods take on."""

    token = "aws:iam/role:Role"
    service = "IAM"
    label = "IAM Role"
    inputs: ClassVar[Shape] = dict.fromkeys(
        (
            "name",
            "assumeRolePolicy",
            "description",
            "forceDetachPolicies",
            "managedPolicyArns",
            "maxSessionDuration",
            "path",
            "permissionsBoundary",
            "tags",
        )
    )
    required = ("assumeRolePolicy",)
    defaults: ClassVar[Mapping[str, Any]] = {"path": "/", "maxSessionDuration": 3600, "forceDetachPolicies": False}
    computed = ("arn", "uniqueId", "createDate", "tagsAll")
    replace_on = frozenset({"path"})
    name_key = "name"

    def _invalid(self, inputs: Properties) -> list[tuple[str, str]]:
        return invalid_json(inputs, "assumeRolePolicy")

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        names = picked(
            inputs,
            name="RoleName",
            assumeRolePolicy="AssumeRolePolicyDocument",
            description="Description",
            maxSessionDuration="MaxSessionDuration",
            path="Path",
            permissionsBoundary="PermissionsBoundary",
        )
        made = clients.client("iam").create_role(**names, Tags=tag_list(inputs.get("tagsAll")))["Role"]
        self._attach(clients, made["RoleName"], [], listed(inputs, "managedPolicyArns"))
        return str(made["RoleName"])

    def _attach(self, clients: AwsClients, role: str, before: list[str], after: list[str]) -> None:
        iam = clients.client("iam")
        for arn in after:
            if arn not in before:
                iam.attach_role_policy(RoleName=role, PolicyArn=arn)
        for arn in before:
            if arn not in after:
                unless_gone(lambda arn=arn: iam.detach_role_policy(RoleName=role, PolicyArn=arn))

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        iam = clients.client("iam")
        if changed(old, new, "assumeRolePolicy"):
            iam.update_assume_role_policy(RoleName=resource_id, PolicyDocument=new["assumeRolePolicy"])
        if changed(old, new, "description", "maxSessionDuration"):
            iam.update_role(
                RoleName=resource_id,
                Description=new.get("description", ""),
                MaxSessionDuration=new.get("maxSessionDuration", 3600),
            )
        if changed(old, new, "permissionsBoundary"):
            if new.get("permissionsBoundary"):
                iam.put_role_permissions_boundary(RoleName=resource_id, PermissionsBoundary=new["permissionsBoundary"])
            else:
                iam.delete_role_permissions_boundary(RoleName=resource_id)
        self._attach(clients, resource_id, listed(old, "managedPolicyArns"), listed(new, "managedPolicyArns"))

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        iam = clients.client("iam")
        if put:
            iam.tag_role(RoleName=resource_id, Tags=tag_list(put))
        if drop:
            iam.untag_role(RoleName=resource_id, TagKeys=drop)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        iam = clients.client("iam")
        found = iam.get_role(RoleName=resource_id)["Role"]
        live = {
            "arn": found["Arn"],
            "assumeRolePolicy": _document(found["AssumeRolePolicyDocument"]),
            "createDate": found["CreateDate"].isoformat(),
            "description": found.get("Description") or None,
            "maxSessionDuration": found.get("MaxSessionDuration", 3600),
            "name": found["RoleName"],
            "path": found["Path"],
            "permissionsBoundary": nested(found, "PermissionsBoundary").get("PermissionsBoundaryArn"),
            "tagsAll": tag_map(found.get("Tags")),
            "uniqueId": found["RoleId"],
        }
        if "managedPolicyArns" in state:
            attached = iam.list_attached_role_policies(RoleName=resource_id)["AttachedPolicies"]
            live["managedPolicyArns"] = [policy["PolicyArn"] for policy in attached]
        return live

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        iam = clients.client("iam")
        attached = [
            policy["PolicyArn"] for policy in iam.list_attached_role_policies(RoleName=resource_id)["AttachedPolicies"]
        ]
        ours = set(attached) if state.get("forceDetachPolicies") else set(listed(state, "managedPolicyArns"))
        for arn in attached:
            if arn in ours:
                iam.detach_role_policy(RoleName=resource_id, PolicyArn=arn)
        if state.get("forceDetachPolicies"):
            for name in iam.list_role_policies(RoleName=resource_id)["PolicyNames"]:
                iam.delete_role_policy(RoleName=resource_id, PolicyName=name)
        iam.delete_role(RoleName=resource_id)


class RolePolicy(ResourceType):
    """A policy that belongs to one role."""

    token = "aws:iam/rolePolicy:RolePolicy"
    service = "IAM"
    label = "IAM Role Policy"
    inputs: ClassVar[Shape] = dict.fromkeys(("name", "role", "policy"))
    required = ("role", "policy")
    replace_on = frozenset({"role"})
    name_key = "name"

    def _invalid(self, inputs: Properties) -> list[tuple[str, str]]:
        return invalid_json(inputs, "policy")

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        resource_id = f"{inputs['role']}:{inputs['name']}"
        self._update(clients, resource_id, {}, inputs)
        return resource_id

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        names = picked(new, role="RoleName", name="PolicyName", policy="PolicyDocument")
        clients.client("iam").put_role_policy(**names)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        role, name = resource_id.split(":", 1)
        found = clients.client("iam").get_role_policy(RoleName=role, PolicyName=name)
        return {"role": role, "name": name, "policy": _document(found["PolicyDocument"])}

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        role, name = resource_id.split(":", 1)
        clients.client("iam").delete_role_policy(RoleName=role, PolicyName=name)


class RolePolicyAttachment(ResourceType):
    """A policy of its own, attached to a role."""

    token = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
    service = "IAM"
    label = "IAM Role Policy Attachment"
    inputs: ClassVar[Shape] = dict.fromkeys(("role", "policyArn"))
    required = ("role", "policyArn")
    replace_on = frozenset({"role", "policyArn"})

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        clients.client("iam").attach_role_policy(RoleName=inputs["role"], PolicyArn=inputs["policyArn"])
        return f"{inputs['role']}/{inputs['policyArn']}"

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        role, arn = resource_id.split("/", 1)
        for page in clients.client("iam").get_paginator("list_attached_role_policies").paginate(RoleName=role):
            if any(policy["PolicyArn"] == arn for policy in page["AttachedPolicies"]):
                return {"role": role, "policyArn": arn}
        return None

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        role, arn = resource_id.split("/", 1)
        clients.client("iam").detach_role_policy(RoleName=role, PolicyArn=arn)


class Policy(ResourceType):
    """A policy that several roles can share; an update makes a new default version."""

    token = "aws:iam/policy:Policy"
    service = "IAM"
    label = "IAM Policy"
    inputs: ClassVar[Shape] = dict.fromkeys(("name", "description", "path", "policy", "tags"))
    required = ("policy",)
    defaults: ClassVar[Mapping[str, Any]] = {"path": "/"}
    computed = ("arn", "policyId", "tagsAll")
    replace_on = frozenset({"description", "path"})
    name_key = "name"

    def _invalid(self, inputs: Properties) -> list[tuple[str, str]]:
        return invalid_json(inputs, "policy")

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        names = picked(inputs, name="PolicyName", policy="PolicyDocument", description="Description", path="Path")
        made = clients.client("iam").create_policy(**names, Tags=tag_list(inputs.get("tagsAll")))
        return str(made["Policy"]["Arn"])

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        iam = clients.client("iam")
        versions = iam.list_policy_versions(PolicyArn=resource_id)["Versions"]
        if len(versions) >= _LONGEST_HISTORY:
            oldest = min((one for one in versions if not one["IsDefaultVersion"]), key=lambda one: one["CreateDate"])
            iam.delete_policy_version(PolicyArn=resource_id, VersionId=oldest["VersionId"])
        iam.create_policy_version(PolicyArn=resource_id, PolicyDocument=new["policy"], SetAsDefault=True)

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        iam = clients.client("iam")
        if put:
            iam.tag_policy(PolicyArn=resource_id, Tags=tag_list(put))
        if drop:
            iam.untag_policy(PolicyArn=resource_id, TagKeys=drop)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        iam = clients.client("iam")
        found = iam.get_policy(PolicyArn=resource_id)["Policy"]
        version = iam.get_policy_version(PolicyArn=resource_id, VersionId=found["DefaultVersionId"])["PolicyVersion"]
        return {
            "arn": resource_id,
            "description": found.get("Description") or None,
            "name": found["PolicyName"],
            "path": found["Path"],
            "policy": _document(version["Document"]),
            "policyId": found["PolicyId"],
            "tagsAll": tag_map(found.get("Tags")),
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        iam = clients.client("iam")
        try:
            versions = iam.list_policy_versions(PolicyArn=resource_id)["Versions"]
        except ClientError as error:
            if is_gone(error):
                return
            raise
        for version in versions:
            if not version["IsDefaultVersion"]:
                iam.delete_policy_version(PolicyArn=resource_id, VersionId=version["VersionId"])
        iam.delete_policy(PolicyArn=resource_id)
