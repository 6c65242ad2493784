"""EC2 instances that an Auto Scaling group launches, with what moto leaves out of a launch template."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# moto's backends are untyped.

from datetime import UTC
from functools import cache
from typing import Any

from moto.autoscaling.models import ASG_NAME_TAG, InstanceState
from moto.core.types import Base64EncodedString
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

from infra.sandbox.cloud.nodes import NEVER_JOINS_TAG
from infra.sandbox.cloud.simulation import utc

_LIFECYCLES = {"on-demand": None, "spot": "spot", "capacity-block": "capacity-block"}


@cache
def is_offered(region: str, instance_type: str, zone: str) -> bool:
    """Whether AWS offers the type in the zone, as far as moto's copy of DescribeInstanceTypeOfferings knows."""
    offerings = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
    return any((one["InstanceType"], one["Location"]) == (instance_type, zone) for one in offerings)


def running_in_reservation(ec2_backend: Any, reservation_id: str | None) -> list[Any]:
    """The running instances that occupy the capacity reservation."""
    if reservation_id is None:
        return []
    running = ec2_backend.all_running_instances()
    return [one for one in running if getattr(one, "capacity_reservation_id", None) == reservation_id]


def _user_data(data: dict[str, Any]) -> Base64EncodedString | None:
    """A template's user data; moto keeps the first version's encoded and every later one's as plain text."""
    text = data.get("UserData")
    return None if text is None else Base64EncodedString.from_encoded_bytes(str(text).encode())


def launch(
    group: Any,
    template_id: str,
    instance_type: str,
    subnet_id: str,
    purchase: str,
    reservation_id: str | None,
    joins: bool,
    at_s: float,
) -> Any:
    """Run one instance of moto's Auto Scaling group `group` and return moto's object.

    - `joins`: False tags it so that its node never appears.
    - `at_s`: its launch time, in simulated seconds since 1970.
    """
    backend: Any = group.ec2_backend
    version = backend.get_launch_template(template_id).default_version()
    data: dict[str, Any] = version.data
    tags = {**group.get_propagated_tags(), **version.instance_tags, ASG_NAME_TAG: group.name}
    if not joins:
        tags[NEVER_JOINS_TAG] = "true"
    interface = next(iter(data.get("NetworkInterfaces") or []), {})
    made = backend.run_instances(
        version.image_id,
        1,
        _user_data(data),
        [],
        instance_type=instance_type,
        is_instance_type_default=False,
        tags={"instance": tags},
        launch_template={"LaunchTemplateId": template_id, "Version": str(version.number)},
        subnet_id=subnet_id,
        security_group_ids=list(data.get("SecurityGroupIds") or interface.get("Groups") or []),
        block_device_mappings=data.get("BlockDeviceMappings") or [],
        metadata_options=data.get("MetadataOptions") or {},
        ebs_optimized=True,
        associate_public_ip=None,
        region_name=backend.region_name,
    )
    instance = made.instances[0]
    instance.launch_time = utc(at_s).astimezone(UTC).replace(tzinfo=None)
    instance.lifecycle = _LIFECYCLES[purchase]
    facts: dict[str, Any] = INSTANCE_TYPES.get(instance_type, {})
    architectures = (facts.get("ProcessorInfo") or {}).get("SupportedArchitectures") or ["x86_64"]
    instance.architecture = architectures[-1]
    if reservation_id is not None:
        instance.capacity_reservation_id = reservation_id
    for interface_of_it in instance.nics.values():
        # Otherwise a terminated instance would hold its subnet for ever.
        interface_of_it.delete_on_termination = True
    instance.autoscaling_group = group
    group.instance_states.append(InstanceState(instance, protected_from_scale_in=False))
    return instance
