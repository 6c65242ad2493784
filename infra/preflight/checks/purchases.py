"""What can be bought: reservations that are named, Capacity Blocks on offer, spot prices of 90 days."""

from datetime import timedelta
from statistics import median
from typing import Any

from components.gpu_node_group import Purchase
from infra.jobs.blocks.offers import Wish, find_offers, on_demand_price
from infra.preflight.findings import Finding, Level, ok, warning
from infra.preflight.question import Question
from infra.preflight.reservations import Reservation, judge_reservation

_SPOT_DAYS = 90
_LONGEST_PAGES = 20
_LOOK_DAYS = (1, 14)


def reservations(question: Question) -> list[Finding]:
    """Every reservation id of the candidates, judged."""
    wanted = [one for one in question.environment.candidates if one.purchase is Purchase.CAPACITY_BLOCK]
    if not wanted:
        return [ok("reservations", "no candidate is a Capacity Block")]
    ec2 = question.account.client("ec2")
    known = {str(one["CapacityReservationId"]): one for one in _described(ec2)}
    findings: list[Finding] = []
    for candidate in wanted:
        reservation_id = str(candidate.reservation_id)
        described = known.get(reservation_id)
        verdict = judge_reservation(
            None if described is None else Reservation.from_ec2(described),
            reservation_id=reservation_id,
            instance_type=question.environment.shape.name,
            zone=candidate.zone,
            now=question.clock.now(),
            nodes=question.environment.replicas.nodes,
        )
        level = Level.OK if verdict.usable else Level.STOPS if verdict.stops else Level.WARNING
        facts = {"reservationId": reservation_id, "verdict": verdict.kind.value}
        findings.append(Finding("reservations", level, verdict.words, verdict.remedy, facts))
    return findings


def offers(question: Question) -> list[Finding]:
    """The cheapest Capacity Block for a day and for two weeks; nothing is bought."""
    environment = question.environment
    ec2 = question.account.client("ec2")
    price = on_demand_price(environment.shape.name, environment.region)
    findings: list[Finding] = []
    for days in _LOOK_DAYS:
        found = find_offers(ec2, Wish(environment.region, environment.shape.name, days, environment.replicas.machines))
        if not found:
            words = f"no Capacity Block of {environment.replicas.machines} × {environment.shape.name} for {days} days is on offer"
            findings.append(warning("blocks", words, f"dormouse block find --days {days}, other dates or zones"))
            continue
        best = found[0]
        words = (
            f"{days} days from {best.start:%Y-%m-%d} in {best.zone_id or best.zone}: ${best.fee_usd:,.2f} "
            f"(${best.usd_per_hour:.2f} an hour), the cheapest of {len(found)}"
        )
        findings.append(ok("blocks", words, days=days, **best.to_mapping(price)))
    return findings


def spot_prices(question: Question) -> list[Finding]:
    """Now, median and highest of 90 days for each zone with a price."""
    if not any(one.purchase is Purchase.SPOT for one in question.environment.candidates):
        return [ok("spot", "no candidate is spot")]
    shape, now = question.environment.shape.name, question.clock.now()
    by_zone: dict[str, list[tuple[Any, float]]] = {}
    pages = question.account.client("ec2").get_paginator("describe_spot_price_history")
    asked = {
        "Filters": [{"Name": "instance-type", "Values": [shape]}],
        "ProductDescriptions": ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
        "StartTime": now - timedelta(days=_SPOT_DAYS),
        "EndTime": now,
    }
    for number, page in enumerate(pages.paginate(**asked)):
        for one in page["SpotPriceHistory"]:
            by_zone.setdefault(str(one["AvailabilityZone"]), []).append((one["Timestamp"], float(one["SpotPrice"])))
        if number == _LONGEST_PAGES:
            break
    if not by_zone:
        words = f"no spot price of {shape} in {question.environment.region} in {_SPOT_DAYS} days"
        return [warning("spot", words, "spot is not sold there: take the spot candidates out, or use another region")]
    findings: list[Finding] = []
    for zone, history in sorted(by_zone.items()):
        values = [price for _, price in history]
        latest = max(history)[1]
        words = f"{zone}: ${latest:.2f} an hour now; {_SPOT_DAYS} days: median ${median(values):.2f}, highest ${max(values):.2f}"
        findings.append(ok("spot", words, zone=zone, now=latest, median=median(values), highest=max(values)))
    return findings


def _described(ec2: Any) -> list[dict[str, Any]]:
    """Blocks and On-Demand reservations alike, so that an id of the wrong kind is told apart from an unknown one."""
    pages = ec2.get_paginator("describe_capacity_reservations").paginate()
    return [one for page in pages for one in page["CapacityReservations"]]
