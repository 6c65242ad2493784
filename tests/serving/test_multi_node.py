"""One replica over several machines: its plan, its pods, and the probe that ties their fates, over real sockets."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from serving.accelerators import instance_shape
from serving.errors import DoesNotFitError
from serving.manifests import pair_probe
from serving.manifests.deployment import ServiceNames, deployment
from serving.manifests.efa_device_plugin import efa_device_plugin
from serving.manifests.multi_node import first_service
from serving.manifests.place import Place
from serving.memory import EngineLimits, plan_memory, require_fit
from serving.profiles import load_model
from serving.runtime import pinned_runtime
from serving.service_plan import plan_service

KIMI, P5 = load_model("kimi-k2.5"), instance_shape("p5.48xlarge")
LIMITS = EngineLimits(262_144, 64)
NAMES = ServiceNames("dev", "dev", "kimi", "kimi", "kimi-api-key", "kimi-gateway", "dev")


def made(rank: int) -> dict[str, Any]:
    plan = plan_service(KIMI, P5, LIMITS, 1000, 600, nodes=2)
    return deployment(NAMES, KIMI, plan, "kimi", "us-east-2a", "weights", place=Place(0, False, rank, "kimi-first"))


def test_what_one_machine_cannot_hold_two_hold_as_stages() -> None:
    with pytest.raises(DoesNotFitError):
        require_fit(KIMI, P5, LIMITS)
    plan = require_fit(KIMI, P5, LIMITS, nodes=2)
    assert (str(plan.fit.layout), plan.nodes, plan.gpus_per_node) == ("PP2 × TP8, 2 nodes", 2, 8)
    # kimi_vllm.md: 39.11 GB on the fullest GPU of TP8 × PP2.
    assert plan.weights_bytes_per_gpu == 39_109_025_760
    assert plan_memory(KIMI, instance_shape("p5e.48xlarge"), LIMITS, 1).nodes == 1


def test_what_does_not_fit_on_two_says_so_of_two() -> None:
    with pytest.raises(DoesNotFitError, match=r"2 × p4d\.24xlarge \(16 × A100-40, .*2 nodes\)"):
        require_fit(KIMI, instance_shape("p4d.24xlarge"), LIMITS, nodes=2)


@pytest.mark.parametrize(
    "manifest",
    [made(0), made(1), first_service("dev", "dev", "kimi-first", {"a": "b"}), efa_device_plugin("us-east-2")],
    ids=["first", "worker", "service", "plugin"],
)
def test_kubernetes_accepts_every_object(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, "1.33", strict=True)


def test_the_first_machine_answers_and_the_others_only_work() -> None:
    first, worker = (made(rank)["spec"]["template"] for rank in (0, 1))
    assert first["metadata"]["labels"]["dormouse.dev/accepting"] == "true"
    assert "dormouse.dev/accepting" not in worker["metadata"]["labels"]
    assert [one["name"] for one in first["spec"]["initContainers"]] == ["weights-check", "gateway"]
    assert [one["name"] for one in worker["spec"]["initContainers"]] == ["weights-check"]
    engines = [template["spec"]["containers"][0] for template in (first, worker)]
    for rank, engine in enumerate(engines):
        assert {"--nnodes=2", f"--node-rank={rank}", "--tensor-parallel-size=8", "--pipeline-parallel-size=2"} <= set(
            engine["args"]
        )
        assert engine["resources"]["limits"]["nvidia.com/gpu"] == "8"
        assert engine["resources"]["limits"]["vpc.amazonaws.com/efa"] == "32"
        assert engine["env"][0]["name"] == "VLLM_HOST_IP"
    assert "--master-addr=$(VLLM_HOST_IP)" in engines[0]["args"]
    assert {"--headless", "--master-addr=kimi-first"} <= set(engines[1]["args"])
    assert "readinessProbe" not in engines[1]


def test_a_worker_outlives_the_first_machine_by_waiting_for_it() -> None:
    first, worker = (made(rank)["spec"]["template"]["spec"] for rank in (0, 1))
    assert worker["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][3:] == ["wait", "29501"]
    assert worker["terminationGracePeriodSeconds"] > first["terminationGracePeriodSeconds"]


@pytest.mark.parametrize(("region", "account"), [("us-west-2", "602401143452"), ("me-central-1", "759879836304")])
def test_the_plugin_comes_from_the_region_s_own_registry(region: str, account: str) -> None:
    assert pinned_runtime().efa_device_plugin(region).startswith(f"{account}.dkr.ecr.{region}.amazonaws.com/eks/")


class Pair:
    """A first machine that listens at 127.0.0.1 and workers that connect from 127.0.0.2 and on."""

    def __init__(self, stack: ExitStack, memory: Path) -> None:
        self._stack, self._memory = stack, memory
        self._listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port = self._listening.getsockname()[1]
        self.held: list[socket.socket] = []

    def connect(self, worker: int) -> tuple[socket.socket, socket.socket]:
        ours = self._stack.enter_context(
            socket.create_connection(("127.0.0.1", self.port), source_address=(f"127.0.0.{worker + 1}", 0))
        )
        theirs, _ = self._listening.accept()
        self._stack.enter_context(theirs)
        return ours, theirs

    def fault(self, role: str, wanted: int = 1) -> str:
        seen = pair_probe.peers(self.port, role == "leader")
        return pair_probe.fault(seen, self._memory / role, wanted)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(stack, tmp_path)


def test_machines_that_hold_on_to_each_other_are_well(pair: Pair) -> None:
    assert pair.fault("leader") == "0 of 1 machines are connected"
    pair.connect(1)
    pair.connect(1)
    assert pair.fault("leader") == ""
    assert pair.fault("worker") == ""
    assert pair.fault("leader") == ""


def test_every_worker_is_counted_once(pair: Pair) -> None:
    pair.connect(1)
    pair.connect(1)
    assert pair.fault("leader", 2) == "1 of 2 machines are connected"
    pair.connect(2)
    assert pair.fault("leader", 2) == ""


def test_one_of_many_connections_may_end(pair: Pair) -> None:
    first, _ = pair.connect(1), pair.connect(1)
    assert pair.fault("leader") == ""
    for end in first:
        end.close()
    assert pair.fault("leader") == ""


def test_a_process_that_took_a_dead_one_s_place_is_not_taken_for_it(pair: Pair) -> None:
    ends = pair.connect(1)
    assert pair.fault("leader") == pair.fault("worker") == ""
    for end in ends:
        end.close()
    pair.connect(1)
    assert "has gone, or has started again" in pair.fault("leader")
    assert "has gone, or has started again" in pair.fault("worker")


def test_the_text_alone_is_a_program(pair: Pair) -> None:
    """It is handed to the image's Python, which has nothing of this package."""
    command = made(1)["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["exec"]["command"]
    program = [sys.executable, "-I", "-c", command[2]]
    pair.connect(1)
    waiting = subprocess.Popen([*program, "wait", str(pair.port)])
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.5)
    finally:
        waiting.kill()
        waiting.wait()
    # Without a connection there is nobody to wait for.
    assert subprocess.run([*program, "wait", "1"], check=False, timeout=30).returncode == 0
