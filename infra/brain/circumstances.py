"""The facts that the rules of `decision.py` ask for, and the words for them; and what a decision is."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from infra.brain.history import History
from infra.brain.policy import Policy
from infra.brain.situation import Situation, SlotNow, SlotState
from serving.units import duration_text

_BLOCK_WORTH_WAKING = 2.0  # times the wake: a block that ends sooner is not woken


class Action(StrEnum):
    """What can be done. `drain`: take no new requests, end those that run. `alarm`: stay, and tell somebody."""

    WAKE = "wake"
    SLEEP = "sleep"
    DRAIN = "drain"
    MOVE = "move"
    SCALE = "scale"
    STAY = "stay"
    REFUSE = "refuse"
    ALARM = "alarm"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do.

    - `target`: the slot it is about; for `move` and `scale` up the slot to wake, for `scale` down the one to end.
    - `replicas`: how many there will be, for `scale`.
    - `rule`: which rule decided, a stable word.
    - `reason`: why, in words and numbers.
    - `next_look`: when to ask again at the latest.
    """

    action: Action
    rule: str
    reason: str
    next_look: datetime
    target: str | None = None
    replicas: int | None = None


class Circumstances:
    """One situation under one policy, with what follows from both."""

    def __init__(self, situation: Situation, policy: Policy, history: History) -> None:
        self.it, self.policy, self.history = situation, policy, history
        slots = situation.slots
        self.serving = [slot for slot in slots if slot.state is SlotState.AWAKE]
        self.coming = [slot for slot in slots if slot.state in (SlotState.WAKING, SlotState.LOADING)]
        self.draining = [slot for slot in slots if slot.state is SlotState.DRAINING]

    def say(
        self, action: Action, rule: str, reason: str, slot: SlotNow | None = None, replicas: int | None = None
    ) -> Decision:
        """The decision, to be looked at again after `look_s`."""
        look = self.it.now + timedelta(seconds=max(1.0, self.it.look_s))
        return Decision(action, rule, reason, look, slot.name if slot else None, replicas)

    def notice_s(self, slot: SlotNow) -> float:
        """How long before its block ends a slot must begin to go, in seconds."""
        other = self.candidate(slot) is not None or bool(self.coming)
        return self.it.drain_s + self.it.look_s + (self.it.wake_s if other else 0.0)

    def money_gone(self) -> tuple[str, str] | None:
        """Why no more may be spent: the rule and the reason; None where more may."""
        it, budget = self.it, self.policy.monthly_budget_usd
        if it.expires_at is not None and it.now >= it.expires_at:
            return "expired", f"the environment ended at {it.expires_at:%Y-%m-%d %H:%M %Z}"
        if budget is None or it.spent_usd is None:
            return None
        # Ending what runs costs money too, and so does the time until the next look.
        slots = [slot for slot in it.slots if slot.state is not SlotState.ASLEEP and not slot.prepaid]
        rate = sum(slot.usd_per_hour or 0.0 for slot in slots)
        reserve = rate * ((it.drain_s if self.serving else 0.0) + it.look_s) / 3600
        if it.spent_usd + reserve < budget:
            return None
        kept = f" and ${reserve:,.2f} to end what runs" if reserve else ""
        return "budget", f"${it.spent_usd:,.2f} spent this month{kept} reach the budget of ${budget:,.2f}"

    def is_held(self) -> bool:
        """Whether a person's hold is in force."""
        return self.it.hold_until is not None and self.it.now < self.it.hold_until

    def candidate(self, instead_of: SlotNow | None) -> SlotNow | None:
        """The first slot that can be woken now, of a replica that is not up unless that one goes; or None."""
        now = self.it.now
        up = {one.replica for one in self.it.slots if one.state is not SlotState.ASLEEP and one is not instead_of}
        for slot in self.it.slots:
            refused = slot.refused_until is not None and now < slot.refused_until
            early = slot.starts_at is not None and now < slot.starts_at
            worth = timedelta(seconds=_BLOCK_WORTH_WAKING * self.it.wake_s)
            late = slot.ends_at is not None and slot.ends_at - now < worth
            taken = slot.interruption_at is not None
            free = slot.state is SlotState.ASLEEP and slot.replica not in up
            if free and not (refused or early or late or taken):
                return slot
        return None

    def unaffordable(self, slot: SlotNow) -> str | None:
        """Why the budget does not allow `slot` to wake and serve its least time; None where it does."""
        budget = self.policy.monthly_budget_usd
        if budget is None or slot.prepaid:
            return None
        if self.it.spent_usd is None:
            return "what was spent this month is unknown"
        if slot.usd_per_hour is None:
            return f"the price of {slot.name} is unknown and there is a budget"
        least_s = self.it.wake_s + max(self.policy.minimum_uptime_s, self.it.drain_s) + self.it.look_s
        others = sum(one.usd_per_hour or 0.0 for one in (*self.serving, *self.coming) if not one.prepaid)
        needed = (slot.usd_per_hour + others) * least_s / 3600
        if self.it.spent_usd + needed < budget:
            return None
        return f"a wake costs at least ${needed:,.2f}, ${self.it.spent_usd:,.2f} are spent and the budget is ${budget:,.2f}"

    def wanted(self) -> tuple[str, str] | None:
        """By a person or by the timetable: the rule and the reason."""
        now, policy = self.it.now, self.policy
        if self.it.awake_until is not None and now < self.it.awake_until:
            return "pinned", f"somebody wants it awake for {until_text(now, self.it.awake_until)} more"
        opens = policy.opens_at(now)
        if opens is None:
            return None
        if opens <= now:
            closes = policy.closes_at(now)
            until = f" for {until_text(now, closes)} more" if closes else ""
            return "timetable", f"the timetable is open{until}"
        if policy.wake_ahead and opens - now <= timedelta(seconds=self.it.wake_s):
            wake = duration_text(self.it.wake_s)
            return "timetable", f"the timetable opens in {until_text(now, opens)}, and a wake takes {wake}"
        return None

    def active_lately(self) -> bool:
        """Whether requests came within the time of a wake."""
        last = self.it.last_activity
        return last is not None and self.it.now - last <= timedelta(seconds=self.it.wake_s)

    def paid_block(self) -> SlotNow | None:
        """The slot that would be woken next, where it is a block that is paid for."""
        slot = self.candidate(None)
        return slot if slot is not None and slot.prepaid else None

    def price(self) -> float | None:
        """Dollars an hour of the slot that would be woken next."""
        slot = self.candidate(None)
        return slot.usd_per_hour if slot else None

    def idle_s(self) -> float:
        """Seconds since the last activity; without any, since it began to serve."""
        last = self.it.last_activity
        if last is None:
            began = [slot.since for slot in self.serving if slot.since is not None]
            last = max(began) if began else self.it.now
        return max(0.0, (self.it.now - last).total_seconds())

    def up_s(self, slot: SlotNow) -> float:
        """Seconds since it began to serve; 0 where that is unknown."""
        return max(0.0, (self.it.now - slot.since).total_seconds()) if slot.since else 0.0

    def stopping(self) -> bool:
        """Whether a slot is on its way out."""
        return any(slot.state is SlotState.STOPPING for slot in self.it.slots)


def until_text(now: datetime, then: datetime) -> str:
    """Time left, never below 0."""
    return duration_text(max(0.0, (then - now).total_seconds()))


def plural(count: int, noun: str) -> str:
    """`1 request`, `2 requests`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def requests_text(slot: SlotNow) -> str:
    """How many requests the slot has; where unknown, that."""
    return plural(slot.requests, "request") if slot.requests is not None else "an unknown number of requests"
