"""Secrets Manager."""

from collections.abc import Mapping
from typing import Any, ClassVar

from botocore.exceptions import ClientError

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import tag_list, tag_map
from infra.sandbox.aws_resources.errors import error_code
from infra.sandbox.aws_resources.properties import Properties, Shape, listed, picked
from infra.sandbox.aws_resources.resource import ResourceType


class Secret(ResourceType):
    """A named secret; its values are versions."""

    token = "aws:secretsmanager/secret:Secret"
    service = "Secrets Manager"
    label = "Secrets Manager Secret"
    inputs: ClassVar[Shape] = dict.fromkeys(("description", "kmsKeyId", "name", "recoveryWindowInDays", "tags"))
    defaults: ClassVar[Mapping[str, Any]] = {"recoveryWindowInDays": 30}
    computed = ("arn", "tagsAll")
    name_key = "name"

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        names = picked(inputs, name="Name", description="Description", kmsKeyId="KmsKeyId")
        answer = clients.client("secretsmanager").create_secret(**names, Tags=tag_list(inputs.get("tagsAll")))
        return str(answer["ARN"])

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        clients.client("secretsmanager").update_secret(
            SecretId=resource_id, Description=new.get("description", ""), **picked(new, kmsKeyId="KmsKeyId")
        )

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        manager = clients.client("secretsmanager")
        if put:
            manager.tag_resource(SecretId=resource_id, Tags=tag_list(put))
        if drop:
            manager.untag_resource(SecretId=resource_id, TagKeys=drop)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = clients.client("secretsmanager").describe_secret(SecretId=resource_id)
        if found.get("DeletedDate"):
            return None
        return {
            "arn": found["ARN"],
            "description": found.get("Description") or None,
            "kmsKeyId": found.get("KmsKeyId") or None,
            "name": found["Name"],
            "tagsAll": tag_map(found.get("Tags")),
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        # AWS refuses to delete what is marked for deletion with the same code as a wrong request.
        if self._live(clients, resource_id, state) is None:
            return
        days = state.get("recoveryWindowInDays", 30)
        how = {"RecoveryWindowInDays": days} if days else {"ForceDeleteWithoutRecovery": True}
        clients.client("secretsmanager").delete_secret(SecretId=resource_id, **how)


class SecretVersion(ResourceType):
    """One value of a secret."""

    token = "aws:secretsmanager/secretVersion:SecretVersion"
    service = "Secrets Manager"
    label = "Secrets Manager Secret Version"
    inputs: ClassVar[Shape] = dict.fromkeys(("secretId", "secretString", "secretBinary", "versionStages"))
    required = ("secretId",)
    computed = ("arn", "secretArn", "versionId")
    replace_on = frozenset({"secretId", "secretString", "secretBinary"})

    def _invalid(self, inputs: Properties) -> list[tuple[str, str]]:
        given = [name for name in ("secretString", "secretBinary") if name in inputs]
        return [] if len(given) == 1 else [("secretString", "exactly one of secretString, secretBinary must be given")]

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        names = picked(inputs, secretId="SecretId", secretString="SecretString", versionStages="VersionStages")
        if "secretBinary" in inputs:
            names["SecretBinary"] = str(inputs["secretBinary"]).encode()
        version = clients.client("secretsmanager").put_secret_value(**names)["VersionId"]
        return f"{inputs['secretId']}|{version}"

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        secret, _, version = resource_id.partition("|")
        try:
            found = clients.client("secretsmanager").get_secret_value(SecretId=secret, VersionId=version)
        except ClientError as error:
            # What AWS says of a secret that is marked for deletion.
            if error_code(error) == "InvalidRequestException":
                return None
            raise
        live: Properties = {
            "arn": found["ARN"],
            "secretArn": found["ARN"],
            "secretId": secret,
            "secretString": found.get("SecretString"),
            "versionId": version,
        }
        if "versionStages" in state:
            live["versionStages"] = listed(found, "VersionStages")
        return live

    def delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        """Let it go: AWS drops a version with its secret, and the current one can't be taken away alone."""

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        """Nothing: see `delete`."""
