"""Root causes in logs: every real one at hand, reports that the causes were not written from, and healthy starts."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cli.main import _COMMANDS as COMMANDS
from serving.diagnosis.advice import Circumstances, advise
from serving.diagnosis.catalogue import log_causes
from serving.diagnosis.checks import checks
from serving.diagnosis.log import diagnose_log, read_log
from serving.profiles import load_model
from tests.serving.diagnosis.troubleshooting_page import PAGE, page

LOGS = Path(__file__).parents[4] / "shared" / "facts" / "vllm_logs"
HELD_OUT = Path(__file__).parent / "held_out.toml"

EXPECTED = {
    "auto_tool_without_parser": ["auto-tool-without-parser"],
    "bad_host": ["address-not-here"],
    "bad_json": ["unreadable-value"],
    "batched_tokens_too_small": ["batched-tokens-below-context"],
    "chat_template_missing": ["chat-template-missing"],
    "empty_shard": ["shard-empty"],
    "fp8_block_on_cpu": ["no-kernel-for-quantisation"],
    "h200_kv_too_small": ["kv-cache-too-small"],
    "h200_oom_at_first_prefill": ["oom-serving"],
    "h200_weights_oom_tp4": ["oom-loading"],
    "hub_name_offline": ["hub-offline"],
    "invalid_choice": ["invalid-choice"],
    "lfs_pointer_shard": ["shard-is-no-weights"],
    "max_len_over_kv": ["kv-cache-too-small"],
    "max_len_over_model": ["context-above-model"],
    "missing_model_path": ["model-path-missing"],
    "missing_tensors": ["tensors-missing"],
    "multinode_head_alone": ["waits-for-nodes"],
    "needs_trust_remote_code": ["trust-remote-code"],
    "no_positional_model": ["no-model"],
    "ok_kimi_k2_mla_moe_uni": [],
    "ok_llama_default_compile": [],
    "ok_multinode_node0": [],
    "port_in_use": ["port-in-use"],
    "quantization_mismatch": ["quantization-mismatch"],
    "runtime_crash_at_decode": ["attention-backend"],
    "runtime_engine_killed": ["engine-died"],
    "runtime_ep_segfault": ["segfault"],
    "runtime_sigterm_idle": [],
    "served_name_underscore_flag": [],
    "sigterm_abort_timeout0": ["requests-cut"],
    "sigterm_drain_timeout60": [],
    "sigterm_during_start_wedged": ["stopped-while-loading"],
    "ssl_missing": ["tls-file-missing"],
    "tp_invalid": ["parallel-size-invalid"],
    "tp_not_divisible": ["heads-not-divisible"],
    "tp_too_many": ["more-ranks-than-gpus"],
    "truncated_shard": ["shard-truncated"],
    "truncated_shard_mp": ["shard-truncated"],
    "unknown_env_lax": ["environment-variable-unknown"],
    "unknown_flag": ["unknown-flag"],
    "unknown_reasoning_parser": ["unknown-parser"],
}


def ids(text: str) -> list[str]:
    return [one.cause_id for one in diagnose_log(text)]


def only(text: str) -> Any:
    (finding,) = diagnose_log(text)
    return finding


@pytest.mark.skipif(not LOGS.is_dir(), reason=f"the real logs are not at {LOGS}")
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_real_log(name: str) -> None:
    assert ids((LOGS / f"{name}.txt").read_text()) == EXPECTED[name]


@pytest.mark.skipif(not LOGS.is_dir(), reason=f"the real logs are not at {LOGS}")
def test_every_real_log_is_expected_and_its_root_line_is_the_evidence() -> None:
    assert {file.stem for file in LOGS.glob("*.txt")} == set(EXPECTED)
    index = json.loads((LOGS / "INDEX.json").read_text())
    # What the index names as the root line of this one is its consequence: the engine was killed from outside.
    for name in sorted(set(index) - {"_note", "runtime_engine_killed"}):
        root = index[name].get("root_cause_line")
        if root:
            evidence = diagnose_log((LOGS / f"{name}.txt").read_text())[0].evidence.text
            assert evidence.strip()[-60:] in root or root.strip()[:60] in evidence or "Failed to find" in root, name


def reports() -> Iterator[Any]:
    for one in tomllib.loads(HELD_OUT.read_text())["report"]:
        yield pytest.param(one, id=one["source"].removeprefix("https://github.com/"))


@pytest.mark.parametrize("report", reports())
def test_a_report_that_no_cause_was_written_from(report: dict[str, Any]) -> None:
    assert ids(report["text"]) == report["expected"]


def test_several_faults_are_all_found_and_consequences_are_left_out() -> None:
    text = """\
vllm serve: error: unrecognized arguments: --swap-space 4
(EngineCore pid=9) ERROR 11-29 12:39:10 [core.py:1510] Exception: WorkerProc initialization failed due to an exception in a background process.
(Worker_TP1 pid=71) ERROR 11-29 12:39:09 [multiproc_executor.py:783] safetensors._safetensors_rust.SafetensorError: Error while deserializing header: header too large
[74889.644138] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}
"""
    assert ids(text) == ["unknown-flag", "shard-is-no-weights", "gpu-hardware"]
    assert diagnose_log(text)[1].evidence.place == "line 3"


def test_a_consequence_alone_says_where_to_look() -> None:
    finding = only("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
    assert (finding.cause_id, finding.confidence) == ("engine-start-failed", "possible")
    assert "kubectl logs --previous" in finding.remedy


def test_an_error_that_nobody_knows_is_quoted() -> None:
    finding = only("(EngineCore pid=1) ERROR 11-29 12:39:10 [core.py:1] ZeroDivisionError: division by zero")
    assert (finding.cause_id, finding.cause, finding.confidence) == (
        "crashed", "ZeroDivisionError: division by zero", "possible",
    )  # fmt: skip


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-11-29T12:39:10.123456789Z ",
        "2026-11-29T12:39:10.123456789Z stderr F ",
        "Nov 29 12:39:10 node-7 vllm[2214]: ",
        "vllm03  | ",
        "\x1b[31m",
        "(APIServer pid=1) (EngineCore_DP0 pid=68) ERROR 02-06 16:34:06 [core.py:936] ",
    ],
)
def test_prefixes_do_not_hide_a_cause(prefix: str) -> None:
    line = "ZeroDivisionError: division by zero"
    assert read_log(prefix + line).lines == (line,)


def test_the_remedy_carries_the_planner_s_numbers() -> None:
    text = """\
INFO 11-29 13:25:38 [api_utils.py:273] non-default args: {'model': 'moonshotai/Kimi-K2.5', 'tensor_parallel_size': 8, 'gpu_memory_utilization': 0.7}
Free memory on device (139.29/139.8 GiB) on startup.
ValueError: To serve at least one request with the model's max seq len (262144), (17.16 GiB KV cache is needed, which is larger than the available KV cache memory (7.88 GiB). Based on the available memory, the estimated maximum model length is 120320.
"""
    finding = only(text)
    assert finding.cause == "One request of 262144 tokens takes 17.16 GiB and 7.88 GiB are left for KV cache."
    assert "Set --max-model-len to 120320 or less" in finding.remedy
    assert "By the plan, Kimi K2.5 on 8xH200 takes at most 262,144 tokens a request" in finding.remedy


def test_weights_that_do_not_fit_name_machines_that_hold_them() -> None:
    text = """\
INFO 11-29 13:24:37 [api_utils.py:273] non-default args: {'model': '/weights/Kimi-K2.5', 'tensor_parallel_size': 4}
  in create_weights
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.31 GiB. GPU 0 has a total capacity of 139.80 GiB of which 49.12 MiB is free.
"""
    finding = only(text)
    assert finding.cause_id == "oom-loading"
    assert "Kimi K2.5 fits on p5e.48xlarge (TP8), p5en.48xlarge (TP8)" in finding.remedy


def test_too_large_a_share_of_memory_names_the_safe_one() -> None:
    told = Circumstances(
        {}, {"model": "kimi-k2.5", "tensor_parallel_size": 8, "gpu_memory_utilization": 0.99}, gpu_gib=139.8
    )
    words = advise("utilization", told)
    assert words.startswith("It was set to 0.99. The highest that is safe for Kimi K2.5 on 8xH200 is 0.9")


def test_a_flag_that_is_gone_is_told_what_replaced_it() -> None:
    finding = only("vllm: error: unrecognized arguments: --swap-space 4 --max-modle-len 2048")
    assert "--swap-space was removed in vLLM 0.18.0; in its place: --kv-offloading-size=GiB" in finding.remedy
    assert "Instead of --max-modle-len this was probably meant: --max-model-len." in finding.remedy


def test_pod_memory_is_the_plan_s() -> None:
    gib = round(load_model("kimi-k2.5").published_weights_bytes / 2**30 + 160)
    assert advise("pod-memory", Circumstances({}, {"model": "kimi-k2.5"}, None)) == f"For Kimi K2.5 that is {gib} GiB."


def test_callers_faults_count_only_where_nobody_gets_through() -> None:
    refused = 'INFO:     10.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 401 Unauthorized\n'
    served = 'INFO:     10.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    assert ids(refused) == ["wrong-key"]
    assert ids(refused + served) == []


def test_every_entry_is_complete() -> None:
    for cause in log_causes():
        assert cause.match, cause.id
        for sentence in (cause.title, cause.cause, cause.remedy):
            assert sentence.strip() == sentence, cause.id
        assert cause.title[0].isupper() or cause.title.startswith(("--", "/dev/shm")), cause.id
        if cause.advice:
            advise(cause.advice, Circumstances({"heads": "64", "flags": "--x"}, {}, None))
    assert len({*(cause.id for cause in log_causes()), *checks()}) == len(log_causes()) + len(checks())


@given(st.lists(st.text(max_size=200), max_size=20))
def test_no_text_breaks_it(lines: list[str]) -> None:
    for finding in diagnose_log("\n".join(lines)):
        assert finding.cause
        assert finding.remedy


def test_the_troubleshooting_page_is_the_doctor_s_data() -> None:
    words = "`python -m tests.serving.diagnosis.troubleshooting_page` writes it anew"
    assert PAGE.read_text(encoding="utf-8") == page(), words


def test_every_command_that_a_remedy_names_exists() -> None:
    texts = [text for cause in log_causes() for text in (cause.cause, cause.remedy)]
    texts += [text for check in checks().values() for text in (check.cause, check.remedy)]
    named = {word for text in texts for word in re.findall(r"`dormouse ([a-z]+)", text)}
    assert {"weights", "wake", "preflight", "block", "fit"} <= named
    assert named <= set(COMMANDS)
