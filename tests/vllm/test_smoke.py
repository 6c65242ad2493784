"""The smoke checks, drain and the doctor against a real vLLM."""

import json
import signal
import threading
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from components.programs.smoke.checks import run_checks
from components.programs.smoke.client import Client
from components.programs.smoke.target import Result, Target
from infra.cli.main import main
from infra.jobs.metrics import parse_requests
from serving.diagnosis.log import diagnose_log
from serving.diagnosis.slow import diagnose_slow
from tests.vllm.real_engine import KEY, RealEngine, our_arguments, start_engine


@pytest.fixture(scope="module")
def results(engine: RealEngine) -> dict[str, Result]:
    target = Target(Client(engine.url, KEY), metrics=engine.metrics)
    # A model of two layers finds no needle; everything else it must do.
    return {one.name: one for one in run_checks(target, frozenset({"needle"}))}


def test_everything_but_the_gateway_passes(results: dict[str, Result]) -> None:
    failed = {name: one.detail for name, one in results.items() if one.outcome == "failed"}
    # The engine's own port serves some paths without a key: this is what the gateway is for.
    assert set(failed) == {"keyless-paths"}
    assert "/invocations (200)" in failed["keyless-paths"]
    assert "/metrics (200)" in failed["keyless-paths"]
    details = {name: one.detail for name, one in results.items()}
    assert details["models"] == "lists scripted-kimi, context 4,096 tokens"
    assert details["chat"].startswith("answers 'Hello world.")
    assert details["reasoning"] == "reasons 16 characters apart from the answer"
    assert details["tool-call"] == 'get_weather({"city": "Paris"}), and an answer to its result'
    assert details["cancellation"] == "1 ran, 0 after the caller hung up"
    assert details["needle"] == "left out on request"


@pytest.mark.usefixtures("results")
def test_the_metrics_are_what_jobs_and_the_doctor_read(engine: RealEngine) -> None:
    requests = parse_requests(engine.metrics())
    assert requests is not None
    assert (requests.running, requests.waiting) == (0, 0)
    # A processor is slow at this, and the checks ask for short answers; nothing else may be found.
    expected = {"slow-tokens", "slow-low-batch", "slow-cut-answers"}
    assert {one.cause_id for one in diagnose_slow(engine.metrics())} <= expected


@pytest.mark.usefixtures("results")
def test_a_healthy_log_gives_no_finding(engine: RealEngine) -> None:
    assert "Application startup complete" in engine.log
    assert diagnose_log(engine.log) == ()


def test_the_command_writes_table_json_and_junit(
    engine: RealEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "key"
    key.write_text(KEY)
    report = tmp_path / "smoke.xml"
    code = main(
        ["smoke", engine.url, "--key-file", str(key), "--skip", "needle", "--skip", "keyless-paths", "--skip",
         "long-prompt", "--metrics-url", f"{engine.url}/metrics", "--json", "--junit", str(report)]
    )  # fmt: skip
    out = capsys.readouterr().out
    assert code == 0, out
    told = json.loads(out)
    assert told["passed"] is True
    assert KEY not in out
    suite = ET.fromstring(report.read_text())
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "3")


def test_a_streaming_answer_survives_the_stop(model_folder: Path, tmp_path: Path) -> None:
    """SIGTERM while an answer is being streamed: it is finished, then the process ends with 0."""
    own = start_engine(model_folder, tmp_path)
    try:
        own.wait_until_ready()
        body: dict[str, Any] = {
            "model": "scripted-kimi", "stream": True, "max_tokens": 200, "ignore_eos": True, "temperature": 0,
            "messages": [{"role": "user", "content": "go on"}],
        }  # fmt: skip
        events: list[Any] = []
        begun = threading.Event()

        def read() -> None:
            for event in Client(own.url, KEY).stream("/v1/chat/completions", body):
                events.append(event)
                begun.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert begun.wait(60)
        own.process.send_signal(signal.SIGTERM)
        told_at_s = time.monotonic()
        reader.join(300)
        assert own.process.wait(400) == 0
        assert events[-1] is None
        assert events[-2]["choices"][0]["finish_reason"] == "length"
        assert time.monotonic() - told_at_s < 400
        assert diagnose_log(own.log) == ()
    finally:
        own.stop(5)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (["--max-modle-len=2048"], "unknown-flag"),
        (["--reasoning-parser=kimi_k25"], "unknown-parser"),
        (["--max-model-len=8192"], "context-above-model"),
    ],
)
def test_a_start_that_fails_is_explained(change: list[str], cause: str, model_folder: Path, tmp_path: Path) -> None:
    own = start_engine(model_folder, tmp_path, [*our_arguments(model_folder, 1), *change])
    assert own.process.wait(120) != 0
    assert [one.cause_id for one in diagnose_log(own.log)] == [cause], own.log[-1500:]
