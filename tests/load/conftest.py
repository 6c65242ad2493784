"""A server that lists a model and shows metrics, and a stand-in for the load generator."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

KEY = "sk-of-the-load-tests-0123456789"


class Served(ThreadingHTTPServer):
    """Answers /v1/models with the key and /metrics without; each look at the metrics finds a fuller cache."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.looks = 0
        self.model = "scripted-kimi"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Served

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self.server.looks += 1
            looks = self.server.looks
            page = (
                f'vllm:kv_cache_usage_perc{{engine="0"}} {min(0.9, 0.1 * looks)}\n'
                f'vllm:num_requests_running{{engine="0"}} {looks}\nvllm:num_requests_waiting{{engine="0"}} 3\n'
                f'vllm:num_preemptions_total{{engine="0"}} {7 * looks}\n'
            )
            return self._answer(200, page)
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            return self._answer(401, '{"error":"Unauthorized"}')
        listed = {"data": [{"id": self.server.model, "max_model_len": 4096, "root": "/weights"}]}
        return self._answer(200, json.dumps(listed))

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("DORMOUSE_API_KEY", KEY)
    server = Served()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


class Bench:
    """The stand-in for the load generator: what it is to do, and how it was called."""

    program = Path(__file__).with_name("fake_bench.py")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan(throughput={"1": 60, "2": 118, "8": 400, "32": 500}, ttft={"1": 200, "2": 250, "8": 700, "32": 4000})

    def plan(self, **values: Any) -> None:
        (self.folder / "plan.json").write_text(json.dumps(values))

    @property
    def calls(self) -> list[dict[str, Any]]:
        file = self.folder / "calls.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("FAKE_BENCH", str(tmp_path))
    return Bench(tmp_path)
