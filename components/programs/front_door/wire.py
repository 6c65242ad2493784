"""HTTP/1.1 on asyncio streams, as much of it as a door needs, with a limit on everything a caller can make long."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus

from components.programs.front_door.answers import Answer

HEAD_LIMIT_BYTES = 32 * 1024
HEAD_TIMEOUT_S = 15.0
BODY_TIMEOUT_S = 60.0
_LINE_LIMIT_BYTES = 1024


class BadRequest(Exception):  # noqa: N818 - the protocol's word for it
    """What came is no request that can be answered; `status` says how."""

    def __init__(self, status: int, message: str) -> None:
        """Keep the status for the answer."""
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass
class Head:
    """A request's or an answer's first line and headers; header names are in lower case."""

    first: str
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def method(self) -> str:
        """The request's method."""
        return self.first.split(" ")[0]

    @property
    def path(self) -> str:
        """The request's path without its query."""
        return self.first.split(" ")[1].partition("?")[0]

    @property
    def status(self) -> int:
        """The answer's status."""
        return int(self.first.split(" ")[1])

    @property
    def keeps_open(self) -> bool:
        """Whether the caller wants to send another request on this connection."""
        return self.first.endswith("HTTP/1.1") and self.headers.get("connection", "").lower() != "close"


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next head, or None where the other side has closed; raises BadRequest and TimeoutError."""
    try:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise BadRequest(400, "the request ends in its headers") from error
        return None
    except asyncio.LimitOverrunError as error:
        raise BadRequest(431, f"headers longer than {HEAD_LIMIT_BYTES} bytes") from error
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    head = Head(first)
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest(400, "a header that is none")
        name = name.lower()
        if name in head.headers and name in ("content-length", "transfer-encoding", "host", "authorization"):
            raise BadRequest(400, f"more than one {name} header")
        head.headers[name] = value.strip()
    return head


def check_request(head: Head) -> None:
    """Raise BadRequest where the first line or the length headers of a request make no sense."""
    parts = head.first.split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0") or not parts[1].startswith("/"):
        raise BadRequest(400, "not an HTTP/1.1 request")
    length, coding = head.headers.get("content-length"), head.headers.get("transfer-encoding")
    if length is not None and coding is not None:
        raise BadRequest(400, "both content-length and transfer-encoding")
    if length is not None and not (length.isascii() and length.isdecimal()):
        raise BadRequest(400, "a content-length that is no number")
    if coding is not None and coding.lower() != "chunked":
        raise BadRequest(501, f"transfer-encoding {coding!r} is not understood")


async def body_parts(reader: asyncio.StreamReader, head: Head, *, until_end: bool = False) -> AsyncIterator[bytes]:
    """The body, decoded, as it comes; `until_end` for answers whose end is the connection's."""
    if head.headers.get("transfer-encoding", "").lower() == "chunked":
        while size := await _chunk_size(reader):
            left = size
            while left:
                part = await reader.read(min(left, 64 * 1024))
                if not part:
                    raise BadRequest(400, "the body ends in a chunk")
                left -= len(part)
                yield part
            await reader.readline()
        while (await reader.readline()).strip():
            pass
        return
    length = head.headers.get("content-length")
    if length is None and not until_end:
        return
    left = int(length) if length is not None else None
    while left is None or left > 0:
        part = await reader.read(64 * 1024 if left is None else min(left, 64 * 1024))
        if not part:
            if left:
                raise BadRequest(400, f"the body ends {left} bytes early")
            return
        if left is not None:
            left -= len(part)
        yield part


async def read_body(reader: asyncio.StreamReader, head: Head, limit_bytes: int) -> bytes:
    """The whole body; raises BadRequest (413) past `limit_bytes`, and TimeoutError where it trickles."""
    length = head.headers.get("content-length", "0")
    if int(length) > limit_bytes:
        raise BadRequest(413, f"a body of {length} bytes; accepted: at most {limit_bytes}")
    parts = bytearray()
    async with asyncio.timeout(BODY_TIMEOUT_S):
        async for part in body_parts(reader, head):
            parts += part
            if len(parts) > limit_bytes:
                raise BadRequest(413, f"a body of more than {limit_bytes} bytes")
    return bytes(parts)


async def _chunk_size(reader: asyncio.StreamReader) -> int:
    line = await reader.readline()
    if len(line) > _LINE_LIMIT_BYTES:
        raise BadRequest(400, "a chunk without its size")
    try:
        size = int(line.split(b";")[0].strip() or b"x", 16)
    except ValueError as error:
        raise BadRequest(400, "a chunk without its size") from error
    if size < 0:
        raise BadRequest(400, "a chunk of negative size")
    return size


def answer_bytes(answer: Answer, *, keep_open: bool, with_body: bool = True) -> bytes:
    """A whole answer as it goes over the wire."""
    lines = [
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(answer.body)}",
        f"Connection: {'keep-alive' if keep_open else 'close'}",
        "Cache-Control: no-store",
    ]
    if answer.retry_after_s is not None:
        lines.append(f"Retry-After: {answer.retry_after_s}")
    if answer.challenge:
        lines.append("WWW-Authenticate: Bearer")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (answer.body if with_body else b"")


def stream_head() -> bytes:
    """The head of an event stream whose length nobody knows yet."""
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-store\r\n"
        b"Connection: close\r\nTransfer-Encoding: chunked\r\nX-Accel-Buffering: no\r\n\r\n"
    )


def chunk(data: bytes) -> bytes:
    """One chunk; the empty one ends the body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
