"""Capacity Block offerings of a region: total price, dollars an hour, against the same machine on demand."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from infra.pricing import Price, machine_price
from serving.errors import ConfigurationError, Fault

LARGEST_COUNT = 64
_DAYS_IN_STEPS_OF_ONE, _LONGEST_DAYS = 14, 182
_DAYS_ACCEPTED = "1 to 14 days, or 21, 28, … up to 182 in steps of 7"


@dataclass(frozen=True)
class Offer:
    """One offering: `count` machines in one zone from `start` to `end`, paid at once.

    - `offering_id`: EC2's; it changes from question to question and ends soon.
    - `zone`, `zone_id`: the zone's name in this account and its id everywhere.
    - `fee_usd`: everything together, to the cent.
    """

    offering_id: str
    instance_type: str
    zone: str
    zone_id: str
    start: datetime
    end: datetime
    count: int
    fee_usd: Decimal

    @property
    def machine_hours(self) -> float:
        """Hours times machines."""
        return (self.end - self.start).total_seconds() / 3600 * self.count

    @property
    def usd_per_hour(self) -> float:
        """Dollars for one machine and hour."""
        return float(self.fee_usd) / self.machine_hours

    @property
    def key(self) -> str:
        """A name that stays while the offering's id changes: zone, start, hours, machines."""
        hours = round((self.end - self.start).total_seconds() / 3600)
        return f"{self.zone_id or self.zone}/{self.start:%Y-%m-%dT%H:%MZ}/{hours}h/{self.count}x"

    def break_even_hours_a_day(self, on_demand: Price | None) -> float | None:
        """Hours of use a day above which the block is cheaper than on demand; None where that price is unknown."""
        return None if on_demand is None else 24 * self.usd_per_hour / on_demand.usd

    def to_mapping(self, on_demand: Price | None) -> dict[str, Any]:
        """Plain JSON in camelCase."""
        even = self.break_even_hours_a_day(on_demand)
        return {
            "offeringId": self.offering_id,
            "key": self.key,
            "instanceType": self.instance_type,
            "zone": self.zone,
            "zoneId": self.zone_id,
            "start": self.start.isoformat(),
            "end": self.end.isoformat(),
            "count": self.count,
            "totalUsd": float(self.fee_usd),
            "usdPerHour": round(self.usd_per_hour, 4),
            "onDemandUsdPerHour": None if on_demand is None else on_demand.usd,
            "onDemandPriceOrigin": None if on_demand is None else on_demand.origin(),
            "breakEvenHoursADay": None if even is None else round(even, 2),
        }


@dataclass(frozen=True)
class Wish:
    """What block is looked for: type, days, machines, and where and when.

    - `earliest`, `latest_end`: aware, or None; `zones`: names or ids, empty is every zone of the region.
    """

    region: str
    instance_type: str
    days: int
    count: int = 1
    earliest: datetime | None = None
    latest_end: datetime | None = None
    zones: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises ConfigurationError with everything that AWS would not sell."""
        faults: list[Fault] = []
        if not days_are_sold(self.days):
            faults.append(Fault("--days", str(self.days), _DAYS_ACCEPTED))
        if not 1 <= self.count <= LARGEST_COUNT:
            faults.append(Fault("--count", str(self.count), f"1 to {LARGEST_COUNT} machines in one block"))
        if self.earliest and self.latest_end and self.latest_end <= self.earliest:
            faults.append(Fault("--within", f"{self.latest_end:%Y-%m-%d %H:%M}", "a time after --from"))
        if faults:
            raise ConfigurationError(faults, "the command line")


def days_are_sold(days: int) -> bool:
    """Whether EC2 sells a block of so many days."""
    return 1 <= days <= _LONGEST_DAYS and (days <= _DAYS_IN_STEPS_OF_ONE or days % 7 == 0)


def find_offers(ec2: Any, wish: Wish) -> list[Offer]:
    """Every offering for the wish, the cheapest hour first, then the earliest; raises botocore's errors."""
    wish.check()
    asked: dict[str, Any] = {
        "InstanceType": wish.instance_type,
        "InstanceCount": wish.count,
        "CapacityDurationHours": 24 * wish.days,
    }
    if wish.earliest is not None:
        asked["StartDateRange"] = wish.earliest
    if wish.latest_end is not None:
        asked["EndDateRange"] = wish.latest_end
    found: list[Offer] = []
    token: str | None = None
    while True:
        answer = ec2.describe_capacity_block_offerings(**asked, **({"NextToken": token} if token else {}))
        # Offerings in several pieces cannot back one node group, which lies in one zone.
        whole = [
            one for one in answer["CapacityBlockOfferings"] if len(one.get("CapacityBlockOfferingSegments", [])) < 2
        ]
        found += [_offer(one) for one in whole if one.get("CurrencyCode", "USD") == "USD"]
        token = answer.get("NextToken")
        if not token:
            break
    return sorted(_in(found, wish.zones), key=lambda one: (one.usd_per_hour, one.start, one.zone))


def on_demand_price(instance_type: str, region: str) -> Price | None:
    """What the machine costs on demand there, or None where nobody publishes it."""
    return machine_price(instance_type, "on-demand", region)


def _in(offers: list[Offer], zones: Collection[str]) -> list[Offer]:
    return [one for one in offers if not zones or one.zone in zones or one.zone_id in zones]


def _offer(described: Mapping[str, Any]) -> Offer:
    segments: list[dict[str, Any]] = described.get("CapacityBlockOfferingSegments") or [{}]
    segment = segments[0]
    return Offer(
        offering_id=str(described["CapacityBlockOfferingId"]),
        instance_type=str(described["InstanceType"]),
        zone=str(described.get("AvailabilityZone") or segment.get("AvailabilityZone") or ""),
        zone_id=str(segment.get("AvailabilityZoneId") or ""),
        start=described["StartDate"].astimezone(UTC),
        end=described["EndDate"].astimezone(UTC),
        count=int(described.get("InstanceCount") or 1),
        fee_usd=Decimal(str(described["UpfrontFee"])),
    )
