"""The load command against a real vLLM, with vLLM's own load generator."""

import json
from pathlib import Path

import pytest

from infra.cli.main import main
from tests.vllm.real_engine import KEY, RealEngine
from vllm_cpu.place import environment_path


def test_a_sweep(
    engine: RealEngine, model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("DORMOUSE_API_KEY", KEY)
    page = tmp_path / "load.html"
    code = main(
        ["load", engine.url, "--vllm", str(environment_path() / "bin" / "vllm"), "--tokenizer", str(model_folder),
         "--concurrency", "1,4", "--requests", "8", "--input", "64", "--output", "32", "--usd-per-hour", "1",
         "--metrics-url", f"{engine.url}/metrics", "--slo-ttft-ms", "60000", "--json", "--html", str(page)]
    )  # fmt: skip
    out = capsys.readouterr()
    assert code == 0, out.err
    told = json.loads(out.out)
    assert KEY not in out.out + out.err
    for level, callers in zip(told["levels"], (1, 4), strict=True):
        assert (level["completed"], level["failed"], level["preemptions"]) == (8, 0, 0)
        assert 0 < level["running"] <= callers
        assert 0 < level["kvCacheShare"] < 0.5
        # Eight answers of 32 tokens each.
        assert level["outputTokensPerS"] * level["durationS"] == pytest.approx(8 * 32, rel=0.01)
        assert 0 < level["latencyMs"]["ttft"]["p50"] <= level["latencyMs"]["e2el"]["p99"]
        assert level["prefixHitShare"] is None or level["prefixHitShare"] < 0.5
    assert told["slo"]["kept"] is True
    assert "KV cache at its fullest (0 preemptions)" in page.read_text()
