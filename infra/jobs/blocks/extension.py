"""Making a bought Capacity Block longer, at most once for each asking."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from infra.clock import Clock
from infra.jobs.blocks.ledger import Ledger
from infra.jobs.blocks.offers import days_are_sold
from infra.jobs.blocks.purchase import CONSISTENCY_S, NotAgreedError, Say, describe_blocks, dry_run, once, usd
from infra.preflight.reservations import Reservation
from serving.errors import ConfigurationError, Fault, JobError

_SAME_ASKING = timedelta(hours=24)
_LOOK_EVERY_S = 15.0


@dataclass(frozen=True)
class ExtensionOffer:
    """An extension of a block from its `start` (the block's end now) to `end` for `fee_usd` in all."""

    offering_id: str
    reservation_id: str
    start: datetime
    end: datetime
    count: int
    fee_usd: Decimal

    @property
    def usd_per_hour(self) -> float:
        """Dollars for one machine and hour."""
        return float(self.fee_usd) / ((self.end - self.start).total_seconds() / 3600 * self.count)

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON in camelCase."""
        return {
            "offeringId": self.offering_id,
            "reservationId": self.reservation_id,
            "start": self.start.isoformat(),
            "end": self.end.isoformat(),
            "count": self.count,
            "totalUsd": float(self.fee_usd),
            "usdPerHour": round(self.usd_per_hour, 4),
        }


@dataclass(frozen=True)
class Extended:
    """How an extension ended: the block's end now; `changed` is False where it had been bought before."""

    reservation_id: str
    end: datetime
    changed: bool
    sentence: str


def block_of(ec2: Any, reservation_id: str) -> Reservation:
    """The block of that id; raises JobError where the account has none."""
    for one in describe_blocks(ec2):
        if one["CapacityReservationId"] == reservation_id:
            return Reservation.from_ec2(one)
    raise JobError(
        f"{reservation_id} is no Capacity Block of this account in this region; `dormouse block list` shows them"
    )


def extension_offers(ec2: Any, reservation_id: str, days: int) -> list[ExtensionOffer]:
    """What EC2 offers, cheapest first; raises ConfigurationError for days that are not sold, and botocore's errors."""
    if not days_are_sold(days):
        raise ConfigurationError(
            [Fault("--days", str(days), "1 to 14 days, or 21, 28, … up to 182 in steps of 7")], "the command line"
        )
    answer = ec2.describe_capacity_block_extension_offerings(
        CapacityReservationId=reservation_id, CapacityBlockExtensionDurationHours=24 * days
    )
    offers = [
        ExtensionOffer(
            str(one["CapacityBlockExtensionOfferingId"]),
            reservation_id,
            one["CapacityBlockExtensionStartDate"].astimezone(UTC),
            one["CapacityBlockExtensionEndDate"].astimezone(UTC),
            int(one.get("InstanceCount") or 1),
            Decimal(str(one["UpfrontFee"])),
        )
        for one in answer["CapacityBlockExtensionOfferings"]
    ]
    return sorted(offers, key=lambda one: one.fee_usd)


def extended_already(
    ec2: Any, clock: Clock, ledger: Ledger, reservation_id: str, days: int, *, again: bool = False
) -> Extended | None:
    """The extension that the same asking has bought: the same days within the last 24 hours; None where none has.

    Waits where an earlier run's outcome is not known yet, whatever `again` says.
    """
    begun = ledger.begun_at(_token(reservation_id, days))
    since = clock.now() - _SAME_ASKING if begun is None else begun - timedelta(minutes=5)
    if begun is None and again:
        return None
    until = clock.now() if begun is None else begun + timedelta(seconds=CONSISTENCY_S)
    found = _wait_for(ec2, clock, reservation_id, days, since, until)
    ledger.clear(_token(reservation_id, days))
    if found is None:
        return None
    words = f"extended already by {days} days until {found:%Y-%m-%d %H:%M} UTC; nothing was paid now"
    return Extended(reservation_id, found, False, f"{words}. --again buys the same once more")


def extend(
    ec2: Any, clock: Clock, ledger: Ledger, offer: ExtensionOffer, days: int, agreed_usd: Decimal, say: Say
) -> Extended:
    """Buy the extension, once, after `extended_already` found none.

    Raises NotAgreedError unless `agreed_usd` is the sum to the cent, and JobError where EC2 refuses or stays silent.
    """
    if agreed_usd != offer.fee_usd:
        raise NotAgreedError(
            f"the extension costs {usd(offer.fee_usd)}, and {usd(agreed_usd)} was agreed to; nothing was bought"
        )
    asked = {
        "CapacityBlockExtensionOfferingId": offer.offering_id,
        "CapacityReservationId": offer.reservation_id,
    }
    say("asking EC2 whether the purchase would be allowed (dry run)")
    dry_run(ec2.purchase_capacity_block_extension, asked)
    token, began = _token(offer.reservation_id, days), clock.now()
    ledger.begin(token, began, {"usd": str(offer.fee_usd)})
    say(f"extending {offer.reservation_id} for {usd(offer.fee_usd)}")
    answer = once(ec2.purchase_capacity_block_extension, asked, lambda: ledger.clear(token))
    end: datetime | None = offer.end
    lost = ""
    if answer is None:
        say("EC2's answer was lost; looking whether the purchase went through")
        since, until = began - timedelta(minutes=5), began + timedelta(seconds=CONSISTENCY_S)
        end = _wait_for(ec2, clock, offer.reservation_id, days, since, until)
        lost = "; EC2's answer was lost, the extension was found"
    if end is None:
        raise JobError(
            f"EC2 gave no answer, and no extension of {offer.reservation_id} appeared within {CONSISTENCY_S:g} s; most "
            "likely nothing was bought. Running the same command again looks once more before it buys"
        )
    ledger.clear(token)
    words = f"extended until {end:%Y-%m-%d %H:%M} UTC for {usd(offer.fee_usd)}{lost}"
    return Extended(offer.reservation_id, end, True, words)


def _wait_for(
    ec2: Any, clock: Clock, reservation_id: str, days: int, since: datetime, until: datetime
) -> datetime | None:
    while True:
        history = ec2.describe_capacity_block_extension_history(CapacityReservationIds=[reservation_id])
        ends = [
            one["CapacityBlockExtensionEndDate"].astimezone(UTC)
            for one in history["CapacityBlockExtensions"]
            if int(one["CapacityBlockExtensionDurationHours"]) == 24 * days
            and one["CapacityBlockExtensionPurchaseDate"].astimezone(UTC) >= since
            and one.get("CapacityBlockExtensionStatus") != "payment-failed"
        ]
        if ends:
            return max(ends)
        if clock.now() >= until:
            return None
        clock.sleep(_LOOK_EVERY_S)


def _token(reservation_id: str, days: int) -> str:
    return f"extend {reservation_id} {days}d"
