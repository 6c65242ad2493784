"""`dormouse load` over real sockets and processes; the load generator alone is a stand-in."""

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from infra.cli.main import main
from tests.load.conftest import KEY, Bench, Served

Out = pytest.CaptureFixture[str]


def load(served: Served, bench: Bench, *words: str) -> int:
    return main(["load", served.url + "/v1", "--vllm", str(bench.program), "--tokenizer", "here", *words])


def test_knee_promise_price_and_the_servers_own_figures(
    served: Served, bench: Bench, tmp_path: Path, capsys: Out
) -> None:
    page, table = tmp_path / "load.html", tmp_path / "load.csv"
    code = load(
        served, bench, "--concurrency", "32,1,2,8", "--metrics-url", served.url + "/metrics", "--usd-per-hour", "36",
        "--slo-ttft-ms", "1000", "--slo-itl-ms", "50", "--json", "--html", str(page), "--csv", str(table),
    )  # fmt: skip
    told = json.loads(capsys.readouterr().out)
    assert code == 1
    assert [one["value"] for one in told["levels"]] == [1, 2, 8, 32]
    assert told["knee"] == 8
    assert told["slo"]["kept"] is False
    assert told["slo"]["holdsUpTo"] == 8
    assert told["slo"]["misses"] == ["p95 time to first token ≤ 1,000 ms: 4,000 ms"]
    # $36 an hour is one cent a second: 400 tokens/s make a million in 2,500 s.
    assert told["levels"][2]["usdPerMillionOutputTokens"] == pytest.approx(25.0)
    assert told["levels"][2]["usdPerMillionTokens"] == pytest.approx(5.0)
    assert all(one["preemptions"] >= 7 and one["waiting"] == 3 for one in told["levels"])
    assert told["levels"][-1]["kvCacheShare"] >= 0.7
    html = page.read_text()
    assert html.count("<svg") == 4
    assert "SLO missed at 32 at once: p95 time to first token ≤ 1,000 ms: 4,000 ms; they hold up to 8 at once." in html
    assert ">knee<" in html
    assert "<script" not in html
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [(row["concurrency"], row["ttft_p95_ms"]) for row in rows][2] == ("8.0", "700.0")


def test_the_key_is_in_the_environment_of_the_tool_alone(served: Served, bench: Bench, capsys: Out) -> None:
    assert load(served, bench, "--concurrency", "1,2", "--slo-ttft-ms", "1000") == 0
    out = capsys.readouterr()
    assert "SLO kept at 2 at once" in out.out
    assert "KV cache use and preemptions are unknown: no --metrics-url and no stack was named" in out.out
    assert [call["key"] for call in bench.calls] == [KEY, KEY]
    assert KEY not in json.dumps([call["argv"] for call in bench.calls]) + out.out + out.err
    flags = [dict(zip(call["argv"], call["argv"][1:], strict=False)) for call in bench.calls]
    # Prompts of their own at each level, or the prefix cache would answer.
    assert [one["--seed"] for one in flags] == ["1", "2"]
    assert [one["--num-prompts"] for one in flags] == ["8", "8"]
    assert flags[0]["--base-url"] == served.url


def test_bounds_in_requests_and_in_time(served: Served, bench: Bench, capsys: Out) -> None:
    bench.plan(throughput={"1": 60, "2": 118}, ttft={"1": 200, "2": 250}, hang=[2])
    code = load(
        served, bench, "--concurrency", "1,2,4,16", "--max-requests", "32", "--max-seconds", "1.5", "--slo-ttft-ms", "999"
    )  # fmt: skip
    out = capsys.readouterr().out
    assert code == 1
    assert "left out by the bound on requests: 16 at once" in out
    assert "left out by the bound on time: 4 at once" in out
    assert "SLO missed at 2 at once: 2 at once: no result, cut when the 2 s of --max-seconds were over" in out
    with pytest.raises(ProcessLookupError):
        os.kill(bench.calls[-1]["pid"], 0)


def test_a_tool_that_fails_and_requests_that_fail(served: Served, bench: Bench, capsys: Out) -> None:
    bench.plan(exit=1, says="OSError: here is not a local folder and is not a valid Repo id; tokenizer")
    assert load(served, bench, "--concurrency", "1") == 1
    error = capsys.readouterr().err
    assert "`vllm bench serve` ended with exit code 1: OSError: here is not" in error
    assert "--tokenizer names a folder that holds it" in error
    # The tool itself ends with 0 where not one request succeeded.
    bench.plan(throughput={"1": 60}, ttft={"1": 200}, failing=True)
    assert load(served, bench, "--concurrency", "1,2") == 1
    assert "1 at once: no request succeeded; higher levels were left out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--concurrency", "1,x"], "--concurrency: got 1,x; accepted: whole numbers above 0"),
        (["--concurrency", "1", "--rate", "1"], "--concurrency and --rate: got both; accepted: one of them"),
        (["--slo-at", "3", "--slo-ttft-ms", "9"], "--slo-at: got 3; accepted: a level: 1, 2, 4, 8, 16, 32"),
        (["--max-requests", "4"], "--max-requests: got 4; accepted: 8 or more"),
        (["--input", "4000"], "--input and --output: got 4,256; accepted: together less than the 4,096 tokens"),
        (["--model", "nope"], "--model: got nope; accepted: scripted-kimi"),
        (["--usd-per-hour", "0"], "--usd-per-hour: got 0; accepted: dollars above 0"),
    ],
)
def test_wrong_usage(served: Served, bench: Bench, capsys: Out, words: list[str], fault: str) -> None:
    assert load(served, bench, *words) == 2
    assert fault in capsys.readouterr().err
    assert bench.calls == []


def test_what_is_missing_is_said_with_where_to_get_it(
    served: Served, bench: Bench, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["load", served.url, "--vllm", "/no/such/vllm"]) == 2
    assert "pip install vllm==0.32.0`, then --vllm" in capsys.readouterr().err
    served.model = "kimi-k2.5"
    assert main(["load", served.url, "--vllm", str(bench.program)]) == 2
    error = capsys.readouterr().err
    assert "--trust-remote-code: got nothing; accepted: given: the tokenizer of moonshotai/Kimi-K2.5 is Python" in error
    monkeypatch.setenv("DORMOUSE_API_KEY", "sk-another")
    assert load(served, bench) == 2
    assert "--key-file: got a key that is answered with 401" in capsys.readouterr().err


def test_one_bad_level_makes_no_knee(served: Served, bench: Bench, capsys: Out) -> None:
    plan: dict[str, Any] = {
        "throughput": {"1": 60, "2": 40, "8": 400, "32": 1500},
        "ttft": dict.fromkeys(["1", "2", "8", "32"], 9),
    }
    bench.plan(**plan)
    assert load(served, bench, "--concurrency", "1,2,8,32") == 0
    assert "No knee up to 32 at once: throughput still grows with the load." in capsys.readouterr().out
