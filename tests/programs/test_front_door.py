"""The front door over real sockets: who is told what, who may wake, and how a held request reaches the model."""

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from components.programs.front_door.door import FrontDoor
from components.programs.front_door.notice import NoticeBoard
from components.programs.front_door.settings import DoorSettings, SettingsError, read_settings
from components.programs.front_door.wire import HEAD_LIMIT_BYTES
from infra.sandbox.kubernetes.server import KubernetesServer
from tests.sandbox.kubernetes.builders import ManualClock

KEY = "sk-0123456789abcdef01234567"
CHAT = json.dumps({"model": "kimi-k2.5", "messages": []}).encode()
STREAM = json.dumps({"model": "kimi-k2.5", "messages": [], "stream": True}).encode()
WITH_KEY = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}


class Model:
    """A stand-in for the model's pods that can be switched on; it counts requests and sees callers leave."""

    def __init__(self) -> None:
        model = self
        self.healthy = False
        self.asked: list[tuple[str, bytes, str]] = []
        self.hung_up = threading.Event()
        self.endless = False

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.send_response(200 if model.healthy else 503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                model.asked.append((self.path, body, self.headers.get("Authorization", "")))
                if not json.loads(body).get("stream"):
                    answer = b'{"choices":[{"message":{"content":"hello"}}]}'
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    index = 0
                    while model.endless or index < 3:
                        part = f'data: {{"n":{index}}}\n\n'.encode()
                        self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                        index += 1
                        if model.endless:
                            time.sleep(0.02)
                    self.wfile.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
                except OSError:
                    model.hung_up.set()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def port(self) -> int:
        return self.server.server_address[1]


class Place:
    """A front door, the API server that holds its notice, and the model behind it."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.kubernetes = KubernetesServer(self.clock)
        self.kubernetes.__enter__()
        self.model = Model()
        (folder / "api-key").write_text(KEY + "\n")
        (folder / "token").write_text("a-pod-s-token")
        self.settings = DoorSettings(
            port=0, ready_port=0, key_path=folder / "api-key", model="kimi-k2.5", planned_wake_s=1200, hold_s=0,
            upstream_host="127.0.0.1", upstream_port=self.model.port, api_url=self.kubernetes.url,
            token_path=folder / "token", authority_path=folder / "ca.crt", namespace="default", notice_name="kimi-door",
        )  # fmt: skip
        self.api("POST", {"metadata": {"name": "kimi-door"}})
        self.monotonic_s = 0.0
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.port = 0
        self.open()

    def open(self, **changes: Any) -> None:
        settings = replace(self.settings, **changes)
        board = NoticeBoard(settings, monotonic_s=lambda: self.monotonic_s, now=self.clock.now)
        door = FrontDoor(settings, board, now=self.clock.now, keep_alive_s=0.05, probe_every_s=0.05)

        async def start() -> asyncio.Server:
            return await asyncio.start_server(door.serve_connection, "127.0.0.1", 0, limit=HEAD_LIMIT_BYTES)

        server = asyncio.run_coroutine_threadsafe(start(), self._loop).result(30)
        self.port = server.sockets[0].getsockname()[1]

    def close(self) -> None:
        async def end() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.model.server.shutdown()
        self.kubernetes.__exit__(None, None, None)

    def api(self, method: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        name = "" if method == "POST" else "/kimi-door"
        connection = http.client.HTTPConnection(self.kubernetes.url.removeprefix("http://"), timeout=30)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        path = f"/api/v1/namespaces/default/configmaps{name}"
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": kind})
        answer = json.loads(connection.getresponse().read())
        assert answer["kind"] == "ConfigMap", answer
        return answer

    def annotations(self) -> dict[str, str]:
        return self.api("GET")["metadata"].get("annotations", {})

    def tell(self, **annotations: str) -> None:
        self.monotonic_s += 6
        spelled = {f"dormouse.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
        self.api("PATCH", {"metadata": {"annotations": spelled}})

    def ask(
        self, path: str, body: bytes | None = CHAT, headers: dict[str, str] | None = None, method: str = ""
    ) -> tuple[int, Any, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(
            method or ("GET" if body is None else "POST"), path, body, WITH_KEY if headers is None else headers
        )
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text[:1] == b"{" else text, answer


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def until(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + 30
    while not (value := look()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return value


def test_a_caller_with_the_key_is_told_when_and_wakes(place: Place) -> None:
    status, body, answer = place.ask("/v1/chat/completions")
    assert (status, answer.headers["Retry-After"]) == (503, "1200")
    assert body["error"]["code"] == "model_asleep"
    assert body["error"]["type"] == "service_unavailable"
    assert "kimi-k2.5 was asleep and is being woken; it serves in about 20 min" in body["error"]["message"]
    assert place.annotations() == {
        "dormouse.dev/wake-requested": "2026-03-02T09:00:00+00:00",
        "dormouse.dev/wake-requests": "1",
    }


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer sk-wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": KEY},
        {"X-Api-Key": KEY},
    ],
)
def test_a_stranger_wakes_nothing(place: Place, headers: dict[str, str]) -> None:
    status, body, answer = place.ask("/v1/chat/completions", headers=headers)
    assert (status, body["error"]["code"]) == (401, "invalid_api_key")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert place.annotations() == {}


def test_without_a_key_file_nobody_gets_in(place: Place) -> None:
    place.settings.key_path.write_text("")
    assert place.ask("/v1/chat/completions", headers={"Authorization": "Bearer "})[0] == 401
    place.settings.key_path.unlink()
    assert place.ask("/v1/chat/completions")[0] == 401
    place.settings.key_path.write_text("sk-a-renewed-key-of-24-letters")
    assert place.ask("/v1/chat/completions")[0] == 401
    renewed = {"Authorization": "Bearer sk-a-renewed-key-of-24-letters"}
    assert place.ask("/v1/chat/completions", headers=renewed)[0] == 503


@pytest.mark.parametrize(
    "path", ["/invocations", "/metrics", "/", "/v1", "/tokenize", "/v2/chat", "//v1/chat/completions"]
)
def test_other_paths_are_not_served(place: Place, path: str) -> None:
    status, body, _ = place.ask(path)
    assert (status, body["error"]["message"]) == (404, "only /v1/* and /health are served here")
    assert place.annotations() == {}


def test_looking_does_not_wake(place: Place) -> None:
    status, body, answer = place.ask("/health", None, {})
    assert (status, body["status"], answer.headers["Retry-After"]) == (503, "asleep", None)
    status, body, _ = place.ask("/v1/models", None)
    assert (status, body["data"][0]["id"], body["data"][0]["state"]) == (200, "kimi-k2.5", "asleep")
    assert place.ask("/v1/models", None, {})[0] == 401
    assert place.annotations() == {}


def test_the_estimate_follows_the_wake(place: Place) -> None:
    place.tell(state="waking", expected_at="2026-03-02T09:07:00+00:00", reason="the model loads")
    status, body, answer = place.ask("/v1/completions")
    assert (status, answer.headers["Retry-After"]) == (503, "420")
    assert "kimi-k2.5 is on its way; it serves in about 7 min" in body["error"]["message"]
    place.clock.advance(410)
    assert place.ask("/health", None, {})[2].headers["Retry-After"] == "15"


def test_a_refused_wake_says_why_and_promises_nothing(place: Place) -> None:
    place.tell(state="refused", reason="the monthly budget of $20,000 is spent")
    status, body, answer = place.ask("/v1/chat/completions")
    assert (status, body["error"]["code"], answer.headers["Retry-After"]) == (503, "wake_refused", None)
    assert "the monthly budget of $20,000 is spent" in body["error"]["message"]
    assert "dormouse.dev/wake-requested" not in place.annotations()


def test_wakes_are_asked_for_once_a_minute(place: Place) -> None:
    for _ in range(5):
        place.ask("/v1/chat/completions")
    assert place.annotations()["dormouse.dev/wake-requests"] == "1"
    place.clock.advance(61)
    place.monotonic_s += 61
    place.ask("/v1/chat/completions")
    assert place.annotations() == {
        "dormouse.dev/wake-requested": "2026-03-02T09:01:01+00:00",
        "dormouse.dev/wake-requests": "6",
    }


def test_a_wish_that_could_not_be_noted_is_said_and_tried_again(place: Place) -> None:
    place.open(notice_name="somebody-took-it-away")
    status, body, answer = place.ask("/v1/chat/completions")
    assert (status, answer.headers["Retry-After"]) == (503, "30")
    assert "could not be noted" in body["error"]["message"]
    place.api("POST", {"metadata": {"name": "somebody-took-it-away"}})
    assert place.ask("/v1/chat/completions")[2].headers["Retry-After"] == "1200"


def test_one_connection_takes_many_requests_and_large_prompts_get_their_answer(place: Place) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
    for body in (CHAT, CHAT):
        connection.request("POST", "/v1/chat/completions", body, WITH_KEY)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Connection"]) == (503, "keep-alive")
        answer.read()
    connection.request("POST", "/v1/chat/completions", iter([CHAT, CHAT]), WITH_KEY, encode_chunked=True)
    assert connection.getresponse().read()
    connection.request("POST", "/v1/chat/completions", b"x" * 5_000_000, WITH_KEY)
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Connection"]) == (503, "close")
    assert json.loads(answer.read())["error"]["code"] == "model_asleep"
    connection.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET http://evil/ HTTP/1.1\r\n\r\n", 400),
        (b"POST /v1/x HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST /v1/x HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", 400),
        (b"POST /v1/x HTTP/1.1\r\nContent-Length: -3\r\n\r\n", 400),
        (b"POST /v1/x HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET /health HTTP/1.1\r\n" + b"x: " + b"y" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /health HTTP/1.1\r\nno colon\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_refused(place: Place, sent: bytes, status: int) -> None:
    with socket.create_connection(("127.0.0.1", place.port), timeout=30) as caller:
        caller.sendall(sent)
        caller.shutdown(socket.SHUT_WR)
        answer = b""
        while part := caller.recv(65536):
            answer += part
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
    assert place.annotations() == {}


def test_a_stream_is_held_until_the_model_serves(place: Place) -> None:
    place.open(hold_s=60)
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
    connection.request("POST", "/v1/chat/completions", STREAM, WITH_KEY)
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    assert answer.readline() == b": kimi-k2.5 is being woken, about 20 min to go\n"
    place.model.healthy = True
    lines = answer.read().split(b"\n")
    events = [line for line in lines if line and not line.startswith(b":")]
    assert events == [b'data: {"n":0}', b'data: {"n":1}', b'data: {"n":2}', b"data: [DONE]"]
    assert place.model.asked == [("/v1/chat/completions", STREAM, f"Bearer {KEY}")]
    assert place.annotations()["dormouse.dev/wake-requests"] == "1"


def test_a_plain_request_is_held_and_gets_the_model_s_own_answer(place: Place) -> None:
    place.open(hold_s=60)
    threading.Timer(0.2, lambda: setattr(place.model, "healthy", True)).start()
    status, body, _ = place.ask("/v1/chat/completions")
    assert (status, body["choices"][0]["message"]["content"]) == (200, "hello")
    assert place.model.asked == [("/v1/chat/completions", CHAT, f"Bearer {KEY}")]


def test_who_waits_too_long_is_told_when_to_come_back(place: Place) -> None:
    place.open(hold_s=1)
    status, _, answer = place.ask("/v1/chat/completions")
    assert (status, answer.headers["Retry-After"]) == (503, "1200")
    status, body, _ = place.ask("/v1/chat/completions", STREAM)
    assert status == 200
    assert b'data: {"error": {"message": "kimi-k2.5 was asleep' in body
    assert body.endswith(b"data: [DONE]\n\n")
    assert place.model.asked == []


def test_a_stranger_is_not_held(place: Place) -> None:
    place.open(hold_s=60)
    assert place.ask("/v1/chat/completions", STREAM, {"Authorization": "Bearer x"})[0] == 401
    place.tell(state="refused", reason="held asleep by ana")
    assert place.ask("/v1/chat/completions", STREAM)[1]["error"]["code"] == "wake_refused"


def test_who_hangs_up_stops_the_model(place: Place) -> None:
    place.open(hold_s=60)
    place.model.healthy = place.model.endless = True
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
    connection.request("POST", "/v1/chat/completions", STREAM, WITH_KEY)
    answer = connection.getresponse()
    until(lambda: answer.readline().startswith(b"data:"))
    answer.close()
    connection.close()
    assert place.model.hung_up.wait(30)


def test_wrong_settings_are_told_all_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings({"DOOR_HOLD_S": "-1", "DOOR_PORT": "http"})
    words = str(caught.value)
    for name in ("DOOR_HOLD_S", "DOOR_PORT", "DOOR_MODEL", "DOOR_NAMESPACE", "DOOR_NOTICE", "KUBERNETES_SERVICE_HOST"):
        assert f"{name}: got" in words


def test_it_runs_as_a_process_and_stops_when_told(place: Place) -> None:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        port, ready_port = one.getsockname()[1], two.getsockname()[1]
    environment = {
        "PATH": os.environ["PATH"], "DOOR_PORT": str(port), "DOOR_READY_PORT": str(ready_port), "DOOR_MODEL": "kimi-k2.5",
        "DOOR_KEY_FILE": str(place.settings.key_path), "DOOR_API_URL": place.kubernetes.url, "DOOR_NAMESPACE": "default",
        "DOOR_NOTICE": "kimi-door", "DOOR_TOKEN_FILE": str(place.settings.token_path),
    }  # fmt: skip
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "components.programs.front_door"]
    with subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"front door: answering for kimi-k2.5 on port {port}\n"
        place.port = ready_port
        assert place.ask("/", None, {})[0] == 200
        place.port = port
        assert place.ask("/v1/chat/completions")[0] == 503
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    assert place.annotations()["dormouse.dev/wake-requests"] == "1"
