"""Refusals sorted, metrics parsed: what a wrong reading would cost is a wake that gives up, or a cut answer."""

import pytest

from infra.jobs.capacity import FailureKind, failure_kind
from infra.jobs.metrics import parse_requests
from infra.jobs.observation import Requests
from infra.sandbox.cloud.refusals import refusal_for
from serving.units import duration_text


@pytest.mark.parametrize(
    ("purchase", "code", "kind"),
    [
        ("on-demand", "InsufficientInstanceCapacity", FailureKind.CAPACITY),
        ("spot", "InsufficientInstanceCapacity", FailureKind.CAPACITY),
        ("spot", "UnfulfillableCapacity", FailureKind.CAPACITY),
        ("spot", "MaxSpotInstanceCountExceeded", FailureKind.QUOTA),
        ("on-demand", "VcpuLimitExceeded", FailureKind.QUOTA),
        ("capacity-block", "ReservationCapacityExceeded", FailureKind.RESERVATION),
        ("capacity-block", "InvalidCapacityReservationId.NotFound", FailureKind.CONFIGURATION),
        ("capacity-block", "InvalidCapacityReservationState", FailureKind.CONFIGURATION),
        ("on-demand", "Unsupported", FailureKind.CONFIGURATION),
    ],
)
def test_every_refusal_of_ec2(purchase: str, code: str, kind: FailureKind) -> None:
    assert failure_kind(refusal_for(purchase, "p5e.48xlarge", "us-east-2a", code, "cr-1").message) is kind


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("You are not authorized to perform this operation. Launching EC2 instance failed.", FailureKind.CONFIGURATION),
        ("Client.InternalError: Client error on launch", FailureKind.CONFIGURATION),
        ("Something new happened.", FailureKind.OTHER),
    ],
)
def test_other_messages(message: str, kind: FailureKind) -> None:
    assert failure_kind(message) is kind


def test_only_what_may_heal_is_waited_for() -> None:
    assert {kind for kind in FailureKind if kind.may_heal} == {
        FailureKind.CAPACITY,
        FailureKind.RESERVATION,
        FailureKind.OTHER,
    }


PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="kimi {odd} name"} 3.0
vllm:num_requests_running{engine="1",model_name="kimi"} 2.0 1790000000000
vllm:num_requests_waiting{engine="0",model_name="kimi"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="kimi",reason="capacity"} 1.0
"""


def test_requests_of_all_engines_are_summed() -> None:
    assert parse_requests(PAGE) == Requests(running=5, waiting=1)
    assert parse_requests("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n") == Requests(0, 0)


@pytest.mark.parametrize(
    "page",
    ["", "<html>", "vllm:num_requests_running 1\n", PAGE.replace("} 3.0", "} NaN"), PAGE.replace("} 3.0", "} ")],
)
def test_what_cannot_be_read_is_unknown(page: str) -> None:
    assert parse_requests(page) is None


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (89, "89 s"), (90, "2 min"), (3540, "59 min"), (3900, "1 h 05 min")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration_text(seconds) == words
