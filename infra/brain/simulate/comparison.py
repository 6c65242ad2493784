"""Policies side by side over the same traffic: what each costs, whom it delays, and which to take."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from infra.brain.policy import PRESETS, DelayValue, Mode, Policy
from infra.brain.simulate.clairvoyant import clairvoyant_ticks, least_cost
from infra.brain.simulate.replay import Outcome, replay_all
from infra.brain.simulate.traffic import Traffic

TIMER_MINUTES = (10, 20, 30, 60, 120, 240)
VALUES = (0.3, 1.0, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 22.0, 35.0)


@dataclass(frozen=True)
class Question:
    """What is to be compared.

    - `policy`, `policy_name`: the one that is asked about.
    - `wake_s`: seconds from asleep to serving. `zone`: whose days the brain learns.
    - `usd_per_hour`: of an awake machine, or None; costs are then told in hours alone.
    """

    policy: Policy
    policy_name: str
    wake_s: float = 1200.0
    zone: str = "UTC"
    usd_per_hour: float | None = None


@dataclass(frozen=True)
class Row:
    """One policy over one service, or the mean over several.

    - `kind`: always, timer, learned, chosen, clairvoyant (delays nobody) or bound (cheapest with delays, all foreseen).
    - `awake_share`: of the time; `multiple`: paid time ÷ the clairvoyant's; `delayed_share`: of the requests.
    - `wakes_per_day`: how often it woke. `awake_hours`: in all.
    - `value`: times a request's own cost, for learned ones and bounds.
    """

    name: str
    kind: str
    awake_share: float
    multiple: float
    delayed_share: float
    wakes_per_day: float
    awake_hours: float
    value: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Every policy over one or more services; `rows` are means, `outcome` is the chosen policy over the first one."""

    question: Question
    services: tuple[Traffic, ...]
    rows: tuple[Row, ...]
    each: tuple[tuple[Row, ...], ...]
    outcome: Outcome

    def of(self, kind: str) -> tuple[Row, ...]:
        """The rows of one kind."""
        return tuple(row for row in self.rows if row.kind == kind)

    @property
    def chosen(self) -> Row:
        """The policy that was asked about."""
        return self.of("chosen")[0]

    def timer_delay_at(self, multiple: float) -> float | None:
        """Delayed share of a fixed timer that costs as much, between the timers; None beyond them."""
        return share_at(self.of("timer"), multiple)

    def recommendation(self) -> str:
        """One or two sentences: what to take, and what it does against always-on and a timer of equal cost."""
        chosen = self.chosen
        text = (
            f"`{self.question.policy_name}` keeps the machine awake {chosen.awake_share:.0%} of the time and delays "
            f"{chosen.delayed_share:.2%} of the requests, by at most {self.question.wake_s / 60:.0f} minutes each"
        )
        timer = self.timer_delay_at(chosen.multiple)
        if timer:
            less = 1 - chosen.delayed_share / timer
            relation = f"{less:.0%} fewer" if less >= 0 else f"{-less:.0%} more"
            text += f"; that is {relation} than a fixed timer of the same cost ({timer:.2%})"
        best = min((row for row in self.rows if row.kind in ("always", "timer", "learned", "chosen")), key=self._total)
        if self._total(best) < 0.98 * self._total(chosen):
            saved = 1 - self._total(best) / self._total(chosen)
            return f"{text}. At this worth of a delayed request `{best.name}` would cost {saved:.0%} less in all."
        return f"{text}. At this worth of a delayed request none of the others costs clearly less in all."

    def _total(self, row: Row) -> float:
        """Machine time and delays, as multiples of the clairvoyant's machine time."""
        value = self.question.policy.value
        if value.usd is not None and self.question.usd_per_hour:
            hours = self.of("clairvoyant")[0].awake_hours
            requests = sum(one.total for one in self.services) / len(self.services)
            return row.multiple + row.delayed_share * requests * value.usd / (self.question.usd_per_hour * hours)
        return row.multiple + row.delayed_share * value.times_own_cost

    def to_mapping(self) -> dict[str, Any]:
        """Stable keys for --json."""
        return {
            "services": [one.name for one in self.services],
            "days": round(self.services[0].days, 3),
            "requests": round(sum(one.total for one in self.services)),
            "wakeSeconds": self.question.wake_s,
            "usdPerHour": self.question.usd_per_hour,
            "policies": [
                {
                    "name": row.name,
                    "kind": row.kind,
                    "awakeShare": round(row.awake_share, 5),
                    "costOverClairvoyant": round(row.multiple, 5),
                    "delayedShare": round(row.delayed_share, 6),
                    "wakesPerDay": round(row.wakes_per_day, 3),
                    "awakeHours": round(row.awake_hours, 2),
                }
                for row in self.rows
            ],
            "recommendation": self.recommendation(),
        }


def compare(
    services: Sequence[Traffic], question: Question, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> Comparison:
    """Replay every service under every policy. `progress` is told how many services of all are done."""
    each: list[tuple[Row, ...]] = []
    outcome: Outcome | None = None
    for index, service in enumerate(services):
        progress(index, len(services))
        rows, chosen = _service_rows(service, question)
        outcome = outcome or chosen
        each.append(rows)
    assert outcome is not None
    progress(len(services), len(services))
    return Comparison(question, tuple(services), mean_rows(each), tuple(each), outcome)


def mean_rows(each: Sequence[Sequence[Row]]) -> tuple[Row, ...]:
    """The mean over services, policy by policy; every service counts alike."""
    count = len(each)
    return tuple(
        Row(
            rows[0].name,
            rows[0].kind,
            sum(row.awake_share for row in rows) / count,
            sum(row.multiple for row in rows) / count,
            sum(row.delayed_share for row in rows) / count,
            sum(row.wakes_per_day for row in rows) / count,
            sum(row.awake_hours for row in rows) / count,
            rows[0].value,
        )
        for rows in zip(*each, strict=True)
    )


def share_at(rows: Sequence[Row], multiple: float) -> float | None:
    """Delayed share at a cost, on the straight line between the two rows around it; None beyond them."""
    ordered = sorted(rows, key=lambda row: row.multiple)
    for left, right in pairwise(ordered):
        if left.multiple <= multiple <= right.multiple:
            width = right.multiple - left.multiple
            along = (multiple - left.multiple) / width if width else 0.0
            return left.delayed_share + along * (right.delayed_share - left.delayed_share)
    return None


def learned(value: float) -> Policy:
    """The learning policy at a worth of `value` times a request's own cost."""
    return Policy(value=DelayValue(times_own_cost=value))


def row_of(
    service: Traffic, name: str, kind: str, paid: int, delayed: float, wakes: int, wake_s: float, value: float | None = None
) -> Row:  # fmt: skip
    """A row out of paid ticks and delayed requests."""
    wake_ticks = max(1, round(wake_s / service.bucket_s))
    return Row(
        name,
        kind,
        paid / len(service.requests),
        paid / clairvoyant_ticks(service.requests, wake_ticks),
        delayed / service.total,
        wakes / service.days,
        paid * service.bucket_s / 3600,
        value,
    )


def _service_rows(service: Traffic, question: Question) -> tuple[tuple[Row, ...], Outcome]:
    wake_s = question.wake_s
    wake_ticks = max(1, round(wake_s / service.bucket_s))
    rows = [row_of(service, "always on", "always", len(service.requests), 0, 0, wake_s)]

    names = {value: name for name, value in PRESETS.items()}
    asked: list[tuple[str, str, Policy, float | None]] = [
        *((f"timer {it} min", "timer", Policy(mode=Mode.TIMER, idle_s=it * 60.0), None) for it in TIMER_MINUTES),
        *((names.get(it, f"learned ×{it:g}"), "learned", learned(it), it) for it in VALUES),
        (question.policy_name, "chosen", question.policy, None),
    ]
    outcomes = replay_all(
        service, [it[2] for it in asked], wake_s=wake_s, zone=question.zone, usd_per_hour=question.usd_per_hour
    )
    for (name, kind, _, value), it in zip(asked, outcomes, strict=True):
        rows.append(row_of(service, name, kind, it.awake_ticks, it.delayed, it.wakes, wake_s, value))
    least = clairvoyant_ticks(service.requests, wake_ticks)
    rows.append(row_of(service, "clairvoyant", "clairvoyant", least, 0, 0, wake_s))
    busy_ticks = sum(1 for count in service.requests if count > 0)
    for value in VALUES:
        paid, delayed = least_cost(service.requests, wake_ticks, value * busy_ticks / service.total)
        rows.append(row_of(service, f"all foreseen ×{value:g}", "bound", paid, delayed, 0, wake_s, value))
    return tuple(rows), outcomes[-1]
