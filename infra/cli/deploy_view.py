"""What a run of the program makes: one live line on a terminal, nothing in a pipe."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from infra.sandbox.deployment import ResourceEvent


class DeployView:
    """Counts resources as they are made; call it with each event, within `with`."""

    def __init__(self) -> None:
        """Start at nothing."""
        self.made = 0
        self._began_s = time.monotonic()
        self._on_terminal = sys.stderr.isatty()

    @property
    def took_s(self) -> float:
        """Real seconds since the beginning."""
        return time.monotonic() - self._began_s

    def __enter__(self) -> Self:
        """Start the spinner, where there is a terminal."""
        self._began_s = time.monotonic()
        if self._on_terminal:
            from rich.console import Console

            self._status = Console(stderr=True, highlight=False).status("starting the simulated cloud")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the spinner."""
        if self._on_terminal:
            self._status.stop()

    def __call__(self, event: "ResourceEvent") -> None:
        """Show one event."""
        if event.kind == "created":
            self.made += 1
        if self._on_terminal:
            self._status.update(f"{self.made} resources made; {event.kind} {event.type.split(':')[-1]} {event.name}")
