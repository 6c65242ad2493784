"""Progress on a terminal: finished steps as lines, the current one with a spinner; silence in a pipe."""

import sys
from types import TracebackType
from typing import Self

from infra.jobs.progress import Step
from serving.units import duration_text


class ProgressView:
    """Shows a job's steps on stderr; call it with each `Step`, within `with`."""

    def __init__(self, opening: str) -> None:
        """Prepare; `opening` is shown until the first step."""
        self._opening = opening
        self._last: Step | None = None
        self._on_terminal = sys.stderr.isatty()

    def __enter__(self) -> Self:
        """Start the spinner, where there is a terminal."""
        if self._on_terminal:
            # Imported late: a pipe needs no drawing.
            from rich.console import Console
            from rich.markup import escape

            self._escape = escape
            self._console = Console(stderr=True, highlight=False)
            self._status = self._console.status(self._opening)
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the spinner and leave the last step as a line."""
        if self._on_terminal:
            self._status.stop()
            self._print_last(finished=kind is None)

    def __call__(self, step: Step) -> None:
        """Show a step, or a new estimate of the same one."""
        if not self._on_terminal:
            return
        if self._last is not None and (self._last.stage, self._last.text) != (step.stage, step.text):
            self._print_last(finished=True)
        self._last = step
        rest = f" [dim](about {duration_text(step.remaining_s)} to go)[/dim]" if step.remaining_s else ""
        self._status.update(f"{self._escape(step.text)}{rest}")

    def _print_last(self, *, finished: bool) -> None:
        if self._last is not None:
            mark = "[green]✓[/green]" if finished and self._last.stage != "refused" else "[yellow]·[/yellow]"
            time = f"[dim]{self._last.at:%H:%M:%S}[/dim]"
            self._console.print(f"{mark} {time} {self._escape(self._last.text)}")
            self._last = None
