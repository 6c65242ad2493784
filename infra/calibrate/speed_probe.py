"""How fast the engine answers: prompts of random tokens over HTTP, read token by token. Standard library only.

Random, because a prompt that was seen before is answered from the prefix cache.
"""

import http.client
import json
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from serving.errors import JobError
from serving.measurements import Speed

_ANSWER_LIMIT_S = 300
_FIRST_TOKEN = 3
"""The lower ones are the made-up tokenizer's beginning, end and unknown."""


@dataclass(frozen=True)
class Endpoint:
    """Where the engine answers: `host` and `port`, the served `model`, and its `vocabulary` in tokens."""

    host: str
    port: int
    model: str
    vocabulary: int


@dataclass
class _Answer:
    began_s: float = 0.0
    first_s: float = 0.0
    ended_s: float = 0.0
    tokens: int = 0
    error: str = ""


def measure_speed(endpoint: Endpoint, requests: int, prompt_tokens: int, answer_tokens: int, seed: int) -> Speed:
    """Send `requests` at once, each with a prompt of its own, and take the times of the tokens.

    Raises JobError where an answer fails or does not have the length that was asked for.
    """
    answers = [_Answer() for _ in range(requests)]
    threads = [
        threading.Thread(
            target=_ask,
            args=(endpoint, _prompt(endpoint, prompt_tokens, f"{seed}-{index}"), answer_tokens, answer),
            daemon=True,
        )
        for index, answer in enumerate(answers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wrong = next((one.error for one in answers if one.error), "")
    short = next((one.tokens for one in answers if one.tokens != answer_tokens), None)
    if wrong or short is not None:
        what = wrong or f"an answer has {short} tokens and not the {answer_tokens} that were asked for"
        raise JobError(f"the engine started, and the speed probe failed at {requests} requests at once: {what}")
    first = sum(one.first_s - one.began_s for one in answers) / requests
    if answer_tokens == 1:
        return Speed(requests, prompt_tokens, answer_tokens, round(first, 4))
    # From the moment when all answers run to the moment when the first one ends, each gives tokens at its own pace.
    pace = sum((answer_tokens - 1) / max(1e-9, one.ended_s - one.first_s) for one in answers)
    return Speed(requests, prompt_tokens, answer_tokens, round(first, 4), round(pace, 1))


def _prompt(endpoint: Endpoint, tokens: int, seed: str) -> Sequence[int]:
    chosen = random.Random(seed)  # noqa: S311 - a prompt, not a secret
    return [chosen.randrange(_FIRST_TOKEN, endpoint.vocabulary) for _ in range(tokens)]


def _ask(endpoint: Endpoint, prompt: Sequence[int], answer_tokens: int, answer: _Answer) -> None:
    body = {
        "model": endpoint.model,
        "prompt": prompt,
        "max_tokens": answer_tokens,
        "ignore_eos": True,
        "temperature": 1.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=_ANSWER_LIMIT_S)
    try:
        payload = json.dumps(body)
        answer.began_s = time.perf_counter()
        connection.request("POST", "/v1/completions", payload, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            answer.error = f"HTTP {response.status}: {response.read(500).decode(errors='replace')}"
            return
        for raw in response:
            line = raw.strip()
            if not line.startswith(b"data:") or line.endswith(b"[DONE]"):
                continue
            now = time.perf_counter()
            chunk = json.loads(line.removeprefix(b"data:"))
            if "error" in chunk:
                answer.error = str(chunk["error"])
                return
            if chunk.get("choices"):
                answer.first_s = answer.first_s or now
                answer.ended_s = now
            if chunk.get("usage"):
                answer.tokens = int(chunk["usage"]["completion_tokens"])
    except (OSError, ValueError, http.client.HTTPException) as error:
        answer.error = f"{type(error).__name__}: {error}"
    finally:
        connection.close()
