"""The simulated market of Capacity Blocks: what is on offer, what was bought, and what goes wrong while buying.

Every question gets new offering ids, as EC2's do; an id stays good for an hour. Prices are the published ones of
`infra/data/prices.toml`; a type without one is not on offer.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from infra.pricing import machine_price

PurchaseFault = Literal["lost-answer", "refused"]
PURCHASE_FAULTS: tuple[str, ...] = ("lost-answer", "refused")

# EC2: blocks end at 11:30 UTC.
_HOUR, _MINUTE = 11, 30
_OFFER_LIFE = timedelta(hours=1)
_LONGEST_BOOKING = timedelta(weeks=8)
_OFFERS_A_ZONE = 2


@dataclass(frozen=True)
class BlockOffer:
    """One offering: `instance_count` machines in `zone` (a name) from `start` to `end` for `fee_usd` in all.

    `extends` is the reservation that an extension offering makes longer, else None.
    """

    offering_id: str
    instance_type: str
    zone: str
    start: datetime
    end: datetime
    instance_count: int
    fee_usd: float
    made_at: datetime
    extends: str | None = None

    @property
    def hours(self) -> int:
        """Whole hours from start to end."""
        return round((self.end - self.start).total_seconds() / 3600)


@dataclass(frozen=True)
class Extension:
    """A bought extension, and when it was bought."""

    offer: BlockOffer
    bought_at: datetime


class BlockMarket:
    """What is on offer; `faults` holds what goes wrong at the next purchases, one each."""

    def __init__(self) -> None:
        """An open market."""
        self.offers: dict[str, BlockOffer] = {}
        self.extensions: list[Extension] = []
        self.faults: list[PurchaseFault] = []
        self.purchases = 0
        self._numbers = itertools.count(1)

    def offer(
        self,
        instance_type: str,
        region: str,
        zones: Iterable[str],
        hours: int,
        count: int,
        earliest: datetime,
        latest_end: datetime | None,
        now: datetime,
    ) -> list[BlockOffer]:
        """New offerings for the question; one zone's begin a day after the zone's before it."""
        price = machine_price(instance_type, "capacity-block", region)
        if price is None:
            return []
        fee = round(price.usd * hours * count, 2)
        made: list[BlockOffer] = []
        for index, zone in enumerate(zones):
            for later in range(_OFFERS_A_ZONE):
                start = _next_start(max(earliest, now)) + timedelta(days=index + 7 * later)
                end = start + timedelta(hours=hours)
                if start > now + _LONGEST_BOOKING or (latest_end is not None and end > latest_end):
                    continue
                made.append(self._keep(instance_type, zone, start, end, count, fee, now))
        return made

    def offer_extension(
        self, reservation_id: str, instance_type: str, region: str, zone: str, end: datetime, hours: int, count: int,
        now: datetime,
    ) -> list[BlockOffer]:  # fmt: skip
        """New extension offerings of a block that ends at `end`."""
        price = machine_price(instance_type, "capacity-block", region)
        if price is None:
            return []
        fee = round(price.usd * hours * count, 2)
        until = end + timedelta(hours=hours)
        return [self._keep(instance_type, zone, end, until, count, fee, now, reservation_id)]

    def take(self, offering_id: str, now: datetime) -> BlockOffer | None:
        """The offering of that id, or None where there is none (any more)."""
        offer = self.offers.get(offering_id)
        return offer if offer is not None and now - offer.made_at <= _OFFER_LIFE else None

    def next_fault(self) -> PurchaseFault | None:
        """What goes wrong at this purchase; counts it."""
        return self.faults.pop(0) if self.faults else None

    def number(self) -> int:
        """A number that was not given before."""
        return next(self._numbers)

    def _keep(
        self, instance_type: str, zone: str, start: datetime, end: datetime, count: int, fee: float, now: datetime,
        extends: str | None = None,
    ) -> BlockOffer:  # fmt: skip
        kind = "cbe" if extends else "cb"
        offering_id = f"{kind}-{self.number():017x}"
        offer = BlockOffer(offering_id, instance_type, zone, start, end, count, fee, now, extends)
        self.offers[offering_id] = offer
        return offer


def _next_start(earliest: datetime) -> datetime:
    start = earliest.astimezone(UTC).replace(hour=_HOUR, minute=_MINUTE, second=0, microsecond=0)
    return start if start >= earliest else start + timedelta(days=1)
