"""`decide()`: what is to be done now, and why. Pure and total: the same question has the same answer everywhere.

What comes first wins:
 1. a machine that AWS is about to take (spot notice, end of a block): its work moves, or it is drained;
 2. money: past its end or its budget nothing wakes, and what is up drains and then sleeps;
 3. ignorance: requests or a state that cannot be read never lead to sleep; someone is told;
 4. a hold: nothing changes by itself;
 5. work in progress: loading is never idle, draining ends before the machine goes, a request calls it back;
 6. asleep: a request, a person, the timetable, a paid block, expected traffic wake it, in this order;
 7. awake: running requests, a person, the timetable, a paid block keep it so; a replica too many goes;
 8. idle: the least time idle and awake, then what was learned, or the timer.
Nothing but a drained or idle machine is ever put to sleep: requests in flight are at most drained.
"""

from datetime import timedelta

from infra.brain.circumstances import Action, Circumstances, Decision, plural, requests_text, until_text
from infra.brain.history import History
from infra.brain.idle import expected_traffic_wakes, idle_verdict
from infra.brain.policy import Policy
from infra.brain.situation import Situation, SlotNow, SlotState
from serving.units import duration_text


def decide(situation: Situation, policy: Policy, history: History) -> Decision:
    """What to do in this situation. Changes nothing and raises nothing for any valid input."""
    question = _Question(situation, policy, history)
    return (
        question.threatened()
        or question.money()
        or question.ignorance()
        or question.held()
        or question.in_progress()
        or (question.awake() if question.serving else question.asleep())
    )


class _Question(Circumstances):
    """One call of `decide`: the rules, each with an answer or None where the next is to be asked."""

    def threatened(self) -> Decision | None:
        """A slot that AWS takes soon; once its work is elsewhere or nothing else is left, it drains."""
        now = self.it.now
        for slot in self.serving:
            if slot.interruption_at is not None:
                why = f"AWS takes spot machine {slot.name} in {until_text(now, slot.interruption_at)}"
                rule = "spot-notice"
            elif slot.ends_at is not None and now >= slot.ends_at - timedelta(seconds=self.notice_s(slot)):
                why = f"the block of {slot.name} ends in {until_text(now, slot.ends_at)}"
                rule = "block-end"
            else:
                continue
            elsewhere = self.coming or [one for one in self.serving if one is not slot]
            target = None if elsewhere or self.money_gone() or self.is_held() else self.candidate(slot)
            needed = slot.requests != 0 or self.wanted() is not None or self.active_lately()
            if target is not None and needed and self.unaffordable(target) is None:
                return self.say(Action.MOVE, rule, f"{why}; {target.name} takes over", target)
            end = slot.interruption_at or slot.ends_at
            if self.coming and end is not None and end - now > timedelta(seconds=self.it.drain_s):
                continue  # it serves until the other is ready, as long as there is time to drain
            return self.say(Action.DRAIN, rule, f"{why}; {requests_text(slot)} end first", slot)
        return None

    def money(self) -> Decision | None:
        """Past the end or the budget: drain, sleep, wake nothing."""
        gone = self.money_gone()
        if gone is None:
            return None
        rule, why = gone
        bound = rule == "expired"
        for slot in (*self.coming, *self.draining, *self.serving):
            if slot.prepaid and not bound:
                continue  # it costs nothing more
            if slot in self.coming:
                return self.say(Action.SLEEP, rule, f"{why}; {slot.name} is {slot.state} and serves nobody yet", slot)
            if slot.requests == 0:
                return self.say(Action.SLEEP, rule, f"{why}; nothing runs on {slot.name}", slot)
            if slot.state is SlotState.AWAKE:
                return self.say(Action.DRAIN, rule, f"{why}; {requests_text(slot)} on {slot.name} end first", slot)
            return self._still_draining(slot, rule, why)
        unread = any(slot.state is SlotState.UNKNOWN for slot in self.it.slots)
        if self.serving or self.coming or self.draining or unread:
            return None
        if self.it.wake_requests:
            asked = plural(self.it.wake_requests, "request")
            return self.say(Action.REFUSE, rule, f"{why}; {asked} to wake cannot be met until a person raises it")
        paid = self.paid_block() if not bound else None
        return None if paid else self.say(Action.STAY, rule, f"{why}; nothing wakes until a person raises it")

    def ignorance(self) -> Decision | None:
        """What cannot be read: it is not idle, and nobody sleeps or buys on a guess."""
        for slot in self.it.slots:
            if slot.state is SlotState.UNKNOWN:
                why = slot.unknown_reason or "no reason given"
                return self.say(Action.ALARM, "unknown-state", f"the state of {slot.name} is unknown ({why})", slot)
        for slot in (*self.serving, *self.draining):
            if slot.requests is None:
                why = slot.unknown_reason or "no reason given"
                text = f"requests on {slot.name} are unknown ({why}); it stays up, since unknown is not idle"
                return self.say(Action.ALARM, "unknown-requests", text, slot)
        if self.policy.monthly_budget_usd is not None and self.it.spent_usd is None and not self.serving:
            if self.it.wake_requests:
                text = "what was spent this month is unknown, and there is a budget; nothing is bought on a guess"
                return self.say(Action.REFUSE, "unknown-money", text)
            return self.say(Action.ALARM, "unknown-money", "what was spent this month is unknown; nothing wakes")
        return None

    def held(self) -> Decision | None:
        """A person's hold."""
        if not self.is_held():
            return None
        assert self.it.hold_until is not None
        by = f" by {self.it.held_by}" if self.it.held_by else ""
        text = f"held{by} for {until_text(self.it.now, self.it.hold_until)} more; nothing changes by itself"
        asked = self.it.wake_requests and not self.serving and not self.coming
        return self.say(Action.REFUSE if asked else Action.STAY, "held", text)

    def in_progress(self) -> Decision | None:
        """One change at a time: what drains or stops ends, what comes is waited for."""
        for slot in self.draining:
            threatened = slot.interruption_at is not None or (
                slot.ends_at is not None and slot.ends_at - self.it.now <= timedelta(seconds=self.notice_s(slot))
            )
            if self.it.wake_requests and not self.serving and not threatened and self.unaffordable(slot) is None:
                asked = plural(self.it.wake_requests, "request")
                return self.say(Action.WAKE, "called-back", f"{asked} came while {slot.name} was draining", slot)
            if slot.requests == 0:
                return self.say(Action.SLEEP, "drained", f"nothing runs any more on {slot.name}", slot)
            return self._still_draining(slot, "draining", "it was decided before")
        for slot in self.coming:
            state = "is loading its weights" if slot.state is SlotState.LOADING else "waits for its machine"
            for_long = f" for {duration_text((self.it.now - slot.since).total_seconds())}" if slot.since else ""
            return self.say(Action.STAY, "coming", f"{slot.name} {state}{for_long}; that is not idle", slot)
        for slot in self.it.slots:
            if slot.state is SlotState.STOPPING and not self.serving:
                return self.say(Action.STAY, "stopping", f"{slot.name} is stopping; a wake follows after", slot)
        return None

    def _still_draining(self, slot: SlotNow, rule: str, why: str) -> Decision:
        late = slot.since is not None and self.it.now - slot.since > timedelta(seconds=self.it.drain_s)
        text = f"{why}; {requests_text(slot)} on {slot.name} end first"
        if late:
            return self.say(Action.ALARM, rule, f"{text}, and have had {duration_text(self.it.drain_s)}", slot)
        return self.say(Action.STAY, rule, text, slot)

    def asleep(self) -> Decision:
        """What wakes."""
        it = self.it
        if it.wake_requests:
            return self._wake("requested", f"{plural(it.wake_requests, 'request')} came while asleep", asked=True)
        wanted = self.wanted()
        if wanted is not None:
            return self._wake(*wanted)
        if self.paid_block() is not None:
            return self._wake("paid-block", "its Capacity Block is paid for, so sleep saves nothing")
        judged = expected_traffic_wakes(it, self.policy, self.history, self.price())
        if judged.yes:
            return self._wake("expected", judged.reason)
        return self.say(Action.STAY, "asleep", judged.reason)

    def _wake(self, rule: str, why: str, *, asked: bool = False) -> Decision:
        slot = self.candidate(None)
        refusal = Action.REFUSE if asked else Action.STAY
        if slot is None:
            retry = [
                one.refused_until for one in self.it.slots if one.refused_until and one.refused_until > self.it.now
            ]
            when = f"; the next try is in {until_text(self.it.now, min(retry))}" if retry else ""
            return self.say(refusal, "no-capacity", f"{why}, but no candidate can be tried now{when}")
        unaffordable = self.unaffordable(slot)
        if unaffordable is not None:
            return self.say(refusal, "budget", f"{why}, but {unaffordable}")
        return self.say(Action.WAKE, rule, why, slot)

    def awake(self) -> Decision:
        """What keeps it awake, one replica more or less, and what an idle one does."""
        it, policy = self.it, self.policy
        count = len(self.serving)
        running = sum(slot.running or 0 for slot in self.serving)
        waiting = sum(slot.waiting or 0 for slot in self.serving)
        low = min(max(1, policy.min_replicas), max(1, policy.max_replicas))
        more = self.candidate(None)
        idle = self.idle_s()
        busy = waiting >= max(1, policy.waiting_for_scale) * count
        if (
            more is not None
            and not self.stopping()
            and (self._lacks(count, low) or (busy and count < policy.max_replicas))
        ):
            why = f"{waiting} requests wait on {plural(count, 'replica')}" if busy else f"at least {low} are wanted"
            unaffordable = self.unaffordable(more)
            if unaffordable is None:
                return self.say(Action.SCALE, "scale-up", why, more, count + 1)
        spare = [slot for slot in self.serving if slot.requests == 0 and not slot.prepaid]
        rested = all(self.up_s(slot) >= policy.minimum_uptime_s for slot in spare)
        if count > low and not waiting and spare and rested and (running or idle >= policy.minimum_idle_s):
            slot = spare[-1]
            if count > policy.max_replicas or not running or running * 2 <= count:
                text = f"{plural(running, 'request')} on {count} replicas; {slot.name} has none"
                return self.say(Action.SCALE, "scale-down", text, slot, count - 1)
        if running or waiting:
            return self.say(Action.STAY, "busy", f"{running} requests run, {waiting} wait")
        wanted = self.wanted()
        if wanted is not None:
            return self.say(Action.STAY, wanted[0], wanted[1])
        slot = self.serving[-1]
        if slot.prepaid:
            return self.say(Action.STAY, "paid-block", f"{slot.name} is paid for, so sleep saves nothing", slot)
        up = self.up_s(slot)
        if up < policy.minimum_uptime_s:
            least = duration_text(policy.minimum_uptime_s)
            return self.say(Action.STAY, "uptime", f"awake for {duration_text(up)}, at least {least} are wanted", slot)
        judged = idle_verdict(it, policy, self.history, idle, slot.usd_per_hour)
        if judged.yes:
            return self.say(Action.SLEEP, judged.rule, judged.reason, slot)
        return self.say(Action.STAY, judged.rule, judged.reason, slot)

    def _lacks(self, count: int, low: int) -> bool:
        """Whether a replica is missing; not while the last ones go to sleep one by one."""
        if count >= low:
            return False
        used = any(slot.requests for slot in self.serving) or self.wanted() is not None
        price = self.serving[-1].usd_per_hour
        return used or not idle_verdict(self.it, self.policy, self.history, self.idle_s(), price).yes
