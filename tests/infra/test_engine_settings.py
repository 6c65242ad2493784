"""The engine's keys of a stack: limits, preset, a user's own arguments; the plan tells what they did."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.cli.main import main
from infra.plan import plan_environment
from infra.plan_text import fit_lines
from serving.errors import DoesNotFitError
from serving.units import GIB
from tests.infra.test_environment import ROOT, environment, faults


def test_without_the_keys_nothing_is_added() -> None:
    made = environment()
    assert (made.extra_args, made.engine.preset, made.engine.added_args, made.engine.lines()) == ((), None, (), [])
    assert (made.limits.max_sequences, made.limits.max_batched_tokens) == (64, 8192)


def test_the_project_s_own_defaults_leave_a_preset_its_say() -> None:
    """Pulumi fills in the defaults of Pulumi.yaml as if the user had written them."""
    declared = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))["config"]
    defaults = {
        key.removeprefix("dormouse:"): described["default"]
        for key, described in declared.items()
        if "default" in described
    }
    made = environment(**{**defaults, "capacity": environment_capacity(), "preset": "throughput"})
    assert (made.limits.max_sequences, made.limits.max_batched_tokens) == (256, 16_384)
    assert environment(**defaults).limits == environment().limits


def environment_capacity() -> list[dict[str, str]]:
    return [{"purchase": "spot", "zone": "use2-az1"}]


def test_a_preset_changes_what_the_user_did_not_write() -> None:
    made = environment(preset="throughput", maxSequences=100)
    assert (made.limits.max_sequences, made.limits.max_batched_tokens) == (100, 16_384)
    assert "  maxSequences stays 100, since you set it (the preset has 256)." in made.engine.lines()


def test_the_plan_is_made_with_the_preset_s_limits_and_says_so() -> None:
    made = environment(preset="long-context", extraArgs=["--enable-log-requests"])
    service = plan_environment(made)
    assert service.memory.limits.kv_cache_dtype == "fp8"
    lines = fit_lines(made, service)
    assert any(line.startswith("Preset long-context: many long requests") for line in lines)
    assert "  --long-prefill-token-threshold 0 → 4096: " in "\n".join(lines)
    assert lines[-1] == "Your own arguments for vLLM, checked against its flags: --enable-log-requests"
    assert made.engine.added_args == ("--long-prefill-token-threshold=4096", "--enable-log-requests")


def test_an_argument_that_changes_memory_unseen_is_told() -> None:
    made = environment(extraArgs=["--disable-custom-all-reduce", "--block-size=64", "--seed=1"])
    assert made.engine.lines()[-1].startswith(
        "The memory above does not count what --block-size, --disable-custom-all-reduce may change;"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"preset": "latancy"}, "dormouse:preset: got latancy; accepted: none, latency, throughput, long-context"),
        (
            {"maxBatchedTokens": 100},
            "dormouse:maxBatchedTokens: got 100; accepted: a whole number from 1,024 to 65,536",
        ),
        ({"extraArgs": "--seed=1"}, "dormouse:extraArgs: got --seed=1; accepted: a list of texts"),
        (
            {"extraArgs": ["--seed=1", "--port=1"]},
            "dormouse:extraArgs[1]: got --port=1; accepted: nothing: the gateway",
        ),
        ({"extraArgs": ["--swap-space=4"]}, "dormouse:extraArgs[0]: got --swap-space; accepted: --kv-offloading-size"),
    ],
)
def test_faults(changes: dict[str, Any], words: str) -> None:
    (fault,) = faults(**changes)
    assert fault.startswith(words)


def test_a_key_among_the_arguments_is_refused_and_not_repeated() -> None:
    (fault,) = faults(extraArgs=["--api-key", "sk-0123456789abcdef0123"])
    assert "sk-0123" not in fault
    assert "dormouse:apiKeySecret" in fault


def test_cache_in_host_memory_is_in_the_pod_s_memory_and_in_dev_shm() -> None:
    before = plan_environment(environment())
    after = plan_environment(environment(extraArgs=["--kv-offloading-size", "256"]))
    assert after.shared_memory_bytes == before.shared_memory_bytes + 256 * GIB
    assert after.pod_memory_bytes == before.pod_memory_bytes + 256 * GIB


def test_more_host_memory_than_the_machine_has_is_refused_with_what_fits() -> None:
    with pytest.raises(DoesNotFitError) as refused:
        plan_environment(environment(extraArgs=["--kv-offloading-size=3000"]))
    text = str(refused.value)
    assert "3,000.0 GiB of KV cache in host memory do not fit on p5en.48xlarge" in text
    room = int(text.split("--kv-offloading-size=")[1].split(" ", maxsplit=1)[0])
    assert plan_environment(environment(extraArgs=[f"--kv-offloading-size={room}"])).pod_memory_bytes > room * GIB
    with pytest.raises(DoesNotFitError):
        plan_environment(environment(extraArgs=[f"--kv-offloading-size={room + 1}"]))


def test_the_command_line_shows_preset_and_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8"))
    document["config"] |= {"dormouse:preset": "latency", "dormouse:extraArgs": ["--enable-log-requests"]}
    path = tmp_path / "Pulumi.quick.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    assert main(["plan", str(path)]) == 0
    assert "Preset latency: short waits for few callers" in capsys.readouterr().out
    assert main(["plan", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == {
        "preset": "latency",
        "maxSequences": 16,
        "maxBatchedTokens": 4096,
        "kvCacheDtype": "auto",
        "extraArgs": ["--enable-log-requests"],
    }
