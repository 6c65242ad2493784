"""The server under test, and what one check of it came to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from components.programs.smoke.client import Client

Outcome = Literal["ok", "failed", "skipped"]


class CheckFailed(Exception):  # noqa: N818 - a finding, not a fault of ours
    """What was seen instead of what was expected."""


class CheckSkipped(Exception):  # noqa: N818
    """Why the check could not be made."""


@dataclass(frozen=True)
class Result:
    """One check's outcome: `detail` says what was seen."""

    name: str
    outcome: Outcome
    detail: str
    took_s: float


@dataclass
class Target:
    """The server under test.

    - `model`: the name to ask for; None takes the first of /v1/models.
    - `reasoning`, `tools`: whether the model is expected to think and to call tools.
    - `metrics`: vLLM's own metrics page, where it can be reached.
    - `answer_tokens`: how long an answer may be.
    """

    client: Client
    model: str | None = None
    reasoning: bool = True
    tools: bool = True
    metrics: Callable[[], str] | None = None
    answer_tokens: int = 2048
    long_tokens: int | None = None
    context_tokens: int = 0
    characters_per_token: float = 4.0

    def chat(self, content: str, **more: Any) -> dict[str, Any]:
        """The body of a chat request with one message of the user."""
        body: dict[str, Any] = {"model": self.model, "max_tokens": self.answer_tokens}
        return {**body, "messages": [{"role": "user", "content": content}], **more}


def answer(target: Target, body: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
    """Message, choice and usage of a chat; raises CheckFailed for anything but 200."""
    reply = target.client.post("/v1/chat/completions", body)
    if reply.status != 200:
        raise CheckFailed(f"status {reply.status}: {short(reply.text)}")
    choice = cast("list[Mapping[str, Any]]", reply.document["choices"])[0]
    usage = cast("Mapping[str, Any]", reply.document.get("usage") or {})
    return cast("Mapping[str, Any]", choice["message"]), choice, usage


def short(text: str, most: int = 200) -> str:
    """A text on one line, cut where it is long."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
