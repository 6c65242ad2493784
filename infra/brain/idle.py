"""The last question: whether an idle machine sleeps, and whether a sleeping one wakes for expected traffic."""

from dataclasses import dataclass

from infra.brain.history import History
from infra.brain.learner import Judgement, buckets_worth_a_request, judge
from infra.brain.policy import Mode, Policy
from infra.brain.situation import Situation
from serving.units import duration_text

_BREAK_EVEN_WAKES = 2.0
"""A gap that is known to be shorter than so many wakes is stayed awake for: a wake itself pays for the whole machine."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`yes`: sleep, or wake; `rule` and `reason` as in a decision."""

    yes: bool
    rule: str
    reason: str


def idle_verdict(
    situation: Situation, policy: Policy, history: History, idle_s: float, usd_per_hour: float | None
) -> Verdict:
    """Whether a machine that has been idle for `idle_s` seconds is to sleep."""
    idle = f"idle for {duration_text(idle_s)}"
    if policy.mode is Mode.ALWAYS:
        return Verdict(False, "always", f"{idle}; the policy keeps it awake always")
    if idle_s < policy.minimum_idle_s:
        return Verdict(False, "idle", f"{idle}, at least {duration_text(policy.minimum_idle_s)} are waited")
    opens = policy.opens_at(situation.now)
    if opens is not None:
        opens_s = (opens - situation.now).total_seconds()
        if opens_s <= _BREAK_EVEN_WAKES * situation.wake_s:
            wake = duration_text(situation.wake_s)
            return Verdict(
                False, "break-even", f"the timetable opens in {duration_text(opens_s)}; with wakes of {wake} no saving"
            )
    if policy.mode is Mode.TIMER or history.is_new or history.bucket is None:
        limit = duration_text(policy.idle_s)
        known = "" if policy.mode is Mode.TIMER else ", as long as the traffic is not known"
        if idle_s >= policy.idle_s:
            return Verdict(True, "timer", f"{idle}, the timer is {limit}{known}")
        return Verdict(False, "timer", f"{idle}, it sleeps after {limit}{known}")
    if history.open_is_busy:
        return Verdict(False, "idle", f"{idle}; it is judged every ten minutes and these ten were in use")
    judged = _judge(situation, policy, history, usd_per_hour)
    words = _words(judged, policy, usd_per_hour)
    if judged.stays:
        return Verdict(False, "learned", f"{idle}; {words}: staying awake costs least")
    return Verdict(True, "learned", f"{idle}; {words}: sleeping costs least")


def expected_traffic_wakes(
    situation: Situation, policy: Policy, history: History, usd_per_hour: float | None
) -> Verdict:
    """Whether a sleeping machine is to wake before anybody asks."""
    if policy.mode is Mode.ALWAYS:
        return Verdict(True, "always", "the policy keeps it awake always")
    if policy.mode is Mode.TIMER or not policy.wake_ahead or history.is_new or history.bucket is None:
        return Verdict(False, "asleep", "asleep; nobody has asked for it")
    judged = _judge(situation, policy, history, usd_per_hour)
    words = _words(judged, policy, usd_per_hour)
    if judged.wakes:
        return Verdict(True, "expected", f"{words}: waking ahead costs least")
    return Verdict(False, "asleep", f"asleep; {words}: sleeping on costs least")


def _judge(situation: Situation, policy: Policy, history: History, usd_per_hour: float | None) -> Judgement:
    worth = buckets_worth_a_request(policy.value, history, usd_per_hour)
    return judge(history, situation.wake_s, worth, wake_ahead=policy.wake_ahead)


def _words(judged: Judgement, policy: Policy, usd_per_hour: float | None) -> str:
    """What was compared, in dollars where the price is known and in machine hours where not."""
    coming = "none is likely within 8 h" if judged.next_s is None else f"likely within {duration_text(judged.next_s)}"
    sleep_h = min(judged.sleep_h, judged.wake_h)
    if usd_per_hour:
        stay, sleep = f"${judged.stay_h * usd_per_hour:,.2f}", f"${sleep_h * usd_per_hour:,.2f}"
    else:
        stay, sleep = f"{judged.stay_h:.2f} machine hours", f"{sleep_h:.2f}"
    return (
        f"traffic comes during the next wake with {judged.chance:.0%} ({coming}) and would delay about "
        f"{judged.requests:,.0f} requests; at {policy.value} staying awake is expected to cost {stay}, sleeping {sleep}"
    )
