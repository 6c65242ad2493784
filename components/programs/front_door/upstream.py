"""The model's own pods, once they serve: looked for while a request is held, and then given that request."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from components.programs.front_door.wire import BadRequest, Head, body_parts, read_head

_CONNECT_TIMEOUT_S = 3.0
_PROBE_TIMEOUT_S = 5.0
_LINGER_S = 30.0
_LINGER_SILENCE_S = 5.0
# What belongs to one connection and not to the request.
_HOP_HEADERS = ("connection", "keep-alive", "transfer-encoding", "content-length", "expect", "upgrade", "te")


@dataclass(frozen=True)
class Upstream:
    """The Service that reaches the model's pods alone."""

    host: str
    port: int

    async def serves(self) -> bool:
        """Whether a pod answers /health with 200."""
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                reader, writer = await self._connect()
                try:
                    writer.write(f"GET /health HTTP/1.1\r\nHost: {self.host}\r\nConnection: close\r\n\r\n".encode())
                    await writer.drain()
                    head = await read_head(reader)
                    return head is not None and head.status == 200
                finally:
                    await close(writer)
        except (OSError, TimeoutError, BadRequest, ValueError, IndexError):
            return False

    @contextlib.asynccontextmanager
    async def send(self, head: Head, body: bytes) -> AsyncGenerator[tuple[Head, AsyncIterator[bytes]]]:
        """Give the request to a pod: its answer's head, and the body as it comes. Leaving early ends the request.

        Raises OSError, BadRequest or TimeoutError where no whole head comes.
        """
        reader, writer = await self._connect()
        try:
            lines = [head.first]
            lines += [f"{name}: {value}" for name, value in head.headers.items() if name not in _HOP_HEADERS]
            lines += [f"content-length: {len(body)}", "connection: close"]
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)
            await writer.drain()
            answer = await read_head_patiently(reader)
            yield answer, body_parts(reader, answer, until_end=True)
        finally:
            await close(writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            return await asyncio.open_connection(self.host, self.port)


async def read_head_patiently(reader: asyncio.StreamReader) -> Head:
    """An answer's head, however long the model thinks before it; raises BadRequest where none comes."""
    raw = await reader.readuntil(b"\r\n\r\n")
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) < 2 or not parts[1].isdecimal():
        raise BadRequest(502, "the model's answer is no HTTP")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Head(first, headers)


async def linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Let a caller finish what it is sending: a connection that is closed under it is reset, and the answer lost."""
    with contextlib.suppress(OSError, TimeoutError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()
        async with asyncio.timeout(_LINGER_S):
            while True:
                async with asyncio.timeout(_LINGER_SILENCE_S):
                    if not await reader.read(64 * 1024):
                        return


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a connection; one that the other side has reset is closed as well."""
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(2):
            await writer.wait_closed()
