"""What the owner wants: when to sleep, what a delayed request is worth, and what it may cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from zoneinfo import ZoneInfo

from infra.timetable import Timetable

PRESETS: Mapping[str, float] = MappingProxyType({"thrifty": 2.0, "balanced": 4.0, "eager": 14.0})
"""Worth of a delayed request as a multiple of what one request costs on a machine that is awake."""

_DAY_MINUTES = 24 * 60
_NEVER_OPEN = Timetable((), ZoneInfo("UTC"))


class Mode(StrEnum):
    """How an idle machine is judged: by what was learned, by a fixed timer, or never put to sleep."""

    LEARNED = "learned"
    TIMER = "timer"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class DelayValue:
    """What it is worth that one request is not delayed by a wake: in dollars, or relative to a request's own cost.

    - `usd`: dollars a request; wins where both are given.
    - `times_own_cost`: multiple of machine cost an awake hour ÷ requests an awake hour, which the history knows.
    """

    usd: float | None = None
    times_own_cost: float = PRESETS["balanced"]

    def __str__(self) -> str:
        """In words: `$0.05 a delayed request`."""
        if self.usd is not None:
            return f"${self.usd:g} a delayed request"
        return f"{self.times_own_cost:g} times a request's own cost"


@dataclass(frozen=True, slots=True)
class Policy:
    """The owner's wishes.

    - `mode`: how an idle machine is judged; `idle_s` is the timer's, and the learned mode's while it knows nothing yet.
    - `value`: what a delayed request is worth.
    - `minimum_idle_s`: no sleep sooner after the last request, whatever was learned.
    - `minimum_uptime_s`: no sleep by timer or by what was learned sooner after it began to serve.
    - `timetable`: hours at which it is to be awake whatever the traffic; `exceptions` replaces a date's hours by others,
      pairs of first and last minute of that day; no pair is a day off.
    - `wake_ahead`: wake before the timetable opens and before expected traffic, instead of at it.
    - `monthly_budget_usd`: at this, it sleeps until raised. None sets no limit.
    - `min_replicas`, `max_replicas`: while awake; `waiting_for_scale` requests that wait call for one more.
    """

    mode: Mode = Mode.LEARNED
    idle_s: float = 1800.0
    value: DelayValue = field(default_factory=DelayValue)
    minimum_idle_s: float = 120.0
    minimum_uptime_s: float = 0.0
    timetable: Timetable = _NEVER_OPEN
    exceptions: Mapping[date, tuple[tuple[int, int], ...]] = field(default_factory=lambda: MappingProxyType({}))
    wake_ahead: bool = True
    monthly_budget_usd: float | None = None
    min_replicas: int = 1
    max_replicas: int = 1
    waiting_for_scale: int = 8

    def opens_at(self, now: datetime) -> datetime | None:
        """When the timetable is next open: `now` itself while it is; None where that is not within eight days."""
        if not self.timetable.entries and not self.exceptions:
            return None
        spans = [span for span in self._spans(now) if span[1] > now]
        return max(now, min(spans)[0]) if spans else None

    def closes_at(self, now: datetime) -> datetime | None:
        """When the timetable closes after `now`; None while it is closed."""
        if not self.timetable.entries and not self.exceptions:
            return None
        end: datetime | None = None
        for start, stop in sorted(self._spans(now)):
            if start <= (end or now) < stop:
                end = stop
        return end

    def _spans(self, now: datetime) -> list[tuple[datetime, datetime]]:
        """Open hours from yesterday on, as instants: wall clock times become instants day by day."""
        zone = self.timetable.zone
        today = now.astimezone(zone).date()
        utc = ZoneInfo("UTC")
        found: list[tuple[datetime, datetime]] = []
        for offset in range(-1, 9):
            day = today + timedelta(days=offset)
            pairs = self.exceptions.get(day)
            if pairs is None:
                pairs = tuple(
                    (entry.start_minute, entry.end_minute)
                    for entry in self.timetable.entries
                    if day.weekday() in entry.days
                )
            midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
            for first, last in pairs:
                # A datetime plus minutes stays on the wall clock; only then does it become an instant.
                start = (midnight + timedelta(minutes=first)).astimezone(utc)
                stop = (midnight + timedelta(minutes=last)).astimezone(utc)
                if start < stop and first < last <= 2 * _DAY_MINUTES:
                    found.append((start, stop))
        return found
