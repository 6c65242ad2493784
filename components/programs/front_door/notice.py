"""The notice: one ConfigMap on which callers' wishes and the jobs' news meet, read and written through the API server.

The door's account may get and patch this one object and nothing else in the cluster.
"""

import asyncio
import json
import ssl
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

from components.programs.front_door.answers import Notice
from components.programs.front_door.settings import DoorSettings

# The same spelling as serving/manifests/labels.py; a test holds the two together.
STATE = "dormouse.dev/state"
REASON = "dormouse.dev/reason"
EXPECTED = "dormouse.dev/expected-at"
WAKE_REQUESTED = "dormouse.dev/wake-requested"
WAKE_REQUESTS = "dormouse.dev/wake-requests"

FRESH_S = 5.0
_CALL_TIMEOUT_S = 5.0


class NoticeBoard:
    """Reads the notice, at most every five seconds, and asks for a wake, at most once a minute."""

    def __init__(
        self,
        settings: DoorSettings,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        wake_every_s: float = 60.0,
    ) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._monotonic_s = monotonic_s
        self._now = now
        self._wake_every_s = wake_every_s
        self._url = f"{settings.api_url}/api/v1/namespaces/{settings.namespace}/configmaps/{settings.notice_name}"
        self._notice = Notice()
        self._read_at_s: float | None = None
        self._asked_at_s: float | None = None
        self._requests = 0
        self._reading = asyncio.Lock()
        self._asking = asyncio.Lock()
        self.fault = ""
        """Why the last call failed; empty where it did not."""

    async def read(self) -> Notice:
        """The notice, at most five seconds old; the last one known where the API server does not answer."""
        async with self._reading:
            now_s = self._monotonic_s()
            if self._read_at_s is None or now_s - self._read_at_s >= FRESH_S:
                self._read_at_s = now_s
                found = await self._call("GET", None)
                if found is not None:
                    self._notice = _notice(found)
        return self._notice

    async def ask_for_wake(self) -> bool:
        """Note that somebody wants the model; False where it could not be written, which the next call tries again."""
        self._requests += 1
        async with self._asking:
            now_s = self._monotonic_s()
            if self._asked_at_s is not None and now_s - self._asked_at_s < self._wake_every_s:
                return True
            requests = self._requests
            annotations = {
                WAKE_REQUESTED: self._now().isoformat(timespec="seconds"),
                WAKE_REQUESTS: str(requests),
            }
            if await self._call("PATCH", {"metadata": {"annotations": annotations}}) is None:
                return False
            self._asked_at_s = now_s
            return True

    async def _call(self, method: str, body: dict[str, Any] | None) -> dict[str, Any] | None:
        try:
            answer = await asyncio.to_thread(self._send, method, body)
        except (OSError, ValueError) as error:
            words = f"{method} of the notice failed: {error}"
            if words != self.fault:
                print(f"front door: {words}", flush=True)
            self.fault = words
            return None
        self.fault = ""
        return answer

    def _send(self, method: str, body: dict[str, Any] | None) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310 - the API server's address, from the manifest
            self._url,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Accept": "application/json", "Content-Type": "application/merge-patch+json"},
        )
        # Read each time: the kubelet renews the token within the hour.
        request.add_unredirected_header("Authorization", f"Bearer {self._settings.token_path.read_text().strip()}")
        context = (
            ssl.create_default_context(cafile=str(self._settings.authority_path))
            if self._url.startswith("https:")
            else None
        )
        with urllib.request.urlopen(request, timeout=_CALL_TIMEOUT_S, context=context) as answer:  # noqa: S310
            return cast("dict[str, Any]", json.load(answer))


def _notice(config_map: dict[str, Any]) -> Notice:
    annotations = cast("dict[str, str]", config_map.get("metadata", {}).get("annotations") or {})
    expected: datetime | None = None
    try:
        expected = datetime.fromisoformat(annotations.get(EXPECTED, ""))
    except ValueError:
        expected = None
    if expected is not None and expected.tzinfo is None:
        expected = expected.replace(tzinfo=UTC)
    return Notice(annotations.get(STATE, ""), annotations.get(REASON, ""), expected)
