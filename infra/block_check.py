"""Preview's look at the Capacity Blocks that candidates name: what can never work is a fault, what waits is said."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pulumi
import pulumi_aws as aws

from infra.environment import Environment
from infra.preflight.reservations import Reservation, VerdictKind, judge_reservation
from serving.errors import ConfigurationError, Fault

# A block that has ended or whose payment failed costs nothing any more: the rest of the stack may still change.
_WARNED = (VerdictKind.EXPIRED, VerdictKind.FAILED)


def check_blocks(environment: Environment, zones: Mapping[str, str]) -> None:
    """Ask for every reservation id and judge it; warns of what waits or has ended.

    - `zones`: each candidate's zone as written to its name in this account.

    Raises ConfigurationError with every id of another type or in another zone. An unknown id is the provider's error,
    which names it: Pulumi does not let a program go on after a failed function.
    """
    faults: list[Fault] = []
    for index, candidate in enumerate(environment.candidates):
        if candidate.reservation_id is None:
            continue
        verdict = judge_reservation(
            _reservation(candidate.reservation_id),
            reservation_id=candidate.reservation_id,
            instance_type=environment.shape.name,
            zone=zones[candidate.zone],
            now=datetime.now(UTC),
            nodes=environment.replicas.nodes,
        )
        if verdict.stops and verdict.kind not in _WARNED:
            value = f"{candidate.reservation_id}, but {verdict.words}"
            faults.append(Fault(f"dormouse:capacity[{index}].reservationId", value, verdict.remedy))
        elif not verdict.usable and verdict.kind is not VerdictKind.NO_FREE_INSTANCE:
            pulumi.log.warn(f"dormouse:capacity[{index}]: {verdict.words}; {verdict.remedy}")
    if faults:
        raise ConfigurationError(faults)


def _reservation(reservation_id: str) -> Reservation:
    """The block as the provider finds it; an id that it does not find ends the run with the provider's own words."""
    found = aws.ec2.get_capacity_block_reservation(id=reservation_id)
    return Reservation(
        reservation_id=reservation_id,
        state=found.state,
        kind=found.reservation_type or "capacity-block",
        instance_type=found.instance_type,
        zone=found.availability_zone,
        zone_id=found.availability_zone_id or "",
        start=_time(found.start_date),
        end=_time(found.end_date),
        total=found.instance_count,
        free=found.available_instance_count,
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(UTC) if text else None
