"""Dated prices: looked up by key and region, unknown where no row says so."""

import tomllib
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import Any, cast

HOURS_PER_MONTH = 730


@dataclass(frozen=True)
class Price:
    """One price row.

    - `usd`: US dollars for one hour or one month of one unit, as `unit` says (`hour` or `month`).
    - `confidence`: `high`, `medium` or `low`, by its source.
    """

    key: str
    regions: tuple[str, ...]
    usd: float
    unit: str
    as_of: date
    source: str
    confidence: str

    @property
    def usd_per_month(self) -> float:
        """What the unit costs in a month of 730 hours."""
        return self.usd * HOURS_PER_MONTH if self.unit == "hour" else self.usd

    def origin(self) -> str:
        """Date, confidence and source in a few words."""
        return f"{self.as_of.isoformat()}, {self.confidence}: {self.source}"


@cache
def prices() -> tuple[Price, ...]:
    """Every row of the data file."""
    text = (resources.files("infra") / "data" / "prices.toml").read_text(encoding="utf-8")
    rows = cast("list[dict[str, Any]]", tomllib.loads(text)["price"])
    return tuple(
        Price(
            key=row["key"],
            regions=tuple(row["regions"]),
            usd=float(row["usd_per_hour"] if "usd_per_hour" in row else row["usd_per_month"]),
            unit="hour" if "usd_per_hour" in row else "month",
            as_of=row["as_of"],
            source=row["source"],
            confidence=row["confidence"],
        )
        for row in rows
    )


def find_price(key: str, region: str) -> Price | None:
    """The price of `key` in `region`, or None where it is unknown; a row for the region beats one for all."""
    rows = [price for price in prices() if price.key == key]
    exact = [price for price in rows if region in price.regions]
    return next(iter(exact or [price for price in rows if "*" in price.regions]), None)


def machine_price(instance_type: str, purchase: str, region: str) -> Price | None:
    """What one machine costs by the hour in this purchase mode, or None where no price is published."""
    return find_price(f"ec2.{instance_type}.{purchase}", region)
