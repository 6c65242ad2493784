"""The engine as a process of its own: started, waited for, stopped by its process group; its log goes to a file."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from infra.calibrate.start_log import is_ready, reason
from serving.errors import ConfigurationError, Fault, JobError

_POLL_S = 0.5
_STOP_S = 30.0
# Nothing may be fetched, counted or reported: the folder holds all that the engine needs.
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1",
}


class EngineProcess:
    """One `vllm serve`; use it in a `with`, at whose end nothing of it runs any more."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, poll_s: float = _POLL_S
    ) -> None:
        """Prepare `command`; `log` takes its output, `environment` stands over this process's own."""
        self.command = tuple(command)
        self._log = log
        self._environment = {**os.environ, **_ENVIRONMENT, **(environment or {})}
        self._poll_s = poll_s

    def __enter__(self) -> Self:
        """Start it; raises ConfigurationError where there is no such program."""
        with self._log.open("wb") as output:
            try:
                self._process = subprocess.Popen(
                    self.command,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    env=self._environment,
                    start_new_session=True,
                )
            except OSError as error:
                accepted = "the vllm program of an environment that holds vLLM, such as --vllm /opt/venv/bin/vllm"
                given = f"{self.command[0]} ({error.strerror or error})"
                raise ConfigurationError([Fault("--vllm", given, accepted)], "the command line") from error
        self._began_s = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it and everything that it started."""
        for sign, patience_s in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, _STOP_S)):
            try:
                os.killpg(self._process.pid, sign)
            except ProcessLookupError:
                break
            try:
                self._process.wait(patience_s)
            except subprocess.TimeoutExpired:
                continue
        self._process.wait()

    @property
    def log_text(self) -> str:
        """What it has printed so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def wait_until_ready(self, limit_s: float, told: Callable[[str], None]) -> float:
        """Seconds from the start until it answers; `told` gets its last line every now and then.

        Raises JobError with the log's own reason where it ends before, or is not ready within `limit_s`.
        """
        while True:
            text = self.log_text
            took_s = time.monotonic() - self._began_s
            if is_ready(text):
                return took_s
            ended = self._process.poll()
            if ended is not None:
                raise JobError(
                    f"the engine ended before it was ready, with exit code {ended}:"
                    f" {reason(text) or 'its log names no error'}. The log: {self._log}"
                )
            if took_s > limit_s:
                raise JobError(
                    f"the engine was not ready within {limit_s:.0f} s; --start-limit allows more. The log: {self._log}"
                )
            lines = text.rstrip().splitlines()
            told(lines[-1][:160] if lines else "starting")
            time.sleep(self._poll_s)


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
