"""What EC2 refuses about volumes and moto lets pass."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's classes are untyped.

from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.elastic_block_store import EBSBackend
from moto.ec2.responses import EC2Response

_GP3_MIN_IOPS, _GP3_MAX_IOPS = 3_000, 80_000
_GP3_MIN_THROUGHPUT_MIBPS, _GP3_MAX_THROUGHPUT_MIBPS = 125, 2_000
_GP3_MAX_MIBPS_PER_IOPS = 0.25
_GP3_MAX_IOPS_PER_GIB = 500
_GP3_MAX_GIB = 65_536


def install() -> None:
    """Patch moto's EBS."""
    create, modify, attach = EBSBackend.create_volume, EBSBackend.modify_volume, EBSBackend.attach_volume
    answer_create = EC2Response.create_volume

    def create_volume_in_known_zone(self: Any) -> Any:
        # Not in the backend: moto itself makes volumes of its images there in a zone that need not exist.
        zone_name = str(self._get_param("AvailabilityZone"))
        if self.ec2_backend.get_zone_by_name(zone_name) is None:
            raise EC2ClientError("InvalidZone.NotFound", f"The zone '{zone_name}' does not exist.")
        return answer_create(self)

    def create_volume(self: Any, size: int, zone_name: str, *args: Any, **kwargs: Any) -> Any:
        is_gp3 = kwargs.get("volume_type") == "gp3"
        if is_gp3:
            snapshot_id = kwargs.get("snapshot_id")
            size_gib = size or (self.get_snapshot(snapshot_id).volume.size if snapshot_id else None)
            _check_gp3(size_gib, kwargs.get("iops"), kwargs.get("throughput"))
        volume = create(self, size, zone_name, *args, **kwargs)
        if is_gp3 and volume.throughput is None:
            volume.throughput = _GP3_MIN_THROUGHPUT_MIBPS
        return volume

    def modify_volume(
        self: Any,
        volume_id: str,
        target_size: int | None = None,
        target_volume_type: str | None = None,
        target_iops: int | None = None,
        target_throughput: int | None = None,
        target_multi_attach_enabled: bool | None = None,
    ) -> Any:
        volume = self.get_volume(volume_id)
        size_gib = target_size or volume.size
        if size_gib < volume.size:
            raise EC2ClientError("InvalidParameterValue", "New size cannot be smaller than existing size")
        if (target_volume_type or volume.volume_type) == "gp3":
            _check_gp3(size_gib, target_iops or volume.iops, target_throughput or volume.throughput)
        return modify(
            self,
            volume_id,
            target_size,
            target_volume_type,
            target_iops,
            target_throughput,
            target_multi_attach_enabled,
        )

    def attach_volume(self: Any, volume_id: str, instance_id: str, *args: Any, **kwargs: Any) -> Any:
        volume, instance = self.get_volume(volume_id), self.get_instance(instance_id)
        if volume.attachment is not None:
            raise EC2ClientError("VolumeInUse", f"{volume_id} is already attached to an instance")
        if volume.availability_zone != instance.availability_zone:
            message = f"The volume '{volume_id}' is not in the same availability zone as instance '{instance_id}'"
            raise EC2ClientError("InvalidVolume.ZoneMismatch", message)
        if instance.state not in ("running", "stopped"):
            raise EC2ClientError("IncorrectState", f"Instance '{instance_id}' is not 'running'.")
        return attach(self, volume_id, instance_id, *args, **kwargs)

    response: Any = EC2Response
    response.create_volume = create_volume_in_known_zone
    backend: Any = EBSBackend
    backend.create_volume = create_volume
    backend.modify_volume = modify_volume
    backend.attach_volume = attach_volume


def _check_gp3(size_gib: int | None, iops: int | None, throughput_mibps: int | None) -> None:
    """Raises EC2's error where a gp3 volume of that size cannot have those numbers; None is gp3's default."""
    iops = int(iops or _GP3_MIN_IOPS)
    throughput_mibps = int(throughput_mibps or _GP3_MIN_THROUGHPUT_MIBPS)
    value, combination = "InvalidParameterValue", "InvalidParameterCombination"
    if size_gib is not None and not 1 <= int(size_gib) <= _GP3_MAX_GIB:
        raise EC2ClientError(value, f"Volume of {size_gib}GiB is out of range; gp3 takes 1 to {_GP3_MAX_GIB}GiB.")
    if not _GP3_MIN_IOPS <= iops <= _GP3_MAX_IOPS:
        message = f"Volume iops of {iops} is out of range; gp3 takes {_GP3_MIN_IOPS} to {_GP3_MAX_IOPS}."
        raise EC2ClientError(value, message)
    if not _GP3_MIN_THROUGHPUT_MIBPS <= throughput_mibps <= _GP3_MAX_THROUGHPUT_MIBPS:
        message = (
            f"Volume throughput of {throughput_mibps} MiB/s is out of range; gp3 takes {_GP3_MIN_THROUGHPUT_MIBPS} "
            f"to {_GP3_MAX_THROUGHPUT_MIBPS} MiB/s."
        )
        raise EC2ClientError(value, message)
    if throughput_mibps > _GP3_MAX_MIBPS_PER_IOPS * iops:
        ratio = throughput_mibps / iops
        message = f"Throughput (MiB/s) to iops ratio of {ratio:f} is too high; maximum is 0.250000 MiB/s per iops."
        raise EC2ClientError(combination, message)
    if size_gib is not None and iops > _GP3_MIN_IOPS and iops > _GP3_MAX_IOPS_PER_GIB * int(size_gib):
        ratio = iops / int(size_gib)
        message = f"Iops to volume size ratio of {ratio:f} is too high; maximum is 500 iops per GiB."
        raise EC2ClientError(combination, message)
