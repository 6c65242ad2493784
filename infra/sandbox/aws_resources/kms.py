"""Encryption keys and their names."""

from collections.abc import Mapping
from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.properties import Properties, Shape, changed, is_unknown, nested, picked
from infra.sandbox.aws_resources.resource import ResourceType


class Key(ResourceType):
    """An encryption key. Deleting it only schedules the deletion, which counts as gone."""

    token = "aws:kms/key:Key"
    service = "KMS"
    label = "KMS Key"
    inputs: ClassVar[Shape] = dict.fromkeys(
        (
            "bypassPolicyLockoutSafetyCheck",
            "customerMasterKeySpec",
            "deletionWindowInDays",
            "description",
            "enableKeyRotation",
            "isEnabled",
            "keyUsage",
            "multiRegion",
            "policy",
            "rotationPeriodInDays",
            "tags",
        )
    )
    defaults: ClassVar[Mapping[str, Any]] = {"description": "Managed by Pulumi", "isEnabled": True}
    computed = ("arn", "keyId", "tagsAll")
    replace_on = frozenset({"customerMasterKeySpec", "keyUsage", "multiRegion"})

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        names = picked(
            inputs,
            bypassPolicyLockoutSafetyCheck="BypassPolicyLockoutSafetyCheck",
            customerMasterKeySpec="KeySpec",
            description="Description",
            keyUsage="KeyUsage",
            multiRegion="MultiRegion",
            policy="Policy",
        )
        tags = [{"TagKey": key, "TagValue": value} for key, value in nested(inputs, "tagsAll").items()]
        resource_id = str(clients.client("kms").create_key(**names, Tags=tags)["KeyMetadata"]["KeyId"])
        self._switch(clients, resource_id, {"isEnabled": True}, inputs)
        return resource_id

    def _switch(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        kms = clients.client("kms")
        if changed(old, new, "enableKeyRotation", "rotationPeriodInDays"):
            if new.get("enableKeyRotation"):
                kms.enable_key_rotation(KeyId=resource_id, **picked(new, rotationPeriodInDays="RotationPeriodInDays"))
            elif old.get("enableKeyRotation"):
                kms.disable_key_rotation(KeyId=resource_id)
        if changed(old, new, "isEnabled"):
            (kms.enable_key if new.get("isEnabled", True) else kms.disable_key)(KeyId=resource_id)

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        kms = clients.client("kms")
        if changed(old, new, "description"):
            kms.update_key_description(KeyId=resource_id, Description=new.get("description", ""))
        if changed(old, new, "policy") and new.get("policy"):
            kms.put_key_policy(KeyId=resource_id, PolicyName="default", Policy=new["policy"])
        self._switch(clients, resource_id, old, new)

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        kms = clients.client("kms")
        if put:
            kms.tag_resource(KeyId=resource_id, Tags=[{"TagKey": key, "TagValue": value} for key, value in put.items()])
        if drop:
            kms.untag_resource(KeyId=resource_id, TagKeys=drop)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        kms = clients.client("kms")
        found = kms.describe_key(KeyId=resource_id)["KeyMetadata"]
        if found["KeyState"] in ("PendingDeletion", "PendingReplicaDeletion"):
            return None
        rotation = kms.get_key_rotation_status(KeyId=resource_id)
        tags = kms.list_resource_tags(KeyId=resource_id).get("Tags") or ()
        rotating = bool(rotation.get("KeyRotationEnabled"))
        live = {
            "arn": found["Arn"],
            "customerMasterKeySpec": found.get("KeySpec") or "SYMMETRIC_DEFAULT",
            "description": found.get("Description") or None,
            "enableKeyRotation": rotating,
            "isEnabled": bool(found["Enabled"]),
            "keyId": resource_id,
            "keyUsage": found.get("KeyUsage") or "ENCRYPT_DECRYPT",
            "multiRegion": bool(found.get("MultiRegion")),
            "policy": kms.get_key_policy(KeyId=resource_id, PolicyName="default")["Policy"],
            "tagsAll": {tag["TagKey"]: tag["TagValue"] for tag in tags},
        }
        if rotating and rotation.get("RotationPeriodInDays"):
            live["rotationPeriodInDays"] = rotation["RotationPeriodInDays"]
        return live

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        days: dict[str, Any] = picked(state, deletionWindowInDays="PendingWindowInDays")
        clients.client("kms").schedule_key_deletion(KeyId=resource_id, **days)


class Alias(ResourceType):
    """A name for a key."""

    token = "aws:kms/alias:Alias"
    service = "KMS"
    label = "KMS Alias"
    inputs: ClassVar[Shape] = dict.fromkeys(("name", "targetKeyId"))
    required = ("targetKeyId",)
    computed = ("arn",)
    volatile = ("targetKeyArn",)
    name_key = "name"
    name_prefix = "alias/"

    def _invalid(self, inputs: Properties) -> list[tuple[str, str]]:
        name = str(inputs["name"])
        if name.startswith("alias/") or is_unknown(name):
            return []
        return [("name", f'name must begin with "alias/": got {name}')]

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        clients.client("kms").create_alias(AliasName=inputs["name"], TargetKeyId=inputs["targetKeyId"])
        return str(inputs["name"])

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        clients.client("kms").update_alias(AliasName=resource_id, TargetKeyId=new["targetKeyId"])

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        kms = clients.client("kms")
        for page in kms.get_paginator("list_aliases").paginate():
            for alias in page["Aliases"]:
                if alias["AliasName"] == resource_id:
                    key = alias["TargetKeyId"]
                    arn = kms.describe_key(KeyId=key)["KeyMetadata"]["Arn"]
                    given = state.get("targetKeyId")
                    return {
                        "arn": alias["AliasArn"],
                        "name": resource_id,
                        "targetKeyArn": arn,
                        # A key can be named by its id or by its ARN.
                        "targetKeyId": given if given in (key, arn) else key,
                    }
        return None

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("kms").delete_alias(AliasName=resource_id)
