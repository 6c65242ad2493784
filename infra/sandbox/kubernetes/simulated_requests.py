"""Requests that nobody sends and no model answers: they only count, the way vLLM's metrics page shows them."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

PROMPT_TOKENS = 512
GENERATION_TOKENS = 256


@dataclass(frozen=True)
class _Request:
    begins: datetime
    ends: datetime
    prompt_tokens: int
    generation_tokens: int


@dataclass(frozen=True)
class RequestCounts:
    """A model server's counts at one moment; `kv_cache_usage` is between 0 and 1."""

    running: int
    waiting: int
    succeeded: int
    prompt_tokens: int
    generation_tokens: int
    kv_cache_usage: float


class SimulatedRequests:
    """The simulated requests of every pod.

    - `concurrent_requests`: how many one pod runs at once; more wait.
    """

    def __init__(self, now: Callable[[], datetime], concurrent_requests: int = 256) -> None:
        """Nobody asks anything yet."""
        self._now = now
        self._concurrent_requests = concurrent_requests
        self._lock = threading.Lock()
        self._by_pod: dict[str, list[_Request]] = {}

    def add(self, pod_uid: str, count: int, seconds_each: float, prompt_tokens: int, generation_tokens: int) -> None:
        """Give a pod `count` more requests, each `seconds_each` simulated seconds long."""
        now = self._now()
        with self._lock:
            requests = self._by_pod.setdefault(pod_uid, [])
            for _ in range(count):
                # A full server starts a request when the earliest of those that fill it ends.
                ends = sorted(request.ends for request in requests if request.ends > now)
                begins = now if len(ends) < self._concurrent_requests else ends[-self._concurrent_requests]
                requests.append(
                    _Request(begins, begins + timedelta(seconds=seconds_each), prompt_tokens, generation_tokens)
                )

    def finished_at(self, pod_uid: str) -> datetime | None:
        """When the last of a pod's requests is over; None where none is running or waiting."""
        now = self._now()
        with self._lock:
            open_requests = [request.ends for request in self._by_pod.get(pod_uid, []) if request.ends > now]
        return max(open_requests, default=None)

    def forget(self, pod_uid: str) -> None:
        """A pod is gone, and its counters with it."""
        with self._lock:
            self._by_pod.pop(pod_uid, None)

    def counts(self, pod_uid: str) -> RequestCounts:
        """A pod's counts now."""
        now = self._now()
        with self._lock:
            requests = list(self._by_pod.get(pod_uid, []))
        begun = [request for request in requests if request.begins <= now]
        running = [request for request in begun if request.ends > now]
        finished = [request for request in begun if request.ends <= now]
        generated = sum(request.generation_tokens for request in finished)
        for request in running:
            share = (now - request.begins) / (request.ends - request.begins)
            generated += int(request.generation_tokens * share)
        return RequestCounts(
            running=len(running),
            waiting=len(requests) - len(begun),
            succeeded=len(finished),
            prompt_tokens=sum(request.prompt_tokens for request in begun),
            generation_tokens=generated,
            kv_cache_usage=round(min(1.0, len(running) / self._concurrent_requests), 6),
        )
