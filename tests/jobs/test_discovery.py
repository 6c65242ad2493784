"""Where a job learns of its stack, and how it says that it cannot."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from infra.clock import SystemClock
from infra.jobs.discovery import discover
from infra.outputs import Slot, StackOutputs
from serving.errors import ConfigurationError

OUTPUTS = StackOutputs(
    environment="dev",
    region="us-east-2",
    account_id="123456789012",
    cluster_name="dev",
    namespace="kimi",
    service_name="kimi",
    service_port=8080,
    model="moonshotai/Kimi-K2.5",
    served_model_name="kimi-k2.5",
    api_key_secret_name="kimi-key",
    slots=(Slot("spot-a", "spot", "p5e.48xlarge", "us-east-2a", "use2-az1", "gpu-a", "vllm-a", "vol-1", 600),),
    gpus_per_node=8,
    startup_window_s=2400,
    drain_s=600,
    planned_load_s=900,
    weights_bytes=595_000_000_000,
    kv_cache_tokens=1,
    access="cluster",
)


def fault(**arguments: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        discover(**{"environment": {}, **arguments})
    return str(raised.value)


def pulumi(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a `pulumi` on PATH that does what the script says."""
    program = folder / "pulumi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_file_by_option_or_environment(tmp_path: Path) -> None:
    file = tmp_path / "outputs.json"
    file.write_text(OUTPUTS.to_json())
    target = discover(outputs_file=str(file), environment={})
    assert target.outputs == OUTPUTS
    assert isinstance(target.clock, SystemClock)
    assert not target.simulated
    assert discover(environment={"DORMOUSE_OUTPUTS": str(file)}).outputs == OUTPUTS


def test_pulumi_names_the_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outputs.json").write_text(OUTPUTS.to_json())
    pulumi(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/arguments; cat {tmp_path}/outputs.json')
    assert discover(stack="prod", environment={}).outputs == OUTPUTS
    assert (tmp_path / "arguments").read_text().strip() == "stack output --json --non-interactive --stack prod"


def test_pulumi_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pulumi(tmp_path, monkeypatch, "echo \"error: no stack named 'prod' found\" >&2; exit 255")
    message = fault(stack="prod")
    assert "--stack: got prod (Pulumi said: error: no stack named 'prod' found)" in message
    assert "a stack that `pulumi stack ls` lists" in message
    pulumi(tmp_path, monkeypatch, "echo '{}'")
    assert "which has no outputs; accepted: a stack after `pulumi up`" in fault(stack="prod")


def test_no_pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no `pulumi` is on PATH; accepted: an installed Pulumi CLI, or --outputs FILE" in fault(stack="prod")


def test_nothing_or_too_much_is_named() -> None:
    assert "--stack NAME, --outputs FILE, --sandbox, or a file named by DORMOUSE_OUTPUTS" in fault()
    assert "--outputs and --stack: got together; accepted: one of them" in fault(stack="a", outputs_file="b")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON"),
        ("[]", "got a list; accepted: an object of outputs"),
        ("{}", "clusterName: got nothing"),
        (json.dumps({**OUTPUTS.to_mapping(), "drainS": "long"}), "drainS: got 'long'; accepted: int"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "outputs.json"
    file.write_text(text)
    message = fault(outputs_file=str(file))
    assert words in message
    assert str(file) in message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert f"--outputs: got {tmp_path}/none.json (No such file or directory)" in fault(
        outputs_file=f"{tmp_path}/none.json"
    )
