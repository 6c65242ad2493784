"""The sockets: HTTP/1.1 on 127.0.0.1, one thread a connection, all of them closed at the end."""

import json
import socket
import threading
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from infra.sandbox.kubernetes.access import Authenticate, check_access
from infra.sandbox.kubernetes.messages import Answer, Request
from infra.sandbox.kubernetes.refusals import Refusal

_BODY_LIMIT_BYTES = 3 * 1024 * 1024


class HttpServer(ThreadingHTTPServer):
    """Serves `answer` on a port that the system chose; `failed` takes the words of faults."""

    daemon_threads = True

    def __init__(
        self,
        answer: Callable[[Request], Answer],
        authenticate: Authenticate | None,
        failed: Callable[[str], None],
        port: int = 0,
    ) -> None:
        """Bind the port; `serve_forever` then serves it."""
        self.answer = answer
        self.authenticate = authenticate
        self.failed = failed
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection, so that it can be closed."""
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection."""
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are no news."""

    def close_all(self) -> None:
        """Stop serving and close every connection, idle ones too."""
        self.shutdown()
        self.server_close()
        with self._open_lock:
            connections = list(self._open)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "dormouse-simulated-kubernetes"
    # Without these a small answer waits 40 ms for the client's acknowledgement.
    disable_nagle_algorithm = True
    wbufsize = 65536
    server: HttpServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Stay silent: the sandbox's own output is for its user."""

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def _serve(self) -> None:
        try:
            try:
                answer = self._answer()
            except Refusal as refusal:
                wait = {} if refusal.retry_after_s is None else {"Retry-After": str(refusal.retry_after_s)}
                answer = Answer(refusal.code, refusal.status(), headers=wait)
            except Exception as error:  # noqa: BLE001 - a fault here must reach its author, and the client as a 500
                self.server.failed(traceback.format_exc())
                words = f"the simulated API server failed: {type(error).__name__}: {error}"
                answer = Answer(500, Refusal(500, "InternalError", words).status())
            self._write(answer)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _answer(self) -> Answer:
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit() or int(length) > _BODY_LIMIT_BYTES:
            self.close_connection = True
            words = f"limit is {_BODY_LIMIT_BYTES}"
            raise Refusal(413, "RequestEntityTooLarge", f"Request entity too large: {words}")
        body = self.rfile.read(int(length))
        url = urlsplit(self.path)
        parts = tuple(unquote(part) for part in url.path.strip("/").split("/") if part)
        check_access(self.server.authenticate, self.headers.get("Authorization", ""), self.command, parts)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        kind = self.headers.get("Content-Type", "")
        return self.server.answer(Request(self.command, url.path, parts, query, kind, body, url.query))

    def _write(self, answer: Answer) -> None:
        self.send_response(answer.code)
        self.send_header("Content-Type", answer.content_type)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.stream is None:
            body = answer.encoded()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for item in answer.stream:
            line = json.dumps(item).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
