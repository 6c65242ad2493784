"""`vllm bench serve` as a process: found, given its arguments, bounded in time, its progress and result read.

The API key reaches it in the environment of that one process (OPENAI_API_KEY, which it reads) and stands in no argument
list, file or log.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.load.levels import Level
from infra.load.measured import LATENCIES, PERCENTILES, Figures, read_figures
from serving.errors import ConfigurationError, Fault, JobError
from serving.runtime import pinned_runtime

_POLL_S = 0.2
_STOP_S = 10.0
_PROGRESS = re.compile(r"(\d+)/(\d+) \[")
# What its own log says when the tokenizer cannot be had.
_TOKENIZER_WORDS = ("tokenizer", "trust_remote_code", "huggingface", "Repo id", "LocalEntryNotFound")


@dataclass(frozen=True)
class Traffic:
    """What is sent: random prompts of `input_tokens`, answers of exactly `output_tokens`.

    - `url`: the server's address without /v1. `model`: the name to ask for.
    - `tokenizer`: a folder, or a repository that the tool downloads it from.
    """

    url: str
    model: str
    tokenizer: str
    input_tokens: int
    output_tokens: int
    tokenizer_mode: str = "auto"
    trust_remote_code: bool = False
    insecure: bool = False


def find_vllm(named: str | None) -> str:
    """The vLLM program: the one that is named, else the one on the PATH; raises ConfigurationError with how to get it."""
    found = shutil.which(named or "vllm")
    if found is not None:
        return found
    version = pinned_runtime().vllm_version
    accepted = (
        "the vllm program of an environment that holds vLLM. Where there is none: inside the server's own container it "
        f"is on the PATH; elsewhere `python -m venv load && load/bin/pip install vllm=={version}`, then --vllm "
        "load/bin/vllm. The tool needs no GPU"
    )
    raise ConfigurationError([Fault("--vllm", named or "no vllm on the PATH", accepted)], "the command line")


def bench_arguments(traffic: Traffic, level: Level, seed: int, warmups: int, folder: Path) -> list[str]:
    """The arguments of `vllm bench serve` for one level; the result goes to `folder`/result.json."""
    paced = (
        ["--max-concurrency", str(int(level.value))]
        if level.kind == "concurrency"
        else ["--request-rate", f"{level.value:g}"]
    )
    return [
        "--backend", "openai-chat",
        "--base-url", traffic.url,
        "--endpoint", "/v1/chat/completions",
        "--model", traffic.model,
        "--tokenizer", traffic.tokenizer,
        "--tokenizer-mode", traffic.tokenizer_mode,
        "--dataset-name", "random",
        "--random-input-len", str(traffic.input_tokens),
        "--random-output-len", str(traffic.output_tokens),
        "--num-prompts", str(level.requests),
        "--num-warmups", str(warmups),
        *paced,
        # Answers of one length at every level, so that levels can be compared.
        "--ignore-eos",
        # Other prompts at each level: the same ones would be answered out of the prefix cache.
        "--seed", str(seed),
        "--percentile-metrics", ",".join(LATENCIES),
        "--metric-percentiles", ",".join(map(str, PERCENTILES)),
        "--save-result", "--result-dir", str(folder), "--result-filename", "result.json",
        *(["--trust-remote-code"] if traffic.trust_remote_code else []),
        *(["--insecure"] if traffic.insecure else []),
    ]  # fmt: skip


def run_bench(
    vllm: str,
    traffic: Traffic,
    level: Level,
    key: str,
    *,
    limit_s: float,
    seed: int,
    warmups: int = 0,
    told: Callable[[int, int], None] | None = None,
) -> Figures | None:
    """Run one level; None where it was not done within `limit_s`, and nothing of it runs any more.

    - `told`: called with the requests that are done and all of them.

    Raises JobError where the tool fails, with its own last words.
    """
    with tempfile.TemporaryDirectory(prefix="dormouse-load-") as name:
        folder = Path(name)
        log = folder / "bench.log"
        environment = {**os.environ, "OPENAI_API_KEY": key, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
        arguments = bench_arguments(traffic, level, seed, warmups, folder)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [vllm, "bench", "serve", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        try:
            if not _wait(process, log, limit_s, told):
                return None
        finally:
            _stop(process)
        result = folder / "result.json"
        if process.returncode != 0 or not result.exists():
            raise JobError(_failure(process.returncode, log.read_text(encoding="utf-8", errors="replace"), traffic))
        return read_figures(result.read_text(encoding="utf-8"))


def _wait(process: subprocess.Popen[bytes], log: Path, limit_s: float, told: Callable[[int, int], None] | None) -> bool:
    """Whether it ended by itself in time."""
    end_s = time.monotonic() + limit_s
    while process.poll() is None:
        if time.monotonic() > end_s:
            return False
        if told is not None and (done := _progress(log)) is not None:
            told(*done)
        time.sleep(_POLL_S)
    return True


def _progress(log: Path) -> tuple[int, int] | None:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 400))
        found = _PROGRESS.findall(file.read().decode(errors="replace"))
    return (int(found[-1][0]), int(found[-1][1])) if found else None


def _stop(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, sign)
            process.wait(_STOP_S)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
    process.wait()


def _failure(code: int, log: str, traffic: Traffic) -> str:
    words = _last_words(log)
    text = f"`vllm bench serve` ended with exit code {code}: {words}"
    if any(word.lower() in words.lower() for word in _TOKENIZER_WORDS):
        text += (
            f". It reads the tokenizer from {traffic.tokenizer}: --tokenizer names a folder that holds it; a tokenizer "
            "that is the model's own Python also needs --trust-remote-code, which runs that code on this machine"
        )
    return text


def _last_words(log: str) -> str:
    lines = [line.strip() for line in log.replace("\r", "\n").splitlines()]
    told: Sequence[str] = [line for line in lines if line and not _PROGRESS.search(line)]
    return told[-1][:400] if told else "it said nothing"
