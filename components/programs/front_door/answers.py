"""What the front door says, in the shape that clients of OpenAI's API understand."""

import json
import math
from dataclasses import dataclass
from datetime import datetime

# A client that is told to come back sooner would only be told again.
_SHORTEST_RETRY_S = 15
NOT_SERVED = "only /v1/* and /health are served here"


@dataclass(frozen=True)
class Notice:
    """What the jobs say about the model.

    - `state`: `asleep`, `waking`, `draining`, `refused` or another word of theirs; empty where nothing is known.
    - `reason`: their sentence.
    - `expected_at`: when the model is expected to serve, or None.
    """

    state: str = ""
    reason: str = ""
    expected_at: datetime | None = None

    @property
    def may_wake(self) -> bool:
        """False where a wake would be refused: the budget is spent, or a person holds the stack asleep."""
        return self.state != "refused"


@dataclass(frozen=True)
class Answer:
    """A whole answer: status, JSON body, and seconds for Retry-After where coming back makes sense."""

    status: int
    body: bytes
    retry_after_s: int | None = None
    challenge: bool = False


def error(status: int, message: str, kind: str, code: str | int, retry_after_s: int | None = None) -> Answer:
    """An error as OpenAI's API words it."""
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return Answer(status, json.dumps(body).encode(), retry_after_s, challenge=status == 401)


def remaining_s(notice: Notice, now: datetime, planned_wake_s: int) -> int:
    """Estimated seconds until the model serves, at least 15."""
    if notice.expected_at is None:
        return max(_SHORTEST_RETRY_S, planned_wake_s)
    return max(_SHORTEST_RETRY_S, math.ceil((notice.expected_at - now).total_seconds()))


def away(model: str, notice: Notice, now: datetime, planned_wake_s: int) -> Answer:
    """503: the model is asleep or on its way, with the estimate; or a wake is refused, with the reason."""
    if not notice.may_wake:
        reason = notice.reason or "a wake is refused at present"
        return error(503, f"{model} is asleep and stays so: {reason}", "service_unavailable", "wake_refused")
    wait_s = remaining_s(notice, now, planned_wake_s)
    what = "is on its way" if notice.state == "waking" else "was asleep and is being woken"
    message = f"{model} {what}; it serves in about {_minutes(wait_s)}. Please try again then (Retry-After: {wait_s})."
    return error(503, message, "service_unavailable", "model_asleep", wait_s)


def health(notice: Notice, now: datetime, planned_wake_s: int) -> Answer:
    """503 too: a health check must not take the door for the model. Asking does not wake."""
    wait_s = remaining_s(notice, now, planned_wake_s) if notice.state == "waking" else None
    body = {"status": notice.state or "asleep", "reason": notice.reason}
    return Answer(503, json.dumps(body).encode(), wait_s)


def models(model: str, notice: Notice) -> Answer:
    """The model's listing, so that a client can offer it; listing does not wake."""
    entry = {"id": model, "object": "model", "owned_by": "dormouse", "state": notice.state or "asleep"}
    return Answer(200, json.dumps({"object": "list", "data": [entry]}).encode())


def waiting_comment(model: str, notice: Notice, now: datetime, planned_wake_s: int) -> bytes:
    """A comment line of an event stream: clients ignore it, proxies see life."""
    return f": {model} is being woken, about {_minutes(remaining_s(notice, now, planned_wake_s))} to go\n\n".encode()


def stream_error(answer: Answer) -> bytes:
    """An answer as the last event of a stream whose headers were sent long ago."""
    return b"data: " + answer.body.replace(b"\n", b" ") + b"\n\ndata: [DONE]\n\n"


def _minutes(seconds: int) -> str:
    return f"{seconds} s" if seconds < 90 else f"{round(seconds / 60)} min"
