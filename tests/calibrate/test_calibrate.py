"""`dormouse calibrate` with a stand-in for vLLM that prints a recorded start and answers over HTTP."""

import json
import os
import sys
from pathlib import Path

import pytest

from infra.cli.main import main
from serving.measurements import read_measurements
from tests.calibrate.logs import ON_CPU, OUT_OF_MEMORY, QWEN

QUICK = ("--at-once", "1", "--at-once", "3", "--answer", "4", "--prompt", "300")
ASKED = ("calibrate", "qwen3-32b", "--layout", "TP1", "--gpu-memory-utilization", "0.99", *QUICK)


class Machine:
    """A PATH with a vLLM that does what it is told, and `gpus` H200."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.pids = folder / "pids"
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setenv("FAKE_VLLM", str(folder / "plan.json"))
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        self._program(
            "vllm", f'echo $$ >> {self.pids}; exec {sys.executable} {Path(__file__).parent}/fake_vllm.py "$@"'
        )
        self.has(gpus=1)

    def has(self, gpus: int, name: str = "NVIDIA H200", used_mib: int = 143_360) -> None:
        rows = "\\n".join([f"{name}, 580.159.04"] * gpus)
        used = "\\n".join([str(used_mib)] * gpus)
        shown = f'case "$1" in *name*) printf "{rows}\\n";; *) printf "{used}\\n";; esac'
        self._program("nvidia-smi", shown if gpus else "exit 9")

    def will(self, **plan: object) -> None:
        (self.folder / "plan.json").write_text(json.dumps(plan))

    @property
    def running(self) -> list[int]:
        started = [int(line) for line in self.pids.read_text().split()]
        return [pid for pid in started if Path(f"/proc/{pid}").exists()]

    def _program(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(argv)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


def test_plan_against_measured_term_by_term(
    machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine.will(log=QWEN)
    into = tmp_path / "starts.toml"
    code, out, err = run(capsys, *ASKED, "--into", str(into))
    assert code == 0, err
    rows = {tuple(line.split()[:-1]): line for line in out.splitlines()}
    kept = [line for line in rows.values() if line.endswith("kept")]
    assert [line.split("  ")[0] for line in kept] == ["weights as loaded", "KV cache"]
    assert "309,392" in kept[1]
    assert "Start: weights 2.3 s, compile 42.1 s, graphs 11.0 s, engine 75.5 s, ready after" in out
    assert "this cannot show" in out
    assert list(tmp_path.glob("dormouse-calibrate-*")) == []
    # Nothing of the engine runs any more, and the file can be read again.
    assert machine.running == []
    (start,) = read_measurements(into)
    assert (start.model, start.gpu, start.vllm, start.driver) == ("qwen3-32b", "H200", "0.26.0", "580.159.04")
    assert start.measured.kv_tokens == 309_392
    assert (start.measured.used_ready_gib, start.measured.used_peak_gib) == (140.0, 140.0)
    assert [(speed.requests, speed.answer_tokens) for speed in start.speeds] == [(1, 4), (3, 4), (1, 1)]
    assert "serve" in start.command
    assert "--load-format=dummy" in start.command
    assert start.plan().kv_cache_tokens == pytest.approx(309_392, rel=0.003)


def test_a_plan_that_misses_fails_and_says_by_how_much(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.will(log=QWEN.replace("309,392", "300,000"))
    code, out, err = run(capsys, *ASKED, "--json")
    assert code == 1
    report = json.loads(out)
    tokens = next(term for term in report["terms"] if term["unit"] == "tokens")
    assert (tokens["promiseKept"], tokens["insideBounds"]) == (False, False)
    assert tokens["error"] == pytest.approx(0.031, abs=0.001)
    assert not report["promisesKept"]
    assert "KV cache: planned 309,328, measured 300,000" in err


def test_a_start_that_fails_names_the_logs_own_reason(
    machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine.will(log=OUT_OF_MEMORY, exit=1)
    code, _, err = run(capsys, *ASKED, "--folder", str(tmp_path / "kept"))
    assert code == 1
    assert "ended before it was ready, with exit code 1: OutOfMemoryError: CUDA out of memory" in err
    assert (tmp_path / "kept" / "engine.log").read_text().startswith("(EngineCore")


@pytest.mark.parametrize(
    ("plan", "words"),
    [({"status": 500}, 'HTTP 500: {"error": "engine is dead"}'), ({"tokens": 2}, "an answer has 2 tokens and not")],
)  # fmt: skip
def test_answers_that_are_none_fail_the_probe(
    machine: Machine, capsys: pytest.CaptureFixture[str], plan: dict, words: str
) -> None:
    machine.will(log=QWEN, **plan)
    code, _, err = run(capsys, *ASKED)
    assert code == 1
    assert words in err
    assert machine.running == []


def test_one_rank_of_a_layout_over_more_gpus_says_what_it_cannot_show(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.will(log=QWEN)
    asked = ("calibrate", "kimi-k2.5", "--layout", "TP8", "--kv-cache-dtype", "fp8", "--no-speed")
    code, _, err = run(capsys, *asked)
    assert code == 2
    assert "TP8 on 8 GPUs, and this machine has 1; accepted: --one-rank" in err
    _, out, _ = run(capsys, *asked, "--one-rank")
    assert "71.10" in out
    assert "communication" in out
    assert "the vision tower, which is left out" in out


def test_without_a_gpu_only_the_cache_is_compared(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.has(gpus=0)
    machine.will(log=ON_CPU)
    code, out, _ = run(capsys, "calibrate", "qwen3-32b", "--layout", "TP1", "--no-speed", "--json")
    report = json.loads(out)
    assert code == 1
    assert report["gpu"] == "CPU"
    assert [term["name"] for term in report["terms"]] == ["KV cache"]
    # The recorded cache is a tiny model's; Qwen3-32B takes 262,144 bytes a token.
    assert report["terms"][0]["planned"] == 4096


def test_faults_are_named_together(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(
        capsys, "calibrate", "gpt-9", "--layout", "TP8", "--gpus", "2", "--at-once", "0", "--answer", "1"
    )
    assert code == 2
    assert "4 faults" in err
    assert "a number together with --one-rank" in err
    for layout in ("8", "TP0", "TP8+TP8", "EP", "RP2"):
        code, _, err = run(capsys, "calibrate", "qwen3-32b", "--layout", layout)
        assert (code, "sizes such as TP8" in err) == (2, True), layout
    code, _, err = run(capsys, "calibrate", "kimi-k2.5", "--layout", "PP2xTP4", "--one-rank")
    assert (code, "a stage has no model of its own" in err) == (2, True)
    code, _, err = run(capsys, "calibrate", "kimi-k2.5", "--layout", "TP3", "--one-rank")
    assert (code, "a multiple of 3" in err) == (2, True)
    code, _, err = run(capsys, *ASKED, "--vllm", "/nowhere/vllm")
    assert (code, "/nowhere/vllm (No such file or directory)" in err) == (2, True)
    machine.has(gpus=1, name="Riva 128")
    code, _, err = run(capsys, *ASKED)
    assert (code, "Riva 128: no figures are known of this GPU" in err) == (1, True)
