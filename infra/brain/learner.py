"""Whether staying awake, sleeping or waking ahead is expected to cost least, from what `history.py` has learned.

The next eight hours are gone through backwards (Bellman's equation, three states: awake, asleep, waking). A bucket awake
costs its machine time; traffic that comes to a sleeping machine costs the requests that it delays × what each is worth.
Once traffic has come, both ways are awake and alike, so nothing after that matters. The unit is one awake bucket.
"""

from dataclasses import dataclass

from infra.brain.history import BUCKET_S, History
from infra.brain.policy import DelayValue

HORIZON_BUCKETS = 48
_MAXIMUM_WAKE_BUCKETS = 12


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found, in awake hours of machine time expected until traffic comes, at most eight hours.

    - `stay_h`, `sleep_h`, `wake_h`: the cost of each way, taking the best way afterwards; `wake_h` is infinite where
      waking ahead is not wanted.
    - `next_s`: seconds until traffic has come with a chance of one half; None where that is beyond the horizon.
    - `chance`: that it comes while a wake would last.
    - `requests`: that a sleeping machine would then delay.
    """

    stay_h: float
    sleep_h: float
    wake_h: float
    next_s: float | None
    chance: float
    requests: float

    @property
    def stays(self) -> bool:
        """Whether an awake machine had better stay so."""
        return self.stay_h <= min(self.sleep_h, self.wake_h)

    @property
    def wakes(self) -> bool:
        """Whether a sleeping machine had better wake now."""
        return self.wake_h < self.sleep_h


@dataclass(frozen=True, slots=True)
class Forecast:
    """For each coming bucket: the chance that traffic comes in it, if not before, and requests a bucket from then."""

    chances: tuple[float, ...]
    requests: tuple[float, ...]


def forecast(history: History) -> Forecast:
    """The next eight hours; ValueError where the history has not begun."""
    if history.bucket is None:
        raise ValueError("the history has not begun; call observe first")
    ahead = range(1, HORIZON_BUCKETS + 1)
    return Forecast(
        tuple(history.chance(one) for one in ahead),
        tuple(history.expected_requests(one) for one in ahead),
    )


def buckets_worth_a_request(value: DelayValue, history: History, usd_per_hour: float | None) -> float:
    """What one delayed request is worth, in awake buckets of machine time.

    Without a known price, dollars cannot be compared with machine time, and the relative value is taken.
    """
    if value.usd is not None and usd_per_hour:
        return value.usd / (usd_per_hour * BUCKET_S / 3600)
    busy = history.requests_per_busy_bucket
    return value.times_own_cost / busy if busy else 0.0


def judge(history: History, wake_s: float, request_buckets: float, *, wake_ahead: bool = True) -> Judgement:
    """Compare the ways, with a wake of `wake_s` seconds and a delayed request worth `request_buckets` awake buckets.

    Without `wake_ahead` only a request ends the sleep. The history remembers the answer until its bucket ends.
    """

    def compare() -> Judgement:
        coming = history.remembered(("forecast",), lambda: forecast(history))
        return judge_forecast(coming, wake_s, request_buckets, wake_ahead=wake_ahead)

    return history.remembered(("judgement", wake_s, request_buckets, wake_ahead), compare)


def judge_forecast(coming: Forecast, wake_s: float, request_buckets: float, *, wake_ahead: bool = True) -> Judgement:
    """The same for a forecast of any length."""
    wake = min(max(1, round(wake_s / BUCKET_S)), _MAXIMUM_WAKE_BUCKETS)
    awake = asleep = 0.0
    waking = [0.0] * (wake + 1)  # by buckets left
    for chance, requests in zip(reversed(coming.chances), reversed(coming.requests), strict=True):
        loss = request_buckets * requests
        quiet = 1 - chance
        best_awake = min(awake, asleep)
        best_asleep = min(asleep, waking[wake]) if wake_ahead else asleep
        hit = chance * loss
        for left in range(wake, 0, -1):
            waking[left] = 1 + hit * left + quiet * (waking[left - 1] if left > 1 else best_awake)
        awake = 1 + quiet * best_awake
        asleep = chance + hit * wake + quiet * best_asleep
    none_yet, next_s = 1.0, None
    soon = 0.0
    for index, chance in enumerate(coming.chances):
        none_yet *= 1 - chance
        if index < wake:
            soon = 1 - none_yet
        if none_yet <= 0.5 and next_s is None:
            next_s = (index + 1) * float(BUCKET_S)
    hour = BUCKET_S / 3600
    delayed = coming.requests[0] * wake if coming.requests else 0.0
    wake_h = waking[wake] * hour if wake_ahead else float("inf")
    return Judgement(awake * hour, asleep * hour, wake_h, next_s, soon, delayed)
