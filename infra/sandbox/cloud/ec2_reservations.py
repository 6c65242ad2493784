"""EC2's Capacity Reservations, of which the simulation knows the Capacity Blocks that were seeded."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's classes are untyped.

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response

from infra.sandbox.cloud import instances
from infra.sandbox.cloud.capacity import CapacityBlock
from infra.sandbox.cloud.simulation import Simulation, current


def install() -> None:
    """Add DescribeCapacityReservations to moto's EC2."""

    def describe_capacity_reservations(self: Any) -> ActionResult:
        simulation = current()
        wanted: list[str] = self._get_param("CapacityReservationIds", [])
        filters = {one["Name"]: one["Values"] for one in self._get_param("Filters", [])}
        unknown = [one for one in wanted if one not in simulation.capacity.blocks]
        if unknown:
            message = f"The capacity reservation ID '{unknown[0]}' does not exist"
            raise EC2ClientError("InvalidCapacityReservationId.NotFound", message)
        blocks = simulation.capacity.blocks.values()
        shown = [
            shown_reservation(self, simulation, block)
            for block in blocks
            if not wanted or block.reservation_id in wanted
        ]
        return ActionResult({"CapacityReservations": [one for one in shown if _matches(one, filters)]})

    response: Any = EC2Response
    response.describe_capacity_reservations = describe_capacity_reservations


_FILTERS = {
    "instance-type": "InstanceType",
    "availability-zone": "AvailabilityZone",
    "availability-zone-id": "AvailabilityZoneId",
    "state": "State",
    "reservation-type": "ReservationType",
}


def _matches(shown: dict[str, Any], filters: dict[str, list[str]]) -> bool:
    for name, values in filters.items():
        if name.startswith("tag:"):
            held = {tag["Key"]: tag["Value"] for tag in shown["Tags"]}.get(name.removeprefix("tag:"))
        elif name in _FILTERS:
            held = shown[_FILTERS[name]]
        else:
            raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
        if held not in values:
            return False
    return True


def shown_reservation(response: Any, simulation: Simulation, block: CapacityBlock) -> dict[str, Any]:
    """One reservation as EC2 describes it."""
    backend: Any = response.ec2_backend
    account_id, region = str(response.current_account), str(response.region)
    running = len(instances.running_in_reservation(backend, block.reservation_id))
    state = block.state(simulation.clock.now())
    zone = backend.get_zone_by_name(block.zone)
    return {
        "CapacityReservationId": block.reservation_id,
        "OwnerId": account_id,
        "CapacityReservationArn": (
            f"arn:{response.partition}:ec2:{region}:{account_id}:capacity-reservation/{block.reservation_id}"
        ),
        "InstanceType": block.instance_type,
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": block.zone,
        "AvailabilityZoneId": zone.zone_id if zone is not None else None,
        "Tenancy": "default",
        "TotalInstanceCount": block.instance_count,
        "AvailableInstanceCount": block.instance_count - running if state == "active" else 0,
        "EbsOptimized": False,
        "EphemeralStorage": False,
        "State": state,
        "StartDate": block.start,
        "EndDate": block.end,
        "EndDateType": "limited",
        "InstanceMatchCriteria": "targeted",
        "CreateDate": block.created or block.start,
        "ReservationType": "capacity-block",
        "Tags": [{"Key": key, "Value": value} for key, value in block.tags.items()],
    }
