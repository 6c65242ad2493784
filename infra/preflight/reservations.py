"""What a Capacity Block's reservation id is worth to a candidate: usable, not yet, or wrong, and why.

Pure: `Reservation.from_ec2` reads what EC2 answered, `judge_reservation` decides. Preview, preflight and the jobs
call the same function.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from serving.units import duration_text

BLOCK_TERMINATION_LEAD = timedelta(minutes=30)
"""EC2 terminates the instances of a Capacity Block from this long before its end (EC2 user guide)."""

_NOT_PAID = ("payment-pending", "pending", "assessing")
_GONE = ("cancelled", "failed", "unsupported", "payment-failed")
_FIND = "`dormouse block find` shows what is on offer"


class VerdictKind(StrEnum):
    """What a reservation is to a candidate."""

    USABLE = "usable"
    NOT_STARTED = "not-started"
    PAYMENT_PENDING = "payment-pending"
    NO_FREE_INSTANCE = "no-free-instance"
    NO_CAPACITY_BLOCK = "no-capacity-block"
    FAILED = "failed"
    EXPIRED = "expired"
    FOREIGN_ZONE = "foreign-zone"
    WRONG_TYPE = "wrong-type"
    TOO_SMALL = "too-small"
    NOT_FOUND = "not-found"


_STOPPING = {
    VerdictKind.NO_CAPACITY_BLOCK,
    VerdictKind.FAILED,
    VerdictKind.EXPIRED,
    VerdictKind.FOREIGN_ZONE,
    VerdictKind.WRONG_TYPE,
    VerdictKind.TOO_SMALL,
    VerdictKind.NOT_FOUND,
}


@dataclass(frozen=True)
class Reservation:
    """One Capacity Reservation as EC2 describes it.

    - `state`: EC2's word: active, scheduled, payment-pending, payment-failed, expired, cancelled, …
    - `kind`: `capacity-block` or `default` (an On-Demand Capacity Reservation).
    - `zone`, `zone_id`: the zone's name in this account and its id everywhere.
    - `start`, `end`: aware; None where the reservation has none.
    - `total`, `free`: instances; EC2 says 0 free before the start.
    """

    reservation_id: str
    state: str
    kind: str
    instance_type: str
    zone: str
    zone_id: str
    start: datetime | None
    end: datetime | None
    total: int
    free: int

    @classmethod
    def from_ec2(cls, described: Mapping[str, Any]) -> "Reservation":
        """One item of DescribeCapacityReservations as boto3 returns it."""
        return cls(
            reservation_id=str(described["CapacityReservationId"]),
            state=str(described.get("State", "")),
            kind=str(described.get("ReservationType") or "default"),
            instance_type=str(described.get("InstanceType", "")),
            zone=str(described.get("AvailabilityZone") or ""),
            zone_id=str(described.get("AvailabilityZoneId") or ""),
            start=_utc(described.get("StartDate") or described.get("CreateDate")),
            end=_utc(described.get("EndDate")),
            total=int(described.get("TotalInstanceCount") or 0),
            free=int(described.get("AvailableInstanceCount") or 0),
        )

    @property
    def usable_until(self) -> datetime | None:
        """When EC2 begins to terminate the block's instances, or None where it never ends."""
        if self.end is None:
            return None
        return self.end - BLOCK_TERMINATION_LEAD if self.kind == "capacity-block" else self.end


@dataclass(frozen=True)
class Verdict:
    """What the reservation is worth now.

    - `words`: the reason, one sentence for people.
    - `remedy`: what to do, or empty.
    - `usable_from`: when it can give an instance, where that is ahead.
    """

    kind: VerdictKind
    words: str
    remedy: str = ""
    usable_from: datetime | None = None

    @property
    def usable(self) -> bool:
        """Whether an instance can be launched into it now."""
        return self.kind is VerdictKind.USABLE

    @property
    def stops(self) -> bool:
        """Whether it can never serve this candidate, however long one waits."""
        return self.kind in _STOPPING


def judge_reservation(
    reservation: Reservation | None,
    *,
    reservation_id: str,
    instance_type: str,
    zone: str,
    now: datetime,
    nodes: int = 1,
) -> Verdict:
    """What `reservation` is worth to a candidate that wants `nodes` machines of `instance_type` in `zone`.

    - `reservation`: None where EC2 knows no such id in this account and region.
    - `zone`: a zone's name or id.
    - `now`: aware.

    What never changes is said first: an expired block in the wrong zone is called expired, a scheduled one of a foreign
    zone foreign, since waiting for its start would not help.
    """
    if reservation is None:
        return Verdict(
            VerdictKind.NOT_FOUND,
            f"{reservation_id} is no Capacity Reservation of this account in this region",
            "`dormouse block list` shows the ids of this account; check region and account too",
        )
    what = f"{reservation.reservation_id} ({reservation.instance_type} in {_zone_text(reservation)})"
    if reservation.state == "expired" or (reservation.usable_until is not None and reservation.usable_until <= now):
        return _expired(what, reservation, now)
    if reservation.state in _GONE:
        return Verdict(
            VerdictKind.FAILED,
            f"{what} is {reservation.state}: it will never give an instance",
            f"{_FIND}; take this candidate out or give it another id",
        )
    if reservation.kind != "capacity-block":
        return Verdict(
            VerdictKind.NO_CAPACITY_BLOCK,
            f"{what} is no Capacity Block but an On-Demand Capacity Reservation",
            "an EKS node group of type CAPACITY_BLOCK takes the id of a Capacity Block alone; `dormouse block list`",
        )
    if reservation.instance_type != instance_type:
        return Verdict(
            VerdictKind.WRONG_TYPE,
            f"{what} is of another type than the {instance_type} that is wanted",
            f"instanceType: {reservation.instance_type}, or the id of a block of {instance_type}",
        )
    if zone not in (reservation.zone, reservation.zone_id):
        return Verdict(
            VerdictKind.FOREIGN_ZONE,
            f"{what} lies in another zone than the candidate's {zone}",
            f"zone: {reservation.zone_id or reservation.zone} for this candidate; its weight volume is made there",
        )
    if reservation.total < nodes:
        return Verdict(
            VerdictKind.TOO_SMALL,
            f"{what} holds {reservation.total} instances, and one replica takes {nodes} machines at once",
            f"nodesPerReplica: {reservation.total}, or the id of a block with {nodes} instances",
        )
    return _in_time(what, reservation, now, nodes)


def _in_time(what: str, reservation: Reservation, now: datetime, nodes: int) -> Verdict:
    start = reservation.start
    if reservation.state in _NOT_PAID:
        return Verdict(
            VerdictKind.PAYMENT_PENDING,
            f"{what} waits for its payment ({reservation.state}); AWS gives it up to 12 hours",
            "look again later; a payment that fails ends the reservation",
            start,
        )
    if reservation.state == "scheduled" or (start is not None and start > now):
        begins = (
            ""
            if start is None
            else f" on {start:%Y-%m-%d %H:%M} UTC, in {duration_text((start - now).total_seconds())}"
        )
        return Verdict(
            VerdictKind.NOT_STARTED, f"{what} has not started: it begins{begins}", "wake after its start", start
        )
    if reservation.free < nodes:
        return Verdict(
            VerdictKind.NO_FREE_INSTANCE,
            f"{what} has {reservation.free} of {reservation.total} instances free; {nodes} wanted",
            "stop what runs in it; EC2 takes several minutes to clean a machine before it is free again",
        )
    until = reservation.usable_until
    rest = (
        ""
        if until is None
        else f" for {duration_text((until - now).total_seconds())} (until {until:%Y-%m-%d %H:%M} UTC)"
    )
    return Verdict(
        VerdictKind.USABLE, f"{what} is active, {reservation.free} of {reservation.total} instances free{rest}"
    )


def _expired(what: str, reservation: Reservation, now: datetime) -> Verdict:
    end = reservation.end
    if reservation.state != "expired" and end is not None and end > now:
        words = f"{what} ends on {end:%Y-%m-%d %H:%M} UTC; EC2 takes its instances back already, 30 minutes before"
    else:
        words = f"{what} expired" + ("" if end is None else f" on {end:%Y-%m-%d %H:%M} UTC")
    return Verdict(VerdictKind.EXPIRED, words, f"{_FIND}; take this candidate out or give it another id")


def _zone_text(reservation: Reservation) -> str:
    return " / ".join(part for part in (reservation.zone_id, reservation.zone) if part) or "an unknown zone"


def _utc(value: object) -> datetime | None:
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
