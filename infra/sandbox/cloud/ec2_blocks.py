"""EC2's Capacity Block market: offerings, purchase, extension, as the simulated market holds them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's classes are untyped.

import contextlib
import socket
from datetime import UTC, datetime
from typing import Any, NoReturn

from flask import has_request_context, request
from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS
from moto.ec2.responses import EC2Response

from infra.sandbox.cloud.block_market import BlockMarket, BlockOffer, Extension
from infra.sandbox.cloud.capacity import CapacityBlock
from infra.sandbox.cloud.ec2_reservations import shown_reservation
from infra.sandbox.cloud.simulation import Simulation, current

_LONGEST_HOURS = 182 * 24
_DAYS_IN_STEPS_OF_ONE = 14
_LARGEST_COUNT = 64
_DRY_RUN = "Request would have succeeded, but DryRun flag is set."


def install() -> None:
    """Add the operations to moto's EC2."""
    response: Any = EC2Response
    for operation in (
        describe_capacity_block_offerings,
        purchase_capacity_block,
        describe_capacity_block_extension_offerings,
        purchase_capacity_block_extension,
        describe_capacity_block_extension_history,
    ):
        setattr(response, operation.__name__, operation)


def describe_capacity_block_offerings(self: Any) -> ActionResult:
    """DescribeCapacityBlockOfferings."""
    simulation = current()
    now = simulation.clock.now()
    instance_type = str(self._get_param("InstanceType") or "")
    hours, count = int(self._get_param("CapacityDurationHours") or 0), int(self._get_param("InstanceCount") or 1)
    _check_size(hours, count)
    region = str(self.region)
    sold = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
    zones = sorted(one["Location"] for one in sold if one["InstanceType"] == instance_type)
    open_zones = [zone for zone in zones if not _refused(simulation, instance_type, zone, now)]
    earliest, latest = _time(self._get_param("StartDateRange")), _time(self._get_param("EndDateRange"))
    offers = simulation.capacity.market.offer(
        instance_type, region, open_zones, hours, count, earliest or now, latest, now
    )
    return ActionResult({"CapacityBlockOfferings": [_shown_offer(self, one) for one in offers]})


def purchase_capacity_block(self: Any) -> ActionResult:
    """PurchaseCapacityBlock."""
    simulation = current()
    market, now = simulation.capacity.market, simulation.clock.now()
    if not self._get_param("InstancePlatform"):
        raise EC2ClientError("MissingParameter", "The request must contain the parameter InstancePlatform")
    offer = _taken(simulation, str(self._get_param("CapacityBlockOfferingId") or ""), now)
    _stop_dry_run(self)
    fault = market.next_fault()
    if fault == "refused":
        raise EC2ClientError("InsufficientInstanceCapacity", "The Capacity Block offering is no longer available.")
    tags = {
        str(tag["Key"]): str(tag["Value"])
        for specification in self._get_param("TagSpecifications", [])
        for tag in specification.get("Tags", [])
    }
    reservation_id = f"cr-{market.number():017x}"
    block = CapacityBlock(
        reservation_id, offer.instance_type, offer.zone, offer.start, offer.end, offer.instance_count, tags, created=now
    )
    simulation.capacity.blocks[reservation_id] = block
    del market.offers[offer.offering_id]
    market.purchases += 1
    if fault == "lost-answer":
        _lose_the_answer()
    return ActionResult({"CapacityReservation": shown_reservation(self, simulation, block)})


def describe_capacity_block_extension_offerings(self: Any) -> ActionResult:
    """DescribeCapacityBlockExtensionOfferings."""
    simulation = current()
    now = simulation.clock.now()
    block = _block(simulation, str(self._get_param("CapacityReservationId") or ""))
    hours = int(self._get_param("CapacityBlockExtensionDurationHours") or 0)
    _check_size(hours, block.instance_count)
    offers: list[BlockOffer] = []
    if block.state(now) in ("active", "scheduled") and not _refused(simulation, block.instance_type, block.zone, now):
        offers = simulation.capacity.market.offer_extension(
            block.reservation_id, block.instance_type, str(self.region), block.zone, block.end, hours,
            block.instance_count, now,
        )  # fmt: skip
    shown = [_shown_extension(self, one, block.start) for one in offers]
    return ActionResult({"CapacityBlockExtensionOfferings": shown})


def purchase_capacity_block_extension(self: Any) -> ActionResult:
    """PurchaseCapacityBlockExtension."""
    simulation = current()
    market, now = simulation.capacity.market, simulation.clock.now()
    block = _block(simulation, str(self._get_param("CapacityReservationId") or ""))
    offer = _taken(simulation, str(self._get_param("CapacityBlockExtensionOfferingId") or ""), now)
    if offer.extends != block.reservation_id or offer.start != block.end:
        raise EC2ClientError("InvalidParameterValue", "The offering does not extend this Capacity Block")
    _stop_dry_run(self)
    fault = market.next_fault()
    if fault == "refused":
        raise EC2ClientError("InsufficientInstanceCapacity", "The extension offering is no longer available.")
    block.end = offer.end
    del market.offers[offer.offering_id]
    market.purchases += 1
    bought = Extension(offer, now)
    market.extensions.append(bought)
    if fault == "lost-answer":
        _lose_the_answer()
    return ActionResult({"CapacityBlockExtensions": [_shown_bought(self, bought)]})


def describe_capacity_block_extension_history(self: Any) -> ActionResult:
    """DescribeCapacityBlockExtensionHistory."""
    wanted = self._get_param("CapacityReservationIds", [])
    bought = [one for one in current().capacity.market.extensions if not wanted or one.offer.extends in wanted]
    return ActionResult({"CapacityBlockExtensions": [_shown_bought(self, one) for one in bought]})


def _check_size(hours: int, count: int) -> None:
    days, rest = divmod(hours, 24)
    if rest or days < 1 or hours > _LONGEST_HOURS or (days > _DAYS_IN_STEPS_OF_ONE and days % 7):
        message = f"Invalid duration {hours} hours: 1-day increments up to 14 days, 7-day increments up to 182 days"
        raise EC2ClientError("InvalidParameterValue", message)
    if not 1 <= count <= _LARGEST_COUNT:
        raise EC2ClientError("InvalidParameterValue", f"Invalid instance count {count}: 1 to {_LARGEST_COUNT}")


def _refused(simulation: Simulation, instance_type: str, zone: str, now: datetime) -> bool:
    """Whether a rule says that no block is to be had there; does not count as an attempt."""
    rules = simulation.capacity.rules.values()
    return any(one.kind == "refuse" and one.concerns(instance_type, zone, "capacity-block", now) for one in rules)


def _taken(simulation: Simulation, offering_id: str, now: datetime) -> BlockOffer:
    market: BlockMarket = simulation.capacity.market
    offer = market.take(offering_id, now)
    if offer is None or _refused(simulation, offer.instance_type, offer.zone, now):
        raise EC2ClientError("InvalidParameterValue", f"The Capacity Block offering '{offering_id}' is not available")
    return offer


def _block(simulation: Simulation, reservation_id: str) -> CapacityBlock:
    block = simulation.capacity.blocks.get(reservation_id)
    if block is None:
        message = f"The capacity reservation ID '{reservation_id}' does not exist"
        raise EC2ClientError("InvalidCapacityReservationId.NotFound", message)
    return block


def _stop_dry_run(response: Any) -> None:
    if str(response._get_param("DryRun") or "").lower() == "true":  # noqa: SLF001
        raise EC2ClientError("DryRunOperation", _DRY_RUN)


def _lose_the_answer() -> NoReturn:
    """Cut the caller's connection, as a time-out would look to it; within one process an internal error must do."""
    connection: Any = request.environ.get("werkzeug.socket") if has_request_context() else None
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    raise EC2ClientError("InternalError", "The simulated EC2 carried the purchase out and lost its answer")


def _time(value: Any) -> datetime | None:
    if value is None:
        return None
    read = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read


def _zone_id(response: Any, zone: str) -> str | None:
    found = response.ec2_backend.get_zone_by_name(zone)
    return None if found is None else str(found.zone_id)


def _shown_offer(response: Any, offer: BlockOffer) -> dict[str, Any]:
    shown = {
        "InstanceType": offer.instance_type,
        "AvailabilityZone": offer.zone,
        "InstanceCount": offer.instance_count,
        "StartDate": offer.start,
        "EndDate": offer.end,
        "CapacityBlockDurationHours": offer.hours,
        "CapacityBlockDurationMinutes": 0,
        "UpfrontFee": f"{offer.fee_usd:.2f}",
        "CurrencyCode": "USD",
    }
    segment = {**shown, "AvailabilityZoneId": _zone_id(response, offer.zone)}
    return {
        **shown,
        "CapacityBlockOfferingId": offer.offering_id,
        "Tenancy": "default",
        "CapacityBlockOfferingSegments": [segment],
    }


def _shown_extension(response: Any, offer: BlockOffer, block_start: datetime) -> dict[str, Any]:
    return {
        "CapacityBlockExtensionOfferingId": offer.offering_id,
        "InstanceType": offer.instance_type,
        "InstanceCount": offer.instance_count,
        "AvailabilityZone": offer.zone,
        "AvailabilityZoneId": _zone_id(response, offer.zone),
        "StartDate": block_start,
        "CapacityBlockExtensionStartDate": offer.start,
        "CapacityBlockExtensionEndDate": offer.end,
        "CapacityBlockExtensionDurationHours": offer.hours,
        "UpfrontFee": f"{offer.fee_usd:.2f}",
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }


def _shown_bought(response: Any, bought: Extension) -> dict[str, Any]:
    offer = bought.offer
    return {
        "CapacityReservationId": offer.extends,
        "InstanceType": offer.instance_type,
        "InstanceCount": offer.instance_count,
        "AvailabilityZone": offer.zone,
        "AvailabilityZoneId": _zone_id(response, offer.zone),
        "CapacityBlockExtensionOfferingId": offer.offering_id,
        "CapacityBlockExtensionDurationHours": offer.hours,
        "CapacityBlockExtensionStatus": "payment-succeeded",
        "CapacityBlockExtensionPurchaseDate": bought.bought_at,
        "CapacityBlockExtensionStartDate": offer.start,
        "CapacityBlockExtensionEndDate": offer.end,
        "UpfrontFee": f"{offer.fee_usd:.2f}",
        "CurrencyCode": "USD",
    }
