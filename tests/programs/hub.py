"""A stand-in for a model hub over real sockets, with a content network on another port and faults on request."""

import json
import socket
import ssl
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.programs.model import COMMIT, MadeUpModel, sha256, sibling

REPOSITORY = "made-up/Model-1T"


@dataclass(frozen=True)
class Trouble:
    """What goes wrong with one answer; all at its default is no trouble.

    `reset_at`, `end_at`, `stall_at`, `flip_at`: after or at that byte of the body.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    reset_at: int | None = None
    end_at: int | None = None
    stall_at: int | None = None
    flip_at: int | None = None
    body: bytes | None = None
    ignore_range: bool = False
    content_range: str = ""
    etag: str = ""
    bytes_per_s: int = 0


@dataclass(frozen=True)
class Request:
    place: str
    path: str
    range: str
    authorization: str


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what these tests are about."""


class Hub:
    """Serves a model as the Hugging Face hub and as ModelScope do; `troubles[path]` is used up one by one."""

    def __init__(
        self,
        model: MadeUpModel,
        *,
        token: str = "",
        redirect: bool = True,
        block_bytes: int = 16 * 1024,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.model = model
        self.token = token
        self.redirect = redirect
        self.block_bytes = block_bytes
        self.tls = tls
        self.commit = COMMIT
        self.refuse: tuple[int, str] | None = None
        self.troubles: dict[str, list[Trouble]] = defaultdict(list)
        self.served: dict[str, int] = defaultdict(int)
        self.requests: list[Request] = []
        self.gate_bytes: int | None = None
        self.gate = threading.Event()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._servers: list[ThreadingHTTPServer] = []

    def __enter__(self) -> Self:
        for place in ("hub", "content"):
            server = _QuietServer(("127.0.0.1", 0), _handler(self, place))
            server.daemon_threads = True
            server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
            if self.tls is not None:
                server.socket = self.tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            self._servers.append(server)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    @property
    def url(self) -> str:
        return self._url(0)

    @property
    def content_url(self) -> str:
        return self._url(1)

    def _url(self, number: int) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self._servers[number].server_port}"

    @property
    def served_bytes(self) -> int:
        return sum(self.served.values())

    def requests_of(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path == path and request.place == "content"]

    def hold_after(self, size_bytes: int | None) -> None:
        """Send nothing more once so many bytes of files have gone out; None lets everything through."""
        self.served.clear()
        self.gate.clear()
        self.gate_bytes = size_bytes

    def allowed(self, path: str, wanted: int) -> int:
        """How many bytes may go out now; waits at the gate until the hub ends or the client goes."""
        with self._lock:
            if self.gate_bytes is None:
                allowed = wanted
            else:
                allowed = min(wanted, self.gate_bytes - self.served_bytes)
                if allowed <= 0:
                    self.gate.set()
            self.served[path] += max(allowed, 0)
        return allowed

    def next_trouble(self, path: str) -> Trouble:
        with self._lock:
            waiting = self.troubles[path]
            return waiting.pop(0) if waiting else Trouble()

    def wait_ended(self, seconds: float) -> bool:
        return self._ended.wait(seconds)


def _handler(hub: Hub, place: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            split = urlsplit(self.path)
            path, query = unquote(split.path), parse_qs(split.query)
            self.close_connection = True
            with suppress(ConnectionError):
                if path.startswith(f"/api/models/{REPOSITORY}/revision/"):
                    self.list_hub()
                elif path.startswith(f"/api/v1/models/{REPOSITORY}/commits/"):
                    self.answer(200, json.dumps({"Data": {"Commit": [{"Id": hub.commit}], "TotalCount": 1}}).encode())
                elif path == f"/api/v1/models/{REPOSITORY}/repo/files":
                    self.list_model_scope()
                elif path == f"/api/v1/models/{REPOSITORY}/repo":
                    self.file(query["FilePath"][0])
                elif path.startswith(f"/{REPOSITORY}/resolve/{hub.commit}/"):
                    self.file(path.removeprefix(f"/{REPOSITORY}/resolve/{hub.commit}/"))
                elif path.startswith("/blob/"):
                    self.file(path.removeprefix("/blob/"))
                else:
                    self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})

        def list_hub(self) -> None:
            if hub.refuse:
                self.answer(hub.refuse[0], b"{}", {"X-Error-Code": hub.refuse[1]})
                return
            trouble = hub.next_trouble("listing")
            if trouble.status or trouble.body is not None:
                self.answer(trouble.status or 200, trouble.body or b"", trouble.headers)
                return
            if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
                self.answer(401, b"{}", {"X-Error-Code": "GatedRepo"})
                return
            rows = [sibling(path, data) for path, data in hub.model.everything.items()]
            self.answer(200, json.dumps({"sha": hub.commit, "siblings": rows}).encode())

        def list_model_scope(self) -> None:
            rows: list[dict[str, object]] = [{"Path": "figures", "Type": "tree", "Size": 0}]
            for path, data in hub.model.everything.items():
                digest = sha256(data)
                rows.append({"Path": path, "Type": "blob", "Size": len(data), "Sha256": digest})
            self.answer(200, json.dumps({"Code": 200, "Data": {"Files": rows}}).encode())

        def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, text in {"Content-Length": str(len(body)), "Connection": "close", **(headers or {})}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)

        def file(self, path: str) -> None:
            wanted = self.headers.get("Range", "")
            hub.requests.append(Request(place, path, wanted, self.headers.get("Authorization", "")))
            if place == "hub" and hub.redirect:
                self.answer(302, b"", {"Location": f"{hub.content_url}/blob/{path}?signature=secret"})
                return
            trouble = hub.next_trouble(path)
            if trouble.status:
                self.answer(trouble.status, trouble.body or b"", trouble.headers)
                return
            data = hub.model.everything[path] if trouble.body is None else trouble.body
            etag = trouble.etag or f'"{sha256(data)[:32]}"'
            whole = not wanted or trouble.ignore_range or self.headers.get("If-Range", etag) != etag
            start = 0 if whole else int(wanted.removeprefix("bytes=").rstrip("-"))
            self.send_response(200 if whole else 206)
            self.send_header("ETag", etag)
            self.send_header("Content-Length", str(len(data) - start))
            self.send_header("Connection", "close")
            if not whole:
                given = trouble.content_range or f"bytes {start}-{len(data) - 1}/{len(data)}"
                self.send_header("Content-Range", given)
            self.end_headers()
            self.body(path, data, start, trouble)

        def body(self, path: str, data: bytes, start: int, trouble: Trouble) -> None:
            if trouble.flip_at is not None:
                at = trouble.flip_at
                data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            stops = [stop for stop in (trouble.reset_at, trouble.end_at, trouble.stall_at) if stop is not None]
            stop = min([len(data), *stops])
            while start < stop:
                allowed = hub.allowed(path, min(hub.block_bytes, stop - start))
                if allowed <= 0:
                    if hub.wait_ended(0.01) or self.gone():
                        return
                    continue
                self.wfile.write(data[start : start + allowed])
                start += allowed
                if trouble.bytes_per_s:
                    time.sleep(allowed / trouble.bytes_per_s)
            self.wfile.flush()
            if trouble.reset_at is not None:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            while trouble.stall_at is not None and not hub.wait_ended(0.01) and not self.gone():
                pass

        def gone(self) -> bool:
            """Whether the client has closed its end."""
            if hub.tls is not None:
                return False  # TLS cannot be peeked into: the hub's end or the next write tells
            self.connection.settimeout(0.0)
            try:
                return self.connection.recv(1, socket.MSG_PEEK) == b""
            except BlockingIOError:
                return False
            except ConnectionError:
                return True
            finally:
                self.connection.settimeout(None)

    return Handler


def wait_until(condition: Callable[[], bool], limit_s: float = 30.0) -> None:
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until, "the condition never came true"
        time.sleep(0.005)
