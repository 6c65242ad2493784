"""What a component's user adds for vLLM reaches every pod, or is refused before anything is registered."""

from typing import Any

import pytest

from components import ModelServer
from infra.environment import load
from infra.plan import plan_environment
from infra.stack import _server_args
from tests.components.test_model_server import arguments
from tests.infra.test_environment import DEV, TODAY
from tests.support.recording import record


def pods(**changes: Any) -> list[dict[str, Any]]:
    made = record(lambda: ModelServer("server", arguments(**changes)) and None)
    return [entry.inputs["spec"]["template"]["spec"] for entry in made.of("Deployment")]


def test_extra_arguments_stand_last_in_every_pod() -> None:
    extra = ["--enable-log-requests", "--block-size", "64"]
    specs = pods(extra_args=extra, max_batched_tokens=16_384)
    assert len(specs) == 2
    for spec in specs:
        args = spec["containers"][0]["args"]
        assert args[-3:] == extra
        assert "--max-num-batched-tokens=16384" in args


def test_without_any_the_pod_has_the_plan_s_arguments_alone() -> None:
    args = pods()[0]["containers"][0]["args"]
    assert args[-1].startswith("--override-generation-config=")
    assert "--max-num-batched-tokens=8192" in args


def test_host_memory_for_the_cache_enlarges_pod_and_dev_shm() -> None:
    (plain, _), (larger, _) = pods(), pods(extra_args=["--kv-offloading-size=100"])
    sizes = [
        next(v["emptyDir"]["sizeLimit"] for v in spec["volumes"] if v["name"] == "shared-memory")
        for spec in (plain, larger)
    ]
    assert sizes == ["32Gi", "132Gi"]
    memory = [int(spec["containers"][0]["resources"]["limits"]["memory"][:-2]) for spec in (plain, larger)]
    assert memory[1] == memory[0] + 100


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--swap-space=4"], "extra_args[0]: got --swap-space; accepted: --kv-offloading-size=GiB"),
        (["--seed=1", "--xyzzy"], "extra_args[1]: got --xyzzy; accepted: the flags of vllm serve"),
        (["--kv-offloading-size=9000"], "9,000.0 GiB of KV cache in host memory do not fit on p5e.48xlarge"),
    ],
)
def test_faults_stop_everything(extra: list[str], words: str) -> None:
    with pytest.raises(Exception, match=r".") as refused:
        record(lambda: ModelServer("server", arguments(extra_args=extra)) and None)
    assert words in str(refused.value)


def test_the_stack_hands_preset_and_arguments_to_the_component() -> None:
    environment = load(
        "dev", {**DEV, "apiKeySecret": "x", "preset": "latency", "extraArgs": ["--enable-log-requests"]}, TODAY
    )
    zones = {"use2-az1": "us-east-2a", "use2-az2": "us-east-2b"}
    ids = {"us-east-2a": "use2-az1", "us-east-2b": "use2-az2"}
    args = _server_args(
        environment, plan_environment(environment), "123456789012", zones, ["a", "b", "c"], ids, "k" * 32
    )
    assert args["extra_args"] == ["--performance-mode=interactivity", "--enable-log-requests"]
    assert (args["max_sequences"], args["max_batched_tokens"]) == (16, 4096)
