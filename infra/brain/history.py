"""The service's own traffic, kept small: what `learner.py` reads. It is updated as time goes by and never looks ahead.

Time is cut into buckets of ten minutes of the team's wall clock. Kept are, all with older days weighing less:
how often each bucket of the day and each hour of the week was busy and with how many requests; how gaps of each length
ended; how busy the last hours were; and the weights with which these witnesses are believed, which are themselves
learned from how well each foretold what came (online logistic regression, as in context-mixing compressors).
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, cast
from zoneinfo import ZoneInfo

BUCKET_S = 600
BUCKETS_PER_DAY = 144
MAXIMUM_BYTES = 16 * 1024

_HOURS_PER_WEEK = 168
_GAP_ENDS = (0, 1, 2, 3, 4, 6, 8, 12, 18, 24, 36, 48, 72, 100, 144, 216)
_GAP_BINS = len(_GAP_ENDS) + 1
# Weight that a week, a gap, a bucket, an arrival keeps when the next one comes.
_WEEK_DECAY, _GAP_DECAY, _TOTAL_DECAY, _ARRIVAL_DECAY = 0.9, 0.985, 0.9995, 0.97
HOUR_DECAY, LEVEL_DECAY = 0.8, 0.97
_NARROW, _WIDE = 2, 9
_SHRINK, _HOUR_SHRINK, _GAP_SHRINK, _VOLUME_SHRINK = 2.0, 6.0, 3.0, 3.0
# First belief: time of day, near and wide; hour of week; length of the gap; last hours; last hour; yesterday; constant.
_FIRST_WEIGHTS = (0.2, 0.15, 0.05, 0.5, 0.0, 0.2, 0.05, 0.0)
_MAXIMUM_WEIGHT = 8.0
_VERSION = 1
Answer = TypeVar("Answer")


def _gap_bin(gap: int) -> int:
    for index, end in enumerate(_GAP_ENDS):
        if gap <= end:
            return index
    return _GAP_BINS - 1


_BIN_OF_GAP = tuple(_gap_bin(gap) for gap in range(_GAP_ENDS[-1] + 2))


def log_odds(chance: float) -> float:
    """ln(p ÷ (1 - p)), with p kept between 0.002 and 0.998."""
    chance = min(max(chance, 0.002), 0.998)
    return math.log(chance / (1 - chance))


@dataclass(frozen=True, slots=True)
class Learning:
    """How fast it learns; `benchmarks/sleep_policy.py` tells how little depends on it, judged over unseen services.

    - `rate`: of the witnesses' weights. `day_decay`: weight that a day keeps when the next one comes.
    - `profile_share`: how far the time of day, and not the level before the gap, foretells how many requests come.
    - `persistence_buckets`: after so long a gap the level before it has lost all but 1/e of its say.
    """

    rate: float = 0.05
    day_decay: float = 0.8
    profile_share: float = 0.2
    persistence_buckets: float = 36.0


FIRST_LEARNING = Learning()


class History:
    """Counts of the past. `observe` adds what was seen since the last call; everything else reads.

    `zone` is the IANA name of the time zone whose days and weeks are meant.
    """

    def __init__(self, zone: str = "UTC", learning: Learning = FIRST_LEARNING) -> None:
        self.version = _VERSION
        self.zone = zone
        self.bucket: int | None = None
        self.open_requests = 0.0
        self.open_known = True
        self.gap = 0
        self.buckets_seen = 0
        self.arrivals = 0
        self.hour_level = 0.0
        self.level = 0.0
        self.volume_level = 0.0
        self.weights = [list(_FIRST_WEIGHTS), list(_FIRST_WEIGHTS)]
        self.day_trials = [0.0] * BUCKETS_PER_DAY
        self.day_busy = [0.0] * BUCKETS_PER_DAY
        self.day_requests = [0.0] * BUCKETS_PER_DAY
        self.yesterday = [0.5] * BUCKETS_PER_DAY
        self.week_trials = [0.0] * _HOURS_PER_WEEK
        self.week_busy = [0.0] * _HOURS_PER_WEEK
        self.gap_trials = [0.0] * _GAP_BINS
        self.gap_ends = [0.0] * _GAP_BINS
        self.totals = [0.0, 0.0, 0.0]  # buckets, busy ones, requests
        self.arrival_totals = [0.0, 0.0]  # arrivals after a gap, requests a bucket at them
        self.after_arrival = False
        self._sums: dict[int, tuple[float, ...]] = {}
        self._remembered: dict[tuple[object, ...], Any] = {}
        self._zone = ZoneInfo(zone)
        self._learning = learning

    def observe(self, now: datetime, requests: float | None) -> None:
        """Add the `requests` that came since the last call; None where that is unknown: then nothing is learned.

        Buckets that ended by `now` are closed. A clock that goes back adds to the present bucket.
        """
        offset = now.astimezone(self._zone).utcoffset()
        local_s = now.timestamp() + (offset.total_seconds() if offset else 0.0)
        # What came since the last look belongs to the time before `now`.
        belongs = math.ceil(local_s / BUCKET_S) - 1
        if self.bucket is None:
            self.bucket = belongs
        if belongs - self.bucket > 1:
            # Nobody looked meanwhile: of the open bucket only its requests are known, of the others nothing.
            self.open_known = self.open_known and self.open_requests > 0
            self._close()
            self._skip(belongs - self.bucket)
        elif belongs > self.bucket:
            self._close()
        if requests is None:
            self.open_known = False
        else:
            self.open_requests += max(0.0, requests)
        if local_s >= (self.bucket + 1) * BUCKET_S:
            self._close()

    @property
    def is_new(self) -> bool:
        """Whether it knows too little for a judgement: no traffic that ended and came again, and less than a day."""
        return self.arrivals == 0 and self.buckets_seen < BUCKETS_PER_DAY

    @property
    def open_is_busy(self) -> bool:
        """Whether the present bucket has seen a request."""
        return self.open_requests > 0

    @property
    def requests_per_busy_bucket(self) -> float:
        """Mean requests of a bucket that has any; 0 where none had."""
        return self.totals[2] / self.totals[1] if self.totals[1] else 0.0

    def remembered(self, key: tuple[object, ...], make: Callable[[], Answer]) -> Answer:
        """What `make` gives, made once while the present bucket is open: what is learned does not change within it."""
        if key not in self._remembered:
            self._remembered[key] = make()
        return self._remembered[key]

    def chance(self, ahead: int) -> float:
        """The chance that traffic comes in the bucket `ahead` (1 is the next to close) if none comes before it."""
        gap = self.gap + ahead - 1
        weights = self.weights[min(gap, 1)]
        score = sum(map(_product, weights, self._witnesses(ahead)))
        return 1 / (1 + math.exp(-score)) if score > -30 else 0.0

    def expected_requests(self, ahead: int) -> float:
        """Requests a bucket to expect if traffic comes in the bucket `ahead`: by the time of day and the level before."""
        assert self.bucket is not None
        gap = self.gap + ahead - 1
        sums = self._sums_at((self.bucket + ahead - 1) % BUCKETS_PER_DAY)
        at_arrival = (self.arrival_totals[1] + self.requests_per_busy_bucket) / (self.arrival_totals[0] + 2)
        by_hour = (sums[4] + _VOLUME_SHRINK * at_arrival) / (sums[0] + _VOLUME_SHRINK)
        kept = math.exp(-gap / self._learning.persistence_buckets)
        by_level = kept * self.volume_level + (1 - kept) * at_arrival
        share = self._learning.profile_share
        return share * by_hour + (1 - share) * by_level

    def _witnesses(self, ahead: int) -> list[float]:
        """What each witness says of the bucket `ahead`, as log odds; the last is the constant."""
        assert self.bucket is not None
        bucket = self.bucket + ahead - 1
        slot = bucket % BUCKETS_PER_DAY
        hour = (bucket // 6) % _HOURS_PER_WEEK
        near_busy, near_trials, wide_busy, wide_trials, _ = self._sums_at(slot)
        base = (self.totals[1] + 0.5) / (self.totals[0] + 1)
        wide = (wide_busy + _SHRINK * base) / (wide_trials + _SHRINK)
        near = (near_busy + _SHRINK * wide) / (near_trials + _SHRINK)
        weekly = (self.week_busy[hour] + _HOUR_SHRINK * wide) / (self.week_trials[hour] + _HOUR_SHRINK)
        length = self.gap + ahead - 1
        which = _BIN_OF_GAP[length] if length < len(_BIN_OF_GAP) else _GAP_BINS - 1
        mean_end = (sum(self.gap_ends) + 0.5) / (sum(self.gap_trials) + 5)
        ends = (self.gap_ends[which] + _GAP_SHRINK * mean_end) / (self.gap_trials[which] + _GAP_SHRINK)
        past = self.yesterday
        before = 0.5 * past[slot] + 0.25 * past[slot - 1] + 0.25 * past[(slot + 1) % BUCKETS_PER_DAY]
        return [
            log_odds(near),
            log_odds(wide),
            log_odds(weekly),
            log_odds(ends),
            log_odds(self.level * LEVEL_DECAY ** (ahead - 1)),
            log_odds(self.hour_level * HOUR_DECAY ** (ahead - 1)),
            log_odds(0.9 * before + 0.05),
            1.0,
        ]

    def _sums_at(self, slot: int) -> tuple[float, ...]:
        """Smoothed over the neighbouring times of day: busy and trials, near and wide, and requests near."""
        known = self._sums.get(slot)
        if known is None:
            totals = [0.0] * 5
            for offset in range(-_WIDE, _WIDE + 1):
                at = (slot + offset) % BUCKETS_PER_DAY
                share = 1 - abs(offset) / (_WIDE + 1)
                totals[2] += share * self.day_busy[at]
                totals[3] += share * self.day_trials[at]
                if abs(offset) <= _NARROW:
                    share = 1 - abs(offset) / (_NARROW + 1)
                    totals[0] += share * self.day_busy[at]
                    totals[1] += share * self.day_trials[at]
                    totals[4] += share * self.day_requests[at]
            known = self._sums[slot] = tuple(totals)
        return known

    def _close(self) -> None:
        """The present bucket has ended: learn from it and open the next."""
        self._remembered.clear()
        assert self.bucket is not None
        if not self.open_known:
            self._skip(1)
            return
        requests = self.open_requests
        busy = 1.0 if requests > 0 else 0.0
        if self.buckets_seen:
            self._learn(busy)
        slot, hour = self.bucket % BUCKETS_PER_DAY, (self.bucket // 6) % _HOURS_PER_WEEK
        self.yesterday[slot] = busy
        self.day_trials[slot] = self.day_trials[slot] * self._learning.day_decay + 1
        self.day_busy[slot] = self.day_busy[slot] * self._learning.day_decay + busy
        self.day_requests[slot] = self.day_requests[slot] * self._learning.day_decay + requests
        self.week_trials[hour] = self.week_trials[hour] * _WEEK_DECAY + 1
        self.week_busy[hour] = self.week_busy[hour] * _WEEK_DECAY + busy
        for offset in range(-_WIDE, _WIDE + 1):
            self._sums.pop((slot + offset) % BUCKETS_PER_DAY, None)
        for index, value in enumerate((1.0, busy, requests)):
            self.totals[index] = self.totals[index] * _TOTAL_DECAY + value
        self.hour_level = self.hour_level * HOUR_DECAY + (1 - HOUR_DECAY) * busy
        self.level = self.level * LEVEL_DECAY + (1 - LEVEL_DECAY) * busy
        arrives = bool(busy) and (self.gap > 0 or not self.buckets_seen)
        if arrives:
            self.arrivals += self.buckets_seen > 0
            self.arrival_totals = [
                self.arrival_totals[0] * _ARRIVAL_DECAY + 1,
                self.arrival_totals[1] * _ARRIVAL_DECAY + requests / 2,
            ]
            self.volume_level = 0.6 * self.volume_level + 0.4 * requests
        elif busy:
            self.volume_level = 0.8 * self.volume_level + 0.2 * requests
        if self.after_arrival:
            self.arrival_totals[1] += requests / 2
        self.after_arrival = arrives
        self.gap = 0 if busy else self.gap + 1
        self.buckets_seen += 1
        self.bucket += 1
        self.open_requests = 0.0

    def _learn(self, busy: float) -> None:
        """Move the weights towards the witnesses that foretold it, and count how a gap of this length went on."""
        witnesses = self._witnesses(1)
        weights = self.weights[min(self.gap, 1)]
        score = sum(map(_product, weights, witnesses))
        missed = busy - (1 / (1 + math.exp(-score)) if score > -30 else 0.0)
        for index, witness in enumerate(witnesses):
            moved = weights[index] + self._learning.rate * missed * witness
            weights[index] = min(max(moved, -_MAXIMUM_WEIGHT), _MAXIMUM_WEIGHT)
        which = _BIN_OF_GAP[min(self.gap, len(_BIN_OF_GAP) - 1)]
        self.gap_trials[which] = self.gap_trials[which] * _GAP_DECAY + 1
        self.gap_ends[which] = self.gap_ends[which] * _GAP_DECAY + busy

    def _skip(self, buckets: int) -> None:
        """Pass over buckets of which nothing is known."""
        self._remembered.clear()
        assert self.bucket is not None
        self.bucket += buckets
        self.open_requests, self.open_known, self.after_arrival = 0.0, True, False

    def to_json(self) -> str:
        """Compact JSON, below 16 KiB, with six significant digits."""
        state = {key: _rounded(value) for key, value in vars(self).items() if not key.startswith("_")}
        return json.dumps(state, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "History":
        """The history that `to_json` wrote. ValueError, which says what is wrong, where it is none."""
        try:
            state: dict[str, Any] = json.loads(text)
            history = cls(state["zone"])
            for key, first in vars(history).items():
                if not key.startswith("_"):
                    setattr(history, key, _checked(key, state[key], first))
        except (KeyError, TypeError, OSError, ValueError) as error:
            raise ValueError(f"not a traffic history of version {_VERSION}: {error}") from error
        return history


def _checked(key: str, value: Any, first: Any) -> Any:
    """`value`, if it is of the kind and length of what a new history holds."""
    if key == "version" and value != first:
        raise ValueError(f"it is version {value!r}")
    if isinstance(first, list):
        length = len(cast("list[Any]", first))
        if not isinstance(value, list) or len(cast("list[Any]", value)) != length:
            raise ValueError(f"{key} is not a list of {length}")
    elif first is not None and not isinstance(value, bool | int | float | str):
        raise TypeError(f"{key} is {type(value).__name__}")
    return cast("Any", value)


def _product(one: float, other: float) -> float:
    return one * other


def _rounded(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, float | list):
        return value
    if isinstance(value, list):
        return [_rounded(one) for one in cast("list[Any]", value)]
    return float(f"{value:.6g}")
