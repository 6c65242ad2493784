from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.programs.hydrator.faults import HydrateError, StoppedError, TransferError
from components.programs.hydrator.patience import Patience
from components.programs.hydrator.transport import Transport
from tests.programs.hub import REPOSITORY, Hub, Trouble


class Clock(Event):
    """Remembers how long somebody wanted to wait, and does not."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_s: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits_s.append(timeout or 0)
        return self.is_set()


def test_waits_grow_twofold_up_to_a_minute_and_bytes_start_them_anew() -> None:
    clock = Clock()
    patience = Patience(10, 1.0, clock)
    for _ in range(9):
        patience.wait_after(TransferError("reset"), "a file")
    for wait_s, longest_s in zip(clock.waits_s, (1, 2, 4, 8, 16, 32, 60, 60, 60), strict=True):
        assert longest_s / 2 <= wait_s <= longest_s
    with pytest.raises(HydrateError, match="a file: gave up after 10 attempts .* the last one: reset"):
        patience.wait_after(TransferError("reset"), "a file")
    patience.progressed()
    patience.wait_after(TransferError("reset"), "a file")
    assert clock.waits_s[-1] <= 1


@given(asked_s=st.floats(0, 5000))
def test_what_the_source_asks_for_is_waited_up_to_ten_minutes(asked_s: float) -> None:
    clock = Clock()
    Patience(3, 0.001, clock).wait_after(TransferError("429", asked_s), "a file")
    assert min(asked_s, 600) <= clock.waits_s[0] <= max(min(asked_s, 600), 0.001)


def test_told_to_end_it_waits_no_more() -> None:
    clock = Clock()
    clock.set()
    with pytest.raises(StoppedError):
        Patience(3, 60, clock).wait_after(TransferError("reset"), "a file")
    assert clock.waits_s == []


@pytest.mark.parametrize("given", ["7", "in an hour", "soon", ""])
def test_retry_after_may_be_seconds_or_a_date(given: str, hub: Hub) -> None:
    if given == "in an hour":
        # Not in the parameters: workers that collect in different seconds would disagree about the test's name.
        given = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    hub.troubles["listing"] = [Trouble(status=429, headers={"Retry-After": given} if given else {})]
    transport = Transport(5, 1, 1, Event())
    url = f"{hub.url}/api/models/{REPOSITORY}/revision/main"
    with pytest.raises(TransferError, match="answered 429") as broken, transport.request(url, {}) as answer:
        answer.check_transient()
    wait_s = broken.value.wait_s
    if given == "7":
        assert wait_s == 7
    elif given.endswith("GMT"):
        assert wait_s is not None
        assert 3000 < wait_s <= 3600
    else:
        assert wait_s is None
