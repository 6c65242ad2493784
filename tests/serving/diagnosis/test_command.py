"""Faults of a posted command line."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.accelerators import instance_shape
from serving.diagnosis.command import diagnose_command
from serving.diagnosis.command_text import read_command
from serving.engine_args import engine_arguments
from serving.gpu_boxes import machine
from serving.memory import EngineLimits
from serving.profiles import known_models, load_model
from serving.service_plan import plan_service

GOOD = (
    "vllm serve moonshotai/Kimi-K2.5 -tp 8 --trust-remote-code --tool-call-parser kimi_k2 --reasoning-parser kimi_k2"
    " --enable-auto-tool-choice --served-model-name kimi-k2.5 --shutdown-timeout 600 --host 127.0.0.1"
)


def found(text: str, on: str | None = None) -> dict[str, Any]:
    command = read_command(text)
    assert command is not None
    return {one.cause_id: one for one in diagnose_command(command, None if on is None else machine(on))}


def test_a_good_command_gives_none() -> None:
    assert found(GOOD) == {}
    assert found(GOOD, "p5e.48xlarge") == {}


def test_a_guide_s_command() -> None:
    """What a widely copied guide gives: two GPUs of 80 GB, AWQ, removed flags, nothing that the model needs."""
    findings = found(
        "python -m vllm.entrypoints.openai.api_server --model moonshotai/Kimi-K2.5 --tensor-parallel-size 2"
        " --quantization awq --swap-space 16 --gpu-memory-utilization 0.98 --max-model-len 524288",
        "2xA100-80",
    )
    assert set(findings) == {
        "command-flag", "command-utilization", "command-remote-code", "command-parsers", "command-quantization",
        "command-context", "command-no-fit", "command-old-entry", "command-open", "command-cuts-requests",
        "command-served-name",
    }  # fmt: skip
    assert findings["command-no-fit"].remedy.startswith("What works: TP8 on p5e.48xlarge")
    assert findings["command-quantization"].cause.endswith("Kimi K2.5 is released as compressed-tensors int4 group 32.")
    assert findings["command-context"].remedy == "Set 262,144 or less."
    assert findings["command-parsers"].remedy == (
        "Set --tool-call-parser kimi_k2 --reasoning-parser kimi_k2 --enable-auto-tool-choice."
    )


def test_three_gpus_cannot_share_64_heads() -> None:
    assert found(GOOD.replace("-tp 8", "-tp 3"))["command-heads"].remedy == "Choose one of 1, 2, 4, 8, 16, 32, 64."


def test_a_docker_command() -> None:
    findings = found("docker run -p 8000:8000 vllm/vllm-openai:v0.15.1 --model moonshotai/Kimi-K2.5 -tp 8")
    assert {"command-docker-gpus", "command-docker-memory", "command-image-compat", "command-image-old"} <= set(
        findings
    )
    sound = (
        f"docker run --gpus all --ipc=host -e VLLM_API_KEY vllm/vllm-openai:v0.32.0 {GOOD.removeprefix('vllm serve ')}"
    )
    assert found(sound) == {}
    assert "command-image-unpinned" in found(sound.replace(":v0.32.0", ":latest"))


def test_a_secret_is_never_repeated() -> None:
    findings = found(f"{GOOD} --api-key sk-very-secret --hf-token hf_also_secret")
    assert "command-key-in-list" in findings
    assert "secret" not in repr(findings).replace("from a Secret", "").replace("or Secret", "")


def test_lines_with_backslashes_and_prompts_are_one_command() -> None:
    command = read_command(
        "Here is what I run:\n$ vllm serve moonshotai/Kimi-K2.5 \\\n    -tp 8 \\\n  --max-model-len 128k\n"
    )
    assert command is not None
    assert command.model == "moonshotai/Kimi-K2.5"
    assert set(command.flags) == {"--tensor-parallel-size", "--max-model-len"}
    assert read_command("nothing to see") is None


@pytest.mark.parametrize("name", known_models())
def test_our_own_arguments_give_none(name: str) -> None:
    model = load_model(name)
    context = min(model.max_context_tokens, 32_768)
    shape = instance_shape("p6-b300.48xlarge")
    plan = plan_service(model, shape, EngineLimits(context, 16), 1000, 600)
    command = read_command("vllm serve " + " ".join(f"'{one}'" for one in engine_arguments(model, plan)))
    assert command is not None
    # The key comes as a variable of the pod, which a command line does not show.
    assert {one.cause_id for one in diagnose_command(command, shape)} <= {"command-open"}


@given(st.text(max_size=300))
def test_nothing_typed_breaks_it(text: str) -> None:
    command = read_command(f"vllm serve {text}")
    if command is not None:
        diagnose_command(command)
