"""One connection at the front door: who asks, may they, and what they are told."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from components.programs.front_door import answers
from components.programs.front_door.answers import Answer
from components.programs.front_door.notice import NoticeBoard
from components.programs.front_door.settings import DoorSettings
from components.programs.front_door.upstream import Upstream, close, linger
from components.programs.front_door.wire import (
    BadRequest,
    Head,
    answer_bytes,
    check_request,
    chunk,
    read_body,
    read_head,
    stream_head,
)

MOST_CONNECTIONS = 512
# Longer than any prompt of text, and what 512 callers send at once still fits beside the process.
_SMALL_BODY_BYTES = 64 * 1024
_HELD_BODY_BYTES = 8 * 1024 * 1024
MOST_HELD = 32
KEEP_ALIVE_S = 15.0
_PROBE_EVERY_S = 2.0


class FrontDoor:
    """Answers every connection; `serve_connection` is asyncio's client callback."""

    def __init__(
        self,
        settings: DoorSettings,
        board: NoticeBoard,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        keep_alive_s: float = KEEP_ALIVE_S,
        probe_every_s: float = _PROBE_EVERY_S,
    ) -> None:
        """Open nothing yet."""
        self._settings = settings
        self._board = board
        self._now = now
        self._keep_alive_s = keep_alive_s
        self._probe_every_s = probe_every_s
        self._upstream = Upstream(settings.upstream_host, settings.upstream_port)
        self._key = KeyFile(settings.key_path)
        self._connections = 0
        self._held = 0
        self._served = False
        self._served_at_s = float("-inf")
        self._probing = asyncio.Lock()

    async def serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer request after request until the caller is done, too slow or wrong."""
        self._connections += 1
        try:
            if self._connections > MOST_CONNECTIONS:
                busy = answers.error(503, "too many connections at once", "service_unavailable", "busy", 15)
                writer.write(answer_bytes(busy, keep_open=False))
                return
            while await self._serve_request(reader, writer):
                pass
        except BadRequest as fault:
            refused = answers.error(fault.status, fault.message, "invalid_request_error", fault.status)
            writer.write(answer_bytes(refused, keep_open=False))
            await linger(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            # The caller has gone, is too slow, or sends a line without an end: there is nobody to tell.
            return
        finally:
            self._connections -= 1
            with suppress(OSError):
                await close(writer)

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; True where another may follow on the connection."""
        head = await read_head(reader)
        if head is None:
            return False
        check_request(head)
        answer = await self._early_answer(head)
        if answer is None and self._settings.hold_s and self._held < MOST_HELD:
            self._held += 1
            try:
                return await self._hold(head, reader, writer)
            finally:
                self._held -= 1
        if answer is None:
            answer = await self._away()
        keep_open = head.keeps_open and await _discard(reader, head)
        writer.write(answer_bytes(answer, keep_open=keep_open, with_body=head.method != "HEAD"))
        await writer.drain()
        if not keep_open:
            await linger(reader, writer)
        return keep_open

    async def _early_answer(self, head: Head) -> Answer | None:
        """The answer to what does not wake the model, or None for a caller with the key who wants it."""
        path = head.path
        if path == "/health":
            return answers.health(await self._board.read(), self._now(), self._settings.planned_wake_s)
        if not path.startswith("/v1/"):
            return answers.error(404, answers.NOT_SERVED, "NotFoundError", 404)
        if not self._key.fits(head.headers.get("authorization", "")):
            return answers.error(
                401, "Unauthorized: a wrong API key or none", "invalid_request_error", "invalid_api_key"
            )
        if path == "/v1/models" and head.method in ("GET", "HEAD"):
            return answers.models(self._settings.model, await self._board.read())
        if head.method != "POST":
            return answers.away(
                self._settings.model, await self._board.read(), self._now(), self._settings.planned_wake_s
            )
        return None

    async def _away(self) -> Answer:
        """Ask for the model and say when it is expected."""
        notice = await self._board.read()
        if notice.may_wake and not await self._board.ask_for_wake():
            return answers.error(
                503,
                f"{self._settings.model} is asleep, and the wish to wake it could not be noted; please try again",
                "service_unavailable",
                "model_asleep",
                30,
            )
        return answers.away(self._settings.model, notice, self._now(), self._settings.planned_wake_s)

    async def _hold(self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Keep the request until the model serves, then hand it over; the connection ends with it."""
        if head.headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await read_body(reader, head, _HELD_BODY_BYTES)
        told = await self._away()
        if told.retry_after_s is None:
            writer.write(answer_bytes(told, keep_open=False))
            return False
        streams = _wants_stream(body)
        if streams:
            writer.write(stream_head())
        gone = asyncio.ensure_future(reader.read(1))
        try:
            if await self._wait_for_model(writer, gone, streams=streams):
                await self._hand_over(head, body, writer, gone, streams=streams)
            elif not gone.done():
                late = await self._away()
                writer.write(
                    chunk(answers.stream_error(late)) + chunk(b"") if streams else answer_bytes(late, keep_open=False)
                )
        finally:
            gone.cancel()
        with suppress(OSError):
            await writer.drain()
        return False

    async def _wait_for_model(
        self, writer: asyncio.StreamWriter, gone: "asyncio.Future[bytes]", *, streams: bool
    ) -> bool:
        """Whether the model serves before the time is up or the caller has gone."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._settings.hold_s
        told_s = float("-inf")
        while not gone.done():
            if await self._model_serves():
                return True
            now_s = loop.time()
            if now_s >= end_s:
                return False
            if streams and now_s - told_s >= self._keep_alive_s:
                told_s = now_s
                notice = await self._board.read()
                line = answers.waiting_comment(self._settings.model, notice, self._now(), self._settings.planned_wake_s)
                writer.write(chunk(line))
                await writer.drain()
            # A wish that was noted long ago may have been answered by a wake that failed.
            await self._board.ask_for_wake()
            await asyncio.wait([gone], timeout=min(self._probe_every_s, end_s - now_s))
        return False

    async def _model_serves(self) -> bool:
        """Whether a pod serves, asked once for everybody who waits."""
        loop = asyncio.get_running_loop()
        async with self._probing:
            if loop.time() - self._served_at_s >= self._probe_every_s:
                self._served = await self._upstream.serves()
                self._served_at_s = loop.time()
            return self._served

    async def _hand_over(
        self, head: Head, body: bytes, writer: asyncio.StreamWriter, gone: "asyncio.Future[bytes]", *, streams: bool
    ) -> None:
        """Send the request to the model and its answer to the caller, as it comes."""
        began = False
        try:
            async with self._upstream.send(head, body) as (answer, parts):
                if not streams:
                    began = True
                    writer.write(_relayed_head(answer))
                elif answer.status != 200:
                    whole = b"".join([part async for part in parts])
                    writer.write(chunk(answers.stream_error(Answer(answer.status, whole))) + chunk(b""))
                    return
                async for part in _until_gone(parts, gone):
                    began = True
                    writer.write(chunk(part))
                    await writer.drain()
                writer.write(chunk(b""))
        except (OSError, TimeoutError, BadRequest, asyncio.IncompleteReadError):
            lost = answers.error(502, "the model ended the connection", "service_unavailable", "model_lost", 15)
            if streams:
                writer.write(chunk(answers.stream_error(lost)) + chunk(b""))
            elif not began:
                writer.write(answer_bytes(lost, keep_open=False))


class KeyFile:
    """The callers' key, read again when the kubelet has renewed the file."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._key = b""

    def fits(self, authorization: str) -> bool:
        """Whether a header carries the key; False for everybody while there is no key. Takes the same time for all."""
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp != self._stamp:
                self._key, self._stamp = self._path.read_bytes().strip(), stamp
        except OSError:
            self._key, self._stamp = b"", None
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode(), self._key)
        return same and bool(self._key) and scheme.lower() == "bearer"


def _wants_stream(body: bytes) -> bool:
    try:
        asked: Any = json.loads(body)
    except ValueError:
        return False
    return isinstance(asked, dict) and cast("dict[str, Any]", asked).get("stream") is True


def _relayed_head(answer: Head) -> bytes:
    kept = ("content-type", "cache-control", "retry-after", "x-request-id")
    lines = [answer.first, *(f"{name}: {answer.headers[name]}" for name in kept if name in answer.headers)]
    lines += ["Transfer-Encoding: chunked", "Connection: close"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _until_gone(parts: AsyncIterator[bytes], gone: "asyncio.Future[bytes]") -> AsyncIterator[bytes]:
    """The parts, until the caller hangs up: the model then stops generating, since its connection ends too."""
    while True:
        following = asyncio.ensure_future(anext(parts, b""))
        await asyncio.wait([following, gone], return_when=asyncio.FIRST_COMPLETED)
        if not following.done():
            following.cancel()
            return
        part = following.result()
        if not part:
            return
        yield part


async def _discard(reader: asyncio.StreamReader, head: Head) -> bool:
    """Read a small body away so that the connection can go on; False where it must end instead."""
    if "expect" in head.headers:
        return False
    with suppress(BadRequest):
        await read_body(reader, head, _SMALL_BODY_BYTES)
        return True
    return False
