"""Time as an argument: the wall clock for real clouds, a faster one for the sandbox.

Jobs never call `time` themselves; they take a `Clock`, so one program runs against AWS in real time and against the
sandbox sixty times faster, and every stored time stamp is the clock's own.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where a job reads the time and waits."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never go back, for measuring a wait."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of this clock's time."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        time.sleep(max(0.0, seconds))


@dataclass(frozen=True)
class ScaledClock:
    """A clock that runs `speed` times faster than the machine's.

    Two processes given the same three numbers read the same time, so the sandbox's cloud and the command line agree.

    - `origin_unix_s`: the real time at which it was set, in seconds since 1970.
    - `origin_simulated_unix_s`: the time it showed then.
    - `speed`: simulated seconds in one real second, above 0.
    """

    origin_unix_s: float
    origin_simulated_unix_s: float
    speed: float

    def now(self) -> datetime:
        """The simulated time of day, aware, in UTC."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=self.monotonic_s())

    def monotonic_s(self) -> float:
        """Simulated seconds since 1970."""
        return self.origin_simulated_unix_s + (time.time() - self.origin_unix_s) * self.speed

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of simulated time."""
        time.sleep(max(0.0, seconds) / self.speed)
