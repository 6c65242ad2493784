"""The hours at which a service is wanted: `mon-fri 08:00-19:00`, one entry a line, in the team's own time zone."""

import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ACCEPTED = "entries such as `mon-fri 08:00-19:00`, `sat 10:00-14:00` or `daily 22:00-02:00` (over midnight)"
_ENTRY = re.compile(r"(?P<first>[a-z]{3,5})(-(?P<last>[a-z]{3}))? (?P<start>\d\d:\d\d)-(?P<end>\d\d:\d\d)")
_MINUTES_PER_DAY = 24 * 60
_WEEKS_PER_MONTH = 730 / 168


@dataclass(frozen=True)
class TimetableEntry:
    """One entry: weekdays (0 is Monday), first and last minute of the day; `end_minute` may pass midnight."""

    days: tuple[int, ...]
    start_minute: int
    end_minute: int


@dataclass(frozen=True)
class Timetable:
    """Every entry, and the zone that they are meant in. No entries: the service is wanted only when asked for."""

    entries: tuple[TimetableEntry, ...]
    zone: ZoneInfo

    @property
    def hours_per_week(self) -> float:
        """Hours a week that the entries cover, overlaps counted once."""
        return len(self._minutes()) / 60

    @property
    def hours_per_month(self) -> float:
        """Hours in a month of 730 hours."""
        return self.hours_per_week * _WEEKS_PER_MONTH

    @property
    def starts_per_week(self) -> int:
        """Times a week at which a wanted stretch begins; entries that touch are one stretch."""
        minutes = self._minutes()
        week = 7 * _MINUTES_PER_DAY
        return sum((minute - 1) % week not in minutes for minute in minutes)

    def _minutes(self) -> set[int]:
        week = 7 * _MINUTES_PER_DAY
        return {
            (day * _MINUTES_PER_DAY + minute) % week
            for entry in self.entries
            for day in entry.days
            for minute in range(entry.start_minute, entry.end_minute)
        }


def parse_entry(text: str) -> TimetableEntry | None:
    """The entry that `text` says, or None where it says none."""
    match = _ENTRY.fullmatch(text.strip().lower())
    if match is None:
        return None
    first, last = match["first"], match["last"]
    if first == "daily" and last is None:
        days = tuple(range(7))
    elif first in DAYS and last is None:
        days = (DAYS.index(first),)
    elif first in DAYS and last in DAYS:
        begin, end = DAYS.index(first), DAYS.index(last)
        days = tuple(day % 7 for day in range(begin, end + 1 + (7 if end < begin else 0)))
    else:
        return None
    start, end = _minute(match["start"]), _minute(match["end"])
    if start is None or end is None or start in (end, _MINUTES_PER_DAY):
        return None
    return TimetableEntry(days, start, end + (_MINUTES_PER_DAY if end < start else 0))


def _minute(text: str) -> int | None:
    hours, minutes = (int(part) for part in text.split(":"))
    if hours > 24 or minutes > 59 or (hours == 24 and minutes):
        return None
    return hours * 60 + minutes
