"""`dormouse doctor` as its user meets it: files, pipes, pages, exit codes, a live stack."""

import io
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from infra.cli.main import main
from tests.jobs.world import World

LOG = "vllm: error: unrecognized arguments: --swap-space 4\n"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["doctor", *arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, err


def test_a_log_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "vllm.log"
    file.write_bytes(b"\xff\xfe not utf-8\n" + LOG.encode())
    code, out, _ = run(capsys, str(file))
    assert code == 1
    assert f"{file}: a log" in out
    assert "✗ A flag that this vLLM does not know" in out
    assert "line 2: vllm: error: unrecognized arguments: --swap-space 4" in out
    assert "→ Correct or leave out the flag. --swap-space was removed in vLLM 0.18.0" in out


def test_json_has_every_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "vllm.log"
    file.write_text(LOG)
    code, out, _ = run(capsys, str(file), "--json")
    (finding,) = json.loads(out)["findings"]
    assert code == 1
    assert finding["cause"] == "unknown-flag"
    assert finding["evidence"] == {"place": "line 1", "text": LOG.strip()}
    assert (finding["severity"], finding["confidence"], finding["repeats"]) == ("error", "certain", 1)


def test_a_healthy_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "vllm.log"
    file.write_text("INFO:     Application startup complete.\n")
    code, out, _ = run(capsys, str(file))
    assert (code, "nothing found: this looks healthy" in out) == (0, True)


def test_a_command_from_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe:
        buffer = io.BytesIO(b"vllm serve moonshotai/Kimi-K2.5 -tp 4\n")

    monkeypatch.setattr("sys.stdin", Pipe)
    code, out, _ = run(capsys, "-", "--machine", "4xH200")
    assert code == 1
    assert "Kimi K2.5 as TP4 with 262,144 tokens of context does not fit on 4xH200." in out


def test_manifests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: kimi}\nspec:\n  securityContext:\n"
        "    sysctls: [{name: vm.swappiness, value: '10'}]\n  containers: []\n"
    )
    code, out, _ = run(capsys, str(file))
    assert code == 1
    assert "vm.swappiness is one setting of the whole node, which no pod may change." in out


def test_slow_from_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"vllm:num_requests_running 3\nvllm:num_requests_waiting 30\n"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        code, out, _ = run(capsys, "--slow", f"http://127.0.0.1:{server.server_address[1]}/metrics")
    assert code == 1
    assert "3 run and 30 wait now" in out
    code, _, err = run(capsys, "--slow", "http://127.0.0.1:9/metrics")
    assert code == 2
    assert "accepted: the address of a metrics page that answers" in err


def test_bad_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "exchange.json"
    file.write_text(json.dumps({"request": {"model": "kimi-k2.5", "temperature": 0.1}, "response": {}}))
    code, out, _ = run(capsys, "--bad-answers", str(file))
    assert (code, "temperature is 0.1; moonshotai documents 1.0 for Kimi K2.5" in out) == (1, True)
    file.write_text("not json")
    code, _, err = run(capsys, "--bad-answers", str(file))
    assert (code, "accepted: JSON of a request or an answer" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("no-such-file",), "no-such-file (No such file or directory); accepted: a file, or - to read a pipe"),
        (("a", "--slow", "b"), "accepted: one of FILE, --slow, --bad-answers"),
        (("a", "--machine", "3 toasters"), "machine: got '3 toasters'"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, *arguments)
    assert (code, words in err) == (2, True), err


def live(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code, out, _ = run(capsys, "--json")
    told = json.loads(out)
    assert told["unread"] == []
    assert code == (1 if told["findings"] else 0)
    return {one["cause"]: one for one in told["findings"]}


def test_a_live_stack(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    # The Deployment of these tests is a plain one, which lacks what ours have.
    plain = {"manifest-shared-memory", "command-cuts-requests"}
    assert set(live(capsys)) == plain
    # Somebody asks for a pod by hand, and no node is there to run it.
    world.scale("vllm-a", 1)
    world.wait("the scheduler", lambda: any(pod.reason for pod in world.observe().pods))
    found = live(capsys)
    assert set(found) - plain == {"stack-inconsistent", "pod-no-gpu-node"}
    assert found["stack-inconsistent"]["evidence"] == {"place": "state", "text": "inconsistent"}
