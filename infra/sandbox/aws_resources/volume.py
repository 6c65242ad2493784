"""EBS volumes."""

from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import Ec2Type, first
from infra.sandbox.aws_resources.errors import AwsResourceError
from infra.sandbox.aws_resources.properties import Properties, Shape, changed, picked

_RESIZABLE = {"size": "Size", "type": "VolumeType", "iops": "Iops", "throughput": "Throughput"}


class Volume(Ec2Type):
    """A disk in one zone. Size, type, IOPS and throughput change in place."""

    token = "aws:ebs/volume:Volume"
    label = "EBS Volume"
    kind = "volume"
    inputs: ClassVar[Shape] = dict.fromkeys(
        (
            "availabilityZone",
            "encrypted",
            "finalSnapshot",
            "kmsKeyId",
            "multiAttachEnabled",
            "snapshotId",
            "tags",
            *_RESIZABLE,
        )
    )
    required = ("availabilityZone",)
    computed = ("arn", "createTime", "tagsAll")
    replace_on = frozenset({"availabilityZone", "encrypted", "kmsKeyId", "snapshotId", "multiAttachEnabled"})

    def _invalid(self, inputs: Properties) -> list[tuple[str, str]]:
        if "size" in inputs or "snapshotId" in inputs:
            return []
        return [("size", "one of size, snapshotId must be given: got neither")]

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        names = picked(
            inputs,
            availabilityZone="AvailabilityZone",
            encrypted="Encrypted",
            kmsKeyId="KmsKeyId",
            snapshotId="SnapshotId",
            multiAttachEnabled="MultiAttachEnabled",
            **_RESIZABLE,
        )
        names.setdefault("VolumeType", "gp2")
        return str(clients.client("ec2").create_volume(**names, **self._tags_at_creation(inputs))["VolumeId"])

    def _found(self, clients: AwsClients, resource_id: str) -> Any:
        return first(clients.client("ec2").describe_volumes(VolumeIds=[resource_id]), "Volumes")

    def _settle(self, clients: AwsClients, resource_id: str, inputs: Properties) -> None:
        def ready() -> bool:
            found = self._found(clients, resource_id)
            if found is not None and found["State"] == "error":
                raise AwsResourceError(f"EBS Volume ({resource_id}) is in state error; see its status checks")
            return found is not None and found["State"] in ("available", "in-use")

        clients.wait(f"EBS Volume ({resource_id}) to be available", ready)

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        if not changed(old, new, *_RESIZABLE):
            return
        different = {ours: theirs for ours, theirs in _RESIZABLE.items() if changed(old, new, ours)}
        request = picked(new, **different)
        if request:
            clients.client("ec2").modify_volume(VolumeId=resource_id, **request)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = self._found(clients, resource_id)
        if found is None or found["State"] in ("deleting", "deleted"):
            return None
        return {
            "arn": clients.arn("ec2", f"volume/{resource_id}"),
            "availabilityZone": found["AvailabilityZone"],
            "createTime": found["CreateTime"].isoformat(),
            "encrypted": bool(found.get("Encrypted")),
            "kmsKeyId": found.get("KmsKeyId"),
            "multiAttachEnabled": bool(found.get("MultiAttachEnabled")),
            "size": found["Size"],
            "snapshotId": found.get("SnapshotId") or None,
            "tagsAll": self._common(clients, resource_id, found)["tagsAll"],
            "type": found["VolumeType"],
            # Both are only set for the types that have them.
            **({"iops": found["Iops"]} if found.get("Iops") else {}),
            **({"throughput": found["Throughput"]} if found.get("Throughput") else {}),
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        ec2 = clients.client("ec2")
        if state.get("finalSnapshot"):
            ec2.create_snapshot(VolumeId=resource_id, Description=f"final snapshot of {resource_id}")
        ec2.delete_volume(VolumeId=resource_id)
