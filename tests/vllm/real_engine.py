"""A vLLM process with the arguments that the product writes; only what a CPU needs is added or taken away."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field, replace
from pathlib import Path

from serving.accelerators import instance_shape
from serving.engine_args import engine_arguments
from serving.memory import EngineLimits
from serving.profiles import ModelProfile, load_model
from serving.service_plan import plan_service
from tests.vllm.scripted_model import CONFIG, CONTEXT_TOKENS
from vllm_cpu.place import environment_path

KEY = "sk-of-these-tests-0123456789"
DRAIN_S = 300
READY_S = 240
# A GPU's memory share, and tensor parallel over a machine's GPUs, mean nothing to one CPU.
_LEFT_OUT = ("--gpu-memory-utilization=", "--tensor-parallel-size=", "--host=", "--port=")


def scripted_profile() -> ModelProfile:
    """The profile of the scripted model: Tiny Kimi's, with its own config."""
    tiny = load_model("tiny-kimi")
    return replace(tiny, name="scripted-kimi", served_name="scripted-kimi", config=CONFIG)


def our_arguments(folder: Path, port: int) -> list[str]:
    """What the product would start vLLM with, then the folder, address and mode of this machine."""
    limits = EngineLimits(CONTEXT_TOKENS, 8, max_batched_tokens=CONTEXT_TOKENS)
    profile = scripted_profile()
    one_gpu = replace(instance_shape("p5.48xlarge"), gpus=1)
    plan = plan_service(profile, one_gpu, limits, 1000, DRAIN_S)
    _, *arguments = engine_arguments(profile, plan)
    kept = [one for one in arguments if not one.startswith(_LEFT_OUT)]
    return [str(folder), *kept, "--host=127.0.0.1", f"--port={port}", "--enforce-eager"]


@dataclass
class RealEngine:
    """A server process, its address and its log."""

    process: subprocess.Popen[bytes]
    port: int
    log_path: Path
    ready: bool = field(default=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def metrics(self) -> str:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
            return answer.read().decode()

    def wait_until_ready(self) -> None:
        end_s = time.monotonic() + READY_S
        while time.monotonic() < end_s:
            assert self.process.poll() is None, f"vLLM ended with {self.process.returncode}:\n{self.log[-4000:]}"
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    self.ready = True
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(0.3)
        raise AssertionError(f"vLLM was not ready within {READY_S} s:\n{self.log[-4000:]}")

    def stop(self, within_s: float = 90) -> int:
        """SIGTERM, and SIGKILL where that is ignored; gives the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(within_s)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait(30)
        return self.process.returncode


def start_engine(folder: Path, scratch: Path, arguments: list[str] | None = None) -> RealEngine:
    """Start vLLM and do not wait for it."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    variables = {
        "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
        "VLLM_HOST_IP": "127.0.0.1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_API_KEY": KEY,
        # Otherwise its worker spins on both cores and starves every other process of the tests.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }  # fmt: skip
    command = [str(environment_path() / "bin" / "vllm"), "serve", *(arguments or our_arguments(folder, port))]
    log_path = scratch / "vllm.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **variables}, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    return RealEngine(process, port, log_path)
