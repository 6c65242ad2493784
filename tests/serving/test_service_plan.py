"""The numbers that follow from a plan, and the command line that carries them."""

import json
from pathlib import Path

import pytest

from serving.accelerators import instance_shape
from serving.engine_args import engine_arguments, engine_environment
from serving.memory import EngineLimits
from serving.profiles import load_model
from serving.runtime import pinned_runtime
from serving.service_plan import plan_service, volume_size_gib
from serving.units import GIB, MIB

KIMI = load_model("kimi-k2.5")
LIMITS = EngineLimits(262_144, 64)
FACTS = Path(__file__).parents[3] / "shared" / "facts"


def plan(mib_per_s: int = 1000, drain_s: int = 600):
    return plan_service(KIMI, instance_shape("p5e.48xlarge"), LIMITS, mib_per_s, drain_s)


@pytest.mark.parametrize("mib_per_s", [125, 500, 1000, 2000])
def test_the_startup_window_is_twice_the_read_and_the_compile_allowance(mib_per_s: int) -> None:
    read_s = KIMI.published_weights_bytes / (mib_per_s * MIB)
    window = plan(mib_per_s).startup_window_s
    assert 2 * read_s + 900 <= window < 2 * read_s + 960
    assert plan(mib_per_s).planned_load_s < window


def test_a_volume_faster_than_the_machine_loads_at_the_machine_s_rate() -> None:
    assert plan(50_000).planned_load_s == plan(20_000).planned_load_s


def test_kubernetes_waits_longer_than_vllm_drains() -> None:
    made = plan(drain_s=1200)
    assert made.drain_s == 1200
    assert made.grace_s > made.deregister_s + made.drain_s


def test_the_pod_s_memory_holds_the_whole_load_and_leaves_the_machine_some() -> None:
    made = plan()
    assert made.pod_memory_bytes > made.memory.weights_bytes + made.shared_memory_bytes
    assert made.pod_memory_bytes < 0.95 * instance_shape("p5e.48xlarge").memory_bytes


def test_the_volume_holds_weights_and_caches() -> None:
    assert volume_size_gib(KIMI.published_weights_bytes) == 650
    assert KIMI.published_weights_bytes + 40 * GIB < 650 * GIB


def test_the_command_line_carries_the_plan() -> None:
    arguments = engine_arguments(KIMI, plan())
    assert arguments[0] == "/models/kimi-k2.5"
    for wanted in (
        "--tensor-parallel-size=8",
        "--max-model-len=262144",
        "--max-num-seqs=64",
        "--shutdown-timeout=600",
        "--tool-call-parser=kimi_k2",
        "--enable-auto-tool-choice",
        "--reasoning-parser=kimi_k2",
        "--mm-encoder-tp-mode=data",
        "--trust-remote-code",
    ):
        assert wanted in arguments
    assert not any("api-key" in argument for argument in arguments)


def test_every_flag_exists_in_the_pinned_vllm() -> None:
    path = FACTS / "vllm_0_32_flags.json"
    if not path.exists():
        pytest.skip(f"the flag list of vLLM 0.32 is not at {path}")
    known = json.loads(path.read_text(encoding="utf-8"))
    assert pinned_runtime().vllm_version.startswith("0.32.")
    names = json.dumps(known)
    for argument in engine_arguments(KIMI, plan())[1:]:
        flag = argument.split("=")[0]
        assert f'"{flag}"' in names, f"{flag} is no flag of vLLM {known['vllm_version']}"


def test_every_vllm_variable_exists_in_the_pinned_vllm() -> None:
    path = FACTS / "vllm_0_32_envs.json"
    if not path.exists():
        pytest.skip(f"the variable list of vLLM 0.32 is not at {path}")
    names = path.read_text(encoding="utf-8")
    for name in engine_environment(plan()):
        if name.startswith("VLLM_"):
            assert f'"{name}"' in names, name


def test_the_engine_waits_as_long_as_the_probe() -> None:
    assert engine_environment(plan())["VLLM_ENGINE_READY_TIMEOUT_S"] == str(plan().startup_window_s)


def test_images_are_pinned() -> None:
    runtime = pinned_runtime()
    for image in (runtime.vllm_image, runtime.gateway_image, runtime.device_plugin_image):
        tag = image.rsplit(":", 1)[1]
        assert any(character.isdigit() for character in tag), image
