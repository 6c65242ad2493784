"""The ordered capacity candidates of a stack: how a machine is bought, and in which zone."""

import re
from dataclasses import dataclass
from typing import Any

from components.gpu_node_group import Purchase
from infra.configuration import ConfigurationReader
from serving.accelerators import InstanceShape, instance_shapes_as_of

_ACCEPTED = (
    "a list of {purchase: on-demand | spot | capacity-block, zone: …, reservationId: cr-… (capacity-block only)}"
)
_FIELDS = ("purchase", "zone", "reservationId")
_ZONE_ID = re.compile(r"[a-z]{3,4}\d-az\d+")
# The short region code that zone ids start with, such as `use2` of us-east-2.
_DIRECTIONS = {
    "north": "n", "south": "s", "east": "e", "west": "w", "central": "c", "northeast": "ne", "southeast": "se",
    "northwest": "nw", "southwest": "sw",
}  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """One place where capacity is looked for.

    `zone` is a zone's name (`us-east-2a`) or its id (`use2-az1`); names differ between accounts, ids do not.
    """

    purchase: Purchase
    zone: str
    reservation_id: str | None

    @property
    def zone_is_id(self) -> bool:
        """True where `zone` is a zone id."""
        return bool(_ZONE_ID.fullmatch(self.zone))


def read_candidates(read: ConfigurationReader, region: str, shape: InstanceShape | None) -> tuple[Candidate, ...]:
    """Every candidate of the `capacity` key; faults go to `read`. Zones are checked against the dated offerings."""
    unlisted = read.flag("allowUnlistedZones", False)
    candidates: list[Candidate] = []
    if shape is not None and region and not unlisted:
        sold = [zone for zone in shape.zone_ids if zone.startswith(region_code(region) + "-")]
        if not sold:
            regions = sorted({zone.split("-")[0] for zone in shape.zone_ids})
            read.fault(
                "region",
                region,
                f"a region that sells {shape.name} ({instance_shapes_as_of()}), by zone id: {', '.join(regions)};"
                " allowUnlistedZones: true skips this check",
            )
    for index, entry in enumerate(read.objects("capacity", _ACCEPTED)):
        candidate = _candidate(read, f"capacity[{index}]", entry, region, None if unlisted else shape)
        if candidate is not None and candidate in candidates:
            read.fault(f"capacity[{index}]", "the same as an earlier one", "candidates that differ")
        elif candidate is not None:
            candidates.append(candidate)
    return tuple(candidates)


def _candidate(
    read: ConfigurationReader, key: str, entry: dict[str, Any], region: str, shape: InstanceShape | None
) -> Candidate | None:
    before = len(read.faults)
    for field, value in entry.items():
        if field not in _FIELDS:
            read.fault(f"{key}.{field}", repr(value), f"only {', '.join(_FIELDS)}")
    purchase = entry.get("purchase")
    accepted = [mode.value for mode in Purchase]
    if purchase not in accepted:
        read.fault(f"{key}.purchase", "nothing" if purchase is None else str(purchase), ", ".join(accepted))
    zone = entry.get("zone")
    code = region_code(region)
    zones = f"a zone of {region or 'the region'}, by name ({region or 'us-east-2'}a) or id ({code or 'use2'}-az1)"
    if not isinstance(zone, str) or not zone:
        read.fault(f"{key}.zone", "nothing" if zone is None else repr(zone), zones)
    elif region and not re.fullmatch(re.escape(region) + "[a-z]", zone) and not zone.startswith(f"{code}-az"):
        read.fault(f"{key}.zone", zone, zones)
    elif shape is not None and _ZONE_ID.fullmatch(zone) and zone not in shape.zone_ids:
        here = [known for known in shape.zone_ids if known.startswith(code + "-")]
        read.fault(
            f"{key}.zone",
            f"{zone}, which does not list {shape.name} ({instance_shapes_as_of()})",
            f"{', '.join(here) or 'another region'}; allowUnlistedZones: true skips this check",
        )
    reservation = entry.get("reservationId")
    if purchase == Purchase.CAPACITY_BLOCK:
        if not isinstance(reservation, str) or not re.fullmatch(r"cr-[0-9a-f]{8,17}", reservation):
            given = "nothing" if reservation is None else str(reservation)
            read.fault(f"{key}.reservationId", given, "the id of a bought Capacity Block, cr-0123456789abcdef0")
    elif reservation is not None:
        read.fault(f"{key}.reservationId", str(reservation), "nothing, since only capacity-block has a reservation")
    if len(read.faults) > before:
        return None
    return Candidate(Purchase(str(purchase)), str(zone), reservation if isinstance(reservation, str) else None)


def region_code(region: str) -> str:
    """The code that zone ids of `region` start with: `use2` for us-east-2, `apse3` for ap-southeast-3."""
    parts = region.split("-")
    if len(parts) != 3 or parts[1] not in _DIRECTIONS:
        return ""
    return f"{parts[0]}{_DIRECTIONS[parts[1]]}{parts[2]}"
