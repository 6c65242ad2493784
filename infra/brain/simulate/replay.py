"""One service's traffic through `decide()`, tick by tick, on a machine that needs a while to wake.

A tick is a bucket of the traffic: a minute, or as long as the source is coarse. At its end the brain learns what came in
it and decides; a request that comes to a sleeping machine wakes it at once, by the same `decide()`. A machine that wakes
is paid for, and requests that come meanwhile are delayed; requests end in the bucket in which they come, and are taken
to come evenly in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from infra.brain.circumstances import Action, Decision
from infra.brain.decision import decide
from infra.brain.history import FIRST_LEARNING, History, Learning
from infra.brain.policy import Policy
from infra.brain.simulate.traffic import Traffic
from infra.brain.situation import Situation, SlotNow, SlotState

_SLOT = "machine"


@dataclass(frozen=True)
class Spell:
    """The machine was up from tick `start` to before `end`; `delayed` requests found it waking. `why`: what woke it."""

    start: int
    end: int
    delayed: float
    why: str


@dataclass(frozen=True)
class Outcome:
    """What a policy did with the traffic.

    - `awake_ticks`: paid ticks, wakes included.
    - `delayed`: requests that came while it was asleep or waking.
    - `spells`: when it was up.
    """

    awake_ticks: int
    delayed: float
    spells: tuple[Spell, ...]

    @property
    def wakes(self) -> int:
        """How often it woke; the first spell began awake."""
        return sum(1 for spell in self.spells if spell.why != "start")


class _Machine:
    """One machine under one policy: awake, waking with ticks left, or asleep."""

    def __init__(self, traffic: Traffic, policy: Policy, wake_s: float, usd_per_hour: float | None) -> None:
        self.policy, self.wake_s, self.look_s = policy, wake_s, float(traffic.bucket_s)
        self.wake_ticks = max(1, round(wake_s / traffic.bucket_s))
        self.asleep = (SlotNow(_SLOT, SlotState.ASLEEP, usd_per_hour=usd_per_hour),)
        self.waking = (replace(self.asleep[0], state=SlotState.LOADING),)
        self.awake = (replace(self.asleep[0], state=SlotState.AWAKE, since=traffic.start),)
        self.up, self.left, self.paid, self.delayed = True, 0, 0, 0.0
        self.spells: list[Spell] = []
        self.since, self.spell_delayed, self.why = 0, 0.0, "start"

    def ask(self, now: datetime, history: History, last_activity: datetime, requests: int = 0) -> Decision:
        """The brain's decision about the machine as it stands."""
        slots = self.awake if self.up else self.waking if self.left else self.asleep
        situation = Situation(now, slots, last_activity, wake_requests=requests, wake_s=self.wake_s, look_s=self.look_s)
        return decide(situation, self.policy, history)

    def begin_wake(self, index: int, rule: str) -> None:
        """The tick `index` is the first of a wake."""
        self.left, self.since, self.spell_delayed, self.why = self.wake_ticks, index, 0.0, rule

    def live(self, requests: float, tick_end: datetime) -> None:
        """One tick passes with these requests."""
        if not self.up:
            self.delayed += requests
            self.spell_delayed += requests
        if self.up or self.left:
            self.paid += 1
        if self.left:
            self.left -= 1
            if not self.left:
                self.up = True
                self.awake = (replace(self.awake[0], since=tick_end),)

    def obey(self, decision: Decision, next_index: int) -> None:
        """Do what was decided at the end of a tick."""
        if decision.action is Action.SLEEP and self.up:
            self.up = False
            self.end_spell(next_index)
        elif decision.action is Action.WAKE and not self.up and not self.left:
            self.begin_wake(next_index, decision.rule)

    def end_spell(self, index: int) -> None:
        """It was up until before tick `index`."""
        self.spells.append(Spell(self.since, index, self.spell_delayed, self.why))


def replay(
    traffic: Traffic,
    policy: Policy,
    *,
    wake_s: float = 1200.0,
    zone: str = "UTC",
    usd_per_hour: float | None = None,
    learning: Learning = FIRST_LEARNING,
) -> Outcome:
    """Replay the traffic from an awake machine and a brain that knows nothing."""
    return replay_all(
        traffic, [policy], wake_s=wake_s, zone=zone, usd_per_hour=usd_per_hour, learning=learning
    )[0]  # fmt: skip


def replay_all(
    traffic: Traffic,
    policies: Sequence[Policy],
    *,
    wake_s: float = 1200.0,
    zone: str = "UTC",
    usd_per_hour: float | None = None,
    learning: Learning = FIRST_LEARNING,
) -> tuple[Outcome, ...]:
    """Replay it under each policy. What is learned depends on the traffic alone, so that one history serves all."""
    tick = timedelta(seconds=traffic.bucket_s)
    history = History(zone, learning)
    machines = [_Machine(traffic, policy, wake_s, usd_per_hour) for policy in policies]
    now = last_activity = traffic.start
    for index, requests in enumerate(traffic.requests):
        begun, end = now, now + tick
        for machine in machines:
            if requests > 0 and not machine.up and not machine.left:
                decision = machine.ask(begun, history, last_activity, max(1, round(requests)))
                if decision.action is Action.WAKE:
                    machine.begin_wake(index, decision.rule)
            machine.live(requests, end)
        now = end
        history.observe(now, requests)
        if requests > 0:
            last_activity = now - tick / (requests + 1)
        for machine in machines:
            machine.obey(machine.ask(now, history, last_activity), index + 1)
    for machine in machines:
        if machine.up or machine.left:
            machine.end_spell(len(traffic.requests))
    return tuple(Outcome(one.paid, one.delayed, tuple(one.spells)) for one in machines)
