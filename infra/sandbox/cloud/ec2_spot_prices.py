"""EC2's spot price history with prices that move, in the place of moto's single constant one."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's classes are untyped.

from datetime import timedelta
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS
from moto.ec2.responses import EC2Response

from infra.pricing import machine_price
from infra.sandbox.cloud.simulation import current

# Shares of the published price, oldest first, ten days apart.
_COURSE = (0.92, 0.95, 1.0, 1.18, 1.3, 1.07, 1.0, 0.98, 1.0)


def install() -> None:
    """Patch moto's EC2."""
    response: Any = EC2Response
    response.describe_spot_price_history = describe_spot_price_history


def describe_spot_price_history(self: Any) -> ActionResult:
    """DescribeSpotPriceHistory: a simulated course of 90 days around the published price; nothing without one."""
    now, region = current().clock.now(), str(self.region)
    filters = {one["Name"]: one["Values"] for one in self._get_param("Filters", [])}
    types = self._get_param("InstanceTypes", []) or filters.get("instance-type", [])
    history: list[dict[str, Any]] = []
    for one in INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, []):
        price = machine_price(one["InstanceType"], "spot", region) if one["InstanceType"] in types else None
        if price is None:
            continue
        for age, share in enumerate(reversed(_COURSE)):
            history.append(
                {
                    "InstanceType": one["InstanceType"],
                    "ProductDescription": "Linux/UNIX",
                    "SpotPrice": f"{price.usd * share:.6f}",
                    "AvailabilityZone": one["Location"],
                    "Timestamp": now - timedelta(days=10 * age),
                }
            )
    return ActionResult({"SpotPriceHistory": history})
