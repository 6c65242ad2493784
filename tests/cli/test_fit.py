"""`dormouse fit` and `dormouse choose` as a user calls them: tables, refusals, JSON, and how quick and light they are."""

import json
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.cli.main import main
from serving.profiles import load_checkpoint, load_model
from tests.serving.checkpoint.configs import SMALL_DENSE, SMALL_GPT_OSS, SMALL_INT4
from tests.serving.checkpoint.test_folder import tensors_of, write_folder

ROOT = Path(__file__).parents[2]
GIB = 1 << 30


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(argv)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


def asked(capsys: pytest.CaptureFixture[str], *argv: str) -> dict:
    return json.loads(run(capsys, *argv, "--json")[1])


def machine(report: dict, name: str) -> dict:
    return next(row for row in report["machines"] if row["machine"] == name)


def test_every_machine_stands_in_the_table_with_its_price(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "fit", "kimi-k2.5")
    assert (code, err) == (0, "")
    rows = {line.split("  ")[0]: line for line in out.splitlines() if " × " in line and "TP8" in line}
    assert list(rows)[:11] == [
        "p4d.24xlarge", "g6e.48xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge",
        "p6-b200.48xlarge", "p6-b300.48xlarge", "8xL40S", "8xA100-80", "8xH100",
    ]  # fmt: skip
    assert rows["p5en.48xlarge"].endswith("$63.30  fits")
    assert rows["p5e.48xlarge"].endswith("$39.80 block  fits")
    assert "unknown  lacks 19.5 GiB a GPU" in rows["8xH100"]
    assert "p5.48xlarge: 2 × p5.48xlarge as PP2 × TP8 ($110.08 an hour)" in out
    assert "fits on 4 of 11 machines; the cheapest is p5e.48xlarge (TP8)" in out


def test_the_parts_of_a_gpu_add_up_to_the_budget(capsys: pytest.CaptureFixture[str]) -> None:
    row = machine(asked(capsys, "fit", "kimi-k2.5"), "p5en.48xlarge")
    outside = "outside vLLM's budget"
    inside = sum(part["bytes"] for part in row["parts"] if part["name"] != outside)
    assert inside == row["budgetBytesPerGpu"]
    assert row["weightsBytesPerGpu"] == 77_124_881_376
    experts = next(part for part in row["parts"] if part["name"] == "routed experts")
    assert experts == {
        "name": "routed experts",
        "bytes": 507_343_011_840 // 8,
        "exact": True,
        "lowBytes": 507_343_011_840 // 8,
        "highBytes": 507_343_011_840 // 8,
    }
    assert row["peakUsedBytesPerGpu"] > row["budgetBytesPerGpu"]
    assert row["kvCacheTokens"] == pytest.approx(816_832, rel=0.003)


def test_json_keys_are_stable(capsys: pytest.CaptureFixture[str]) -> None:
    report = asked(capsys, "fit", "kimi-k2.5", "--instance-type", "p5en.48xlarge")
    assert sorted(report) == [
        "architecture", "concurrency", "contextTokens", "fits", "gpuMemoryUtilization", "instead", "kvCacheDtype",
        "machines", "maxBatchedTokens", "model", "quantisation", "region", "sentence", "title", "weightsBytes",
    ]  # fmt: skip
    (row,) = report["machines"]
    assert sorted(row) == [
        "attentionBackend", "budgetBytesPerGpu", "expertsBackend", "faults", "fits", "fullContextRequests", "gpu",
        "gpusPerNode", "highestSafeUtilization", "kvCacheTokens", "layout", "layoutText", "machine", "missingBytesPerGpu", "nearest", "nodes", "parts",
        "peakUsedBytesPerGpu", "prices", "proposedUtilization", "usableBytesPerGpu", "usableIsEstimate", "usdPerHour",
        "weightsBytesPerGpu",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            ["--instance-type", "p5.48xlarge"],
            ["each GPU lacks 19.4 GiB", "2 × p5.48xlarge as PP2 × TP8 ($110.08 an hour)"],
        ),
        (["--instance-type", "4xH200"], ["4xH200 (4 × H200), TP4: each GPU lacks 32.6 GiB", "p5e.48xlarge as TP8"]),
        (["--instance-type", "2xA100-80"], ["TP2: each GPU lacks", "278.6 GiB of weights"]),
        (
            ["--instance-type", "p5en.48xlarge", "--tensor-parallel", "3"],
            ["tensor parallel 3 does not divide the 64 attention heads", "p5en.48xlarge as TP8"],
        ),
        (
            ["--instance-type", "p4de.24xlarge", "--nodes", "2", "--kv-cache-dtype", "fp8"],
            ["an fp8 KV cache needs compute capability 8.9", "What works: p5e.48xlarge"],
        ),
        (
            ["--instance-type", "p4d.24xlarge", "--instance-type", "8xH100"],
            ["fits on none of these", "What works: p5e"],
        ),
    ],
)
def test_a_refusal_is_one_paragraph_with_what_works(
    argv: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "fit", "kimi-k2.5", *argv)
    assert code == 1
    assert len(err.splitlines()) == 1
    for word in words:
        assert word in err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["kimi-k2.5", "--context", "300000"], "--context: got 300,000; accepted: 1 to 262,144 tokens"),
        (["kimi-k2.5", "--context", "-1"], "--context: got -1"),
        (["kimi-k2.5", "--concurrency", "0"], "--concurrency: got 0; accepted: 1 to 1,000,000"),
        (["kimi-k2.5", "--gpu-memory-utilization", "1.5"], "--gpu-memory-utilization: got 1.5; accepted: 0.1 to 0.99"),
        (["kimi-k2.5", "--nodes", "9"], "--nodes: got 9; accepted: 1 to 4 machines"),
        (["kimi-k2.5", "--tensor-parallel", "0"], "--tensor-parallel: got 0; accepted: a whole number of GPUs"),
        (["kimi-k2.5", "--instance-type", "2xA100"], "accepted: p5.48xlarge, "),
        (["kimi-k9"], "MODEL: got kimi-k9; accepted: one of deepseek-r1"),
        ([], "MODEL: got nothing"),
        (["kimi-k2.5", "--config", "x.json"], "MODEL: got kimi-k2.5 and --config"),
        (["kimi-k2.5", "--index", "x.json"], "--index: got x.json; accepted: an index together with --config"),
        (["./nowhere"], "./nowhere, which is no folder"),
        (["--config", "/nowhere/config.json"], "/nowhere/config.json"),
    ],
)
def test_wrong_usage_names_what_is_accepted(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "fit", *argv)
    assert (code, out) == (2, "")
    assert words in err


def config_file(folder: Path, model: str) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(load_model(model).config))
    return path


def test_a_config_is_read_as_the_profile_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config_file(tmp_path, "qwen3-32b")
    index = tmp_path / "model.safetensors.index.json"
    report = asked(capsys, "fit", "--config", str(path), "--instance-type", "2xA100-80")
    named = asked(capsys, "fit", "qwen3-32b", "--instance-type", "2xA100-80")
    assert report["weightsBytes"] == named["weightsBytes"] == 65_524_246_528
    assert report["machines"] == named["machines"]
    index.write_text(json.dumps({"metadata": {"total_size": 65_000_000_000}, "weight_map": {"a": "b"}}))
    code, _, err = run(capsys, "fit", "--config", str(path), "--index", str(index))
    assert code == 2
    assert "65,000,000,000" in err or "weight_map" in err


def test_a_faulty_config_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"architectures": ["KimiK25')
    code, _, err = run(capsys, "fit", "--config", str(path))
    assert code == 2
    assert "truncated" in err
    path.write_text(json.dumps({**load_model("qwen3-32b").config, "architectures": ["SomethingNewForCausalLM"]}))
    code, _, err = run(capsys, "fit", "--config", str(path))
    assert code == 2
    assert "`SomethingNewForCausalLM` is not known, and sizes are not guessed" in err


def test_a_folder_is_measured_by_its_headers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config_file(tmp_path, "qwen3-32b")
    header = json.dumps({"x": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0\0")
    code, _, err = run(capsys, "fit", str(tmp_path))
    assert code == 2
    assert str(tmp_path) in err


@pytest.mark.parametrize("config", [SMALL_DENSE, SMALL_INT4, SMALL_GPT_OSS])
def test_a_whole_folder_is_answered_from_its_headers(
    config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = write_folder(tmp_path, config, tensors_of(config), shards=2)
    headers = sum(8 + struct.unpack("<Q", (tmp_path / file).read_bytes()[:8])[0] for file in files)
    stored = sum((tmp_path / file).stat().st_size for file in files) - headers
    arguments = ("fit", str(tmp_path), "--instance-type", "p5en.48xlarge", "--tensor-parallel", "1", "--context", "64")
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["weightsBytes"] == stored


def test_modules_say_what_is_quantised_and_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "fit", "kimi-k2.5", "--modules")
    assert code == 0
    (experts,) = [line for line in out.splitlines() if "mlp.experts.{expert}.up_proj" in line]
    assert experts.split()[-2:] == ["23,040", "190,253,813,760"]
    (head,) = [line for line in out.splitlines() if line.startswith("language_model.lm_head")]
    assert " not " in head
    assert "Quantised: 570.8 GB; not: 24.4 GB." in out
    mapping = asked(capsys, "fit", "kimi-k2.5", "--modules")
    assert sum(row["bytes"] for row in mapping["modules"]) == 595_148_192_736
    assert sum(row["bytes"] for row in mapping["kinds"]) == mapping["totalBytes"]


def test_more_callers_need_another_layout(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["fit", "kimi-k2.5", "--instance-type", "p5en.48xlarge"]
    alone = asked(capsys, *argv)["machines"][0]
    many = asked(capsys, *argv, "--concurrency", "4")["machines"][0]
    assert (alone["layoutText"], many["layoutText"]) == ("TP8", "DP2 × TP4 + EP")
    assert many["fits"]
    assert many["fullContextRequests"] >= 4
    tp8 = asked(capsys, *argv, "--concurrency", "4", "--tensor-parallel", "8")["machines"][0]
    assert not tp8["fits"]
    # Four requests of 262,144 tokens and one empty block of 16, at 70,272 bytes a token.
    kv = next(part["bytes"] for part in tp8["parts"] if part["name"] == "KV cache")
    assert tp8["missingBytesPerGpu"] == (4 * 262_144 + 16) * 70_272 - kv


def test_choose_ranks_by_price_and_says_what_is_estimated(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["choose", "--model", "kimi-k2.5", "--context", "131072", "--concurrency", "8"]
    code, out, _ = run(capsys, *argv)
    assert code == 0
    assert "which moves" in out
    assert "Engine: vLLM, because" in out
    ranking = asked(capsys, *argv)
    usd = [offer["usdPerHour"] for offer in ranking["offers"]]
    known = [value for value in usd if value is not None]
    assert known == sorted(known)
    assert usd[: len(known)] == known
    assert all(offer["fullContextRequests"] >= 8 for offer in ranking["offers"])
    spot = next(offer for offer in ranking["offers"] if offer["purchase"] == "spot")
    assert any("spot price" in text for text in spot["estimates"])
    capped = asked(capsys, *argv, "--budget", "30")
    assert capped["offers"] == [offer for offer in ranking["offers"] if (offer["usdPerHour"] or 99) <= 30]


def test_choose_beyond_the_budget_names_the_cheapest(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "choose", "--model", "kimi-k2.5", "--budget", "5")
    assert code == 1
    assert "the cheapest that does is p5e.48xlarge (spot, TP8): $18.74 an hour" in err


@pytest.mark.parametrize(
    ("hardware", "engine", "words"),
    [
        (["8xH200"], "vLLM", "llama.cpp would gain nothing"),
        (["2xA100-80", "--host-memory", "768"], "llama.cpp", "(estimate)"),
        (["mac-512"], "llama.cpp", "do not run on Apple's GPUs"),
        (["cpu-256"], "none", "more than there is"),
        (["8xV100-32", "--host-memory", "768"], "llama.cpp", "compute capability 7"),
        (["2xA100-80"], "none", "host memory was not given"),
    ],
)
def test_choose_names_the_engine_for_the_hardware(
    hardware: list[str], engine: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["choose", "--model", "kimi-k2.5", "--context", "32768", "--hardware", *hardware]
    advice = asked(capsys, *argv)["engine"]
    assert advice["name"] == engine
    assert words in advice["reason"]
    assert advice["deployed"] == "vLLM"


def test_choose_names_the_most_that_is_held_where_nothing_holds_what_was_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ["choose", "--model", "kimi-k2.5", "--context", "262144", "--hardware", "8xH200", "--concurrency"]
    code, out, err = run(capsys, *argv, "400", "--budget", "10")
    assert code == 1
    assert "Engine: vLLM, because" in out
    most = int(re.search(r"What works: .*?(\d+) at once on 8xH200 as", err)[1])
    assert run(capsys, *argv, str(most))[0] == 0
    assert run(capsys, *argv, str(most + 1))[0] == 1


def test_choose_refuses_unknown_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "choose", "--model", "kimi-k2.5", "--hardware", "3 toasters")
    assert code == 2
    assert "--hardware: got '3 toasters'" in err
    assert "mac-512" in err


def test_the_answer_is_quick_and_light() -> None:
    code = (
        # Time on the processor, which a busy machine does not stretch as it does the clock on the wall.
        "import sys, time; began = time.process_time(); from infra.cli.main import main;"
        "code = main(['fit', 'kimi-k2.5', '--json']); took = time.process_time() - began;"
        "heavy = {'boto3', 'botocore', 'pulumi', 'moto', 'rich', 'yaml', 'jinja2'} & set(sys.modules);"
        "print(heavy, took, file=sys.stderr); sys.exit(code or bool(heavy) or took > 0.5)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["weightsBytes"] == load_checkpoint("kimi-k2.5").total_bytes


def test_shared_tokens_are_proposed_where_the_cache_is_what_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    asked_for = ("--context", "262144", "--concurrency", "20", "--tensor-parallel", "8")
    code, _, err = run(capsys, "fit", "kimi-k2.5", "--instance-type", "p5en.48xlarge", *asked_for)
    assert code == 1
    assert "the same layout with --decode-context-parallel 8, whose GPUs share a request's tokens" in err
    proposed = ("--decode-context-parallel", "8")
    row = machine(
        asked(capsys, "fit", "kimi-k2.5", "--instance-type", "p5en.48xlarge", *asked_for, *proposed), "p5en.48xlarge"
    )
    assert row["fits"]
    assert row["fullContextRequests"] > 20
    # Eight KV heads on eight GPUs are kept once already.
    _, _, err = run(
        capsys, "fit", "qwen3-32b", "--instance-type", "p5.48xlarge", "--tensor-parallel", "8", "--concurrency", "900"
    )
    assert "decode-context-parallel" not in err


def test_a_draft_takes_weights_and_a_layer_of_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    on = ("--instance-type", "p5en.48xlarge", "--tensor-parallel", "8")
    plain = machine(asked(capsys, "fit", "kimi-k2.5", *on), "p5en.48xlarge")
    tensors = {
        "midlayer.mlp.down_proj.weight": {"dtype": "BF16", "shape": [8, 100], "data_offsets": [0, 1600]},
        "midlayer.input_layernorm.weight": {"dtype": "BF16", "shape": [100], "data_offsets": [1600, 1800]},
    }
    header = json.dumps(tensors).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(1800))
    drafted = machine(asked(capsys, "fit", "kimi-k2.5", *on, "--draft", str(tmp_path)), "p5en.48xlarge")
    assert drafted["layout"]["draft"] == tmp_path.name
    assert drafted["weightsBytesPerGpu"] - plain["weightsBytesPerGpu"] == 1600 // 8 + 200
    # 62 layers keep what 61 did.
    assert drafted["kvCacheTokens"] == pytest.approx(plain["kvCacheTokens"] * 61 / 62, abs=16)
    own = machine(asked(capsys, "fit", "deepseek-v3", *on, "--context", "65536", "--draft", "own"), "p5en.48xlarge")
    assert next(part["bytes"] for part in own["parts"] if part["name"] == "draft model") > GIB
    code, _, err = run(capsys, "fit", "kimi-k2.5", *on, "--draft", "own")
    assert (code, "kimi-k2.5 has no layer for further tokens of its own" in err) == (2, True)
    code, _, err = run(capsys, "fit", "kimi-k2.5", *on, "--draft", "/nowhere")
    assert (code, "/nowhere, which is no folder" in err) == (2, True)


def test_the_kernel_of_packed_experts_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "fit", "gpt-oss-120b", "--instance-type", "1xH200")
    assert "Packed experts run on TRITON, whose padding is counted; --moe-backend marlin pads otherwise." in out
    row = machine(asked(capsys, "fit", "qwen3-32b", "--instance-type", "1xH200"), "1xH200")
    assert (row["attentionBackend"], row["expertsBackend"]) == ("FLASH_ATTN", None)


def test_choose_estimates_speed_and_what_a_million_tokens_cost(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["choose", "--model", "kimi-k2.5", "--context", "131072", "--concurrency", "8"]
    _, out, _ = run(capsys, *argv)
    assert "tokens/s is an estimate for 8 at once, each at half of its context: speeds were seen from 0.4 to 2.4" in out
    offer = asked(capsys, *argv)["offers"][0]
    rate, usd = offer["decodeTokensPerSecondEstimate"], offer["usdPerMillionTokensEstimate"]
    assert rate["low"] < rate["value"] < rate["high"]
    assert usd["value"] == pytest.approx(offer["usdPerHour"] / (rate["value"] * 3600 / 1e6), rel=0.001)
