"""Telling how far a build is: a line that moves on a terminal, two lines per target in a pipe."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TextIO


class Progress:
    """Writes to `stream`; `live` is whether it is a terminal whose last line may be rewritten."""

    def __init__(self, stream: TextIO, live: bool) -> None:
        self._stream = stream
        self._live = live

    def note(self, text: str) -> None:
        """One line that stays."""
        print(text, file=self._stream, flush=True)

    @contextmanager
    def step(self, position: str, name: str) -> Generator[Callable[[], None]]:
        """Frame the work on `name`, the `position` (such as `3/8`) of the whole; call what it gives now and then."""
        start_s = time.monotonic()

        def show() -> None:
            if self._live:
                line = f"[{position}] {name}  {duration_text(time.monotonic() - start_s)}"
                print(f"\r\x1b[K{line}", end="", file=self._stream, flush=True)

        if self._live:
            show()
        else:
            self.note(f"[{position}] {name}: started")
        try:
            yield show
        except BaseException:
            self._end(position, name, "stopped after", start_s)
            raise
        self._end(position, name, "done in", start_s)

    def _end(self, position: str, name: str, word: str, start_s: float) -> None:
        erase = "\r\x1b[K" if self._live else ""
        self.note(f"{erase}[{position}] {name}: {word} {duration_text(time.monotonic() - start_s)}")


def duration_text(seconds: float) -> str:
    """`41 s`, `2 min 41 s` or `1 h 02 min`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
