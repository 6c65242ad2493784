"""The kinds of wrong reservation ids are told apart, each with what would work."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.preflight.reservations import Reservation, VerdictKind, judge_reservation

NOW = datetime(2026, 12, 10, 12, tzinfo=UTC)
GOOD = Reservation(
    "cr-0123456789abcdef0", "active", "capacity-block", "p5en.48xlarge", "us-east-2a", "use2-az1",
    NOW - timedelta(days=1), NOW + timedelta(days=6), 2, 1,
)  # fmt: skip


def judge(reservation: Reservation | None, now: datetime = NOW, nodes: int = 1):
    return judge_reservation(
        reservation,
        reservation_id=GOOD.reservation_id,
        instance_type="p5en.48xlarge",
        zone="use2-az1",
        now=now,
        nodes=nodes,
    )


@pytest.mark.parametrize(
    ("changed", "kind", "words"),
    [
        ({}, VerdictKind.USABLE, "1 of 2 instances free"),
        ({"state": "expired"}, VerdictKind.EXPIRED, "expired"),
        ({"state": "payment-failed"}, VerdictKind.FAILED, "payment-failed"),
        ({"state": "payment-pending"}, VerdictKind.PAYMENT_PENDING, "12 hours"),
        ({"kind": "default"}, VerdictKind.NO_CAPACITY_BLOCK, "On-Demand Capacity Reservation"),
        ({"instance_type": "p5e.48xlarge"}, VerdictKind.WRONG_TYPE, "p5en.48xlarge that is wanted"),
        ({"zone": "us-east-2b", "zone_id": "use2-az2"}, VerdictKind.FOREIGN_ZONE, "the candidate's use2-az1"),
        ({"state": "scheduled", "start": NOW + timedelta(hours=5)}, VerdictKind.NOT_STARTED, "in 5 h 00 min"),
        ({"free": 0}, VerdictKind.NO_FREE_INSTANCE, "0 of 2"),
        # EC2 takes instances back 30 minutes before the end.
        ({"end": NOW + timedelta(minutes=29)}, VerdictKind.EXPIRED, "30 minutes before"),
    ],
)
def test_kinds_are_told_apart(changed: dict, kind: VerdictKind, words: str) -> None:
    verdict = judge(replace(GOOD, **changed))

    assert verdict.kind is kind
    assert words in verdict.words
    assert verdict.usable or verdict.remedy


def test_an_unknown_id_stops_and_names_it() -> None:
    verdict = judge(None)

    assert verdict.stops
    assert GOOD.reservation_id in verdict.words


def test_a_scheduled_block_of_a_foreign_zone_is_foreign_since_waiting_would_not_help() -> None:
    block = replace(GOOD, state="scheduled", start=NOW + timedelta(days=1), zone="us-east-2b", zone_id="use2-az2")

    assert judge(block).kind is VerdictKind.FOREIGN_ZONE


@given(hours=st.integers(-100, 300), free=st.integers(0, 2), nodes=st.integers(1, 2))
def test_usable_exactly_between_start_and_half_an_hour_before_the_end_with_enough_free(
    hours: int, free: int, nodes: int
) -> None:
    now = NOW + timedelta(hours=hours)
    assert GOOD.start is not None
    assert GOOD.end is not None
    expected = GOOD.start <= now < GOOD.end - timedelta(minutes=30) and free >= nodes

    assert judge(replace(GOOD, free=free), now, nodes).usable is expected
