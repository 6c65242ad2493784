"""A program that stands in for `vllm serve`: prints a recorded start and answers completions as its server does.

Simulated: the log is a real one, the tokens are made up. FAKE_VLLM names a JSON file: `log` (the text to print), `exit`
(a code to end with after it, else it serves), `tokens` (of each answer, when they are to be wrong), `status` (HTTP).
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PLAN = json.loads(Path(os.environ["FAKE_VLLM"]).read_text())
PACE_S = 0.002


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        config = json.loads((Path(sys.argv[2]) / "config.json").read_text())
        assert all(0 <= token < config["vocab_size"] for token in asked["prompt"])
        assert asked["ignore_eos"]
        assert self.path == "/v1/completions"
        status = PLAN.get("status", 200)
        self.send_response(status)
        self.send_header("Connection", "close")
        self.end_headers()
        if status != 200:
            self.wfile.write(b'{"error": "engine is dead"}')
            return
        count = PLAN.get("tokens", asked["max_tokens"])
        for _ in range(count):
            time.sleep(PACE_S)
            self._chunk({"choices": [{"text": "w7 "}]})
        self._chunk({"choices": [], "usage": {"completion_tokens": count, "prompt_tokens": len(asked["prompt"])}})
        self.wfile.write(b"data: [DONE]\n\n")

    def _chunk(self, document: dict) -> None:
        self.wfile.write(f"data: {json.dumps(document)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def main() -> None:
    flags = dict(word.split("=", 1) for word in sys.argv[3:] if "=" in word)
    assert sys.argv[1] == "serve"
    assert flags["--load-format"] == "dummy"
    if "exit" in PLAN:
        print(PLAN["log"], flush=True)
        sys.exit(PLAN["exit"])
    server = Server((flags["--host"], int(flags["--port"])), Handler)
    print(PLAN["log"], flush=True)
    print("INFO:     Application startup complete.", flush=True)
    server.serve_forever(poll_interval=0.05)


main()
