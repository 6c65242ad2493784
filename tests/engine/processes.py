"""Processes of the engine tier: started with a log file, watched, and stopped by their own id."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

_PR_SET_PDEATHSIG = 1


class EngineProcessError(Exception):
    """A process of the engine tier did not start, or ended too early; the message holds the end of its log."""


class LoggedProcess:
    """One running program whose output goes to `<log_folder>/<name>.log`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log_folder: Path,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Start `command`; `environment` replaces this process's own when given."""
        self.name = name
        self.log_path = log_folder / f"{name}.log"
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=None if environment is None else dict(environment),
                cwd=folder,
                # A killed test run must not leave a control plane behind.
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            )

    @property
    def process_id(self) -> int:
        """The operating system's number for it."""
        return self._process.pid

    def tail(self, lines: int = 25) -> str:
        """The end of its log."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def require_alive(self) -> None:
        """Raise EngineProcessError with the log's end where the process has ended."""
        code = self._process.poll()
        if code is not None:
            raise EngineProcessError(f"{self.name} ended with {code}; the end of {self.log_path}:\n{self.tail()}")

    def wait_until(self, ready: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Poll `ready` until it holds; raises EngineProcessError when the process ends or `timeout_s` has passed."""
        deadline_s = time.monotonic() + timeout_s
        while not ready():
            self.require_alive()
            if time.monotonic() > deadline_s:
                raise EngineProcessError(
                    f"{self.name}: {what} not reached in {timeout_s:.0f} s; the end of {self.log_path}:\n{self.tail()}"
                )
            time.sleep(0.1)

    def stop(self, patience_s: float = 10) -> None:
        """Ask it to end, and kill it when it has not after `patience_s`."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nothing listens on; all are held at once, so that they differ."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # The parent may have died before the request was in place.
    if os.getppid() == 1:
        os.kill(os.getpid(), signal.SIGTERM)
