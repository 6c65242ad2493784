"""What a machine costs by the hour in each way to buy it, where a price is published; never a guess."""

from dataclasses import dataclass

from infra.pricing import Price, prices

PURCHASES = ("on-demand", "capacity-block", "spot")
# Ways to buy that can be counted on: a spot machine may go at any moment.
_DEPENDABLE = ("on-demand", "capacity-block")


@dataclass(frozen=True)
class MachinePrice:
    """One published price of a machine: how it is bought and in which region (`*` for every region)."""

    purchase: str
    region: str
    price: Price

    @property
    def usd_per_hour(self) -> float:
        """Dollars an hour for one machine."""
        return self.price.usd


def machine_prices(instance_type: str, region: str | None) -> tuple[MachinePrice, ...]:
    """One price for each way to buy that has one, in `PURCHASES`' order.

    In `region`; with None the lowest that is published for any region. Empty where nobody publishes one.
    """
    found: list[MachinePrice] = []
    for purchase in PURCHASES:
        offers = [
            MachinePrice(purchase, where, row)
            for row in prices()
            if row.key == f"ec2.{instance_type}.{purchase}"
            for where in row.regions
            if region is None or where in (region, "*")
        ]
        # A row for the region beats one for all regions, then the lower price wins.
        if offers:
            found.append(
                min(offers, key=lambda offer: (region is not None and offer.region == "*", offer.usd_per_hour))
            )
    return tuple(found)


def dependable_price(instance_type: str, region: str | None) -> MachinePrice | None:
    """The price of a machine that stays: on demand, else by capacity block; None where neither is published."""
    return next((one for one in machine_prices(instance_type, region) if one.purchase in _DEPENDABLE), None)


def usd_text(usd: float | None) -> str:
    """Dollars for a table: `$63.30`, or `unknown`."""
    return "unknown" if usd is None else f"${usd:,.2f}"
