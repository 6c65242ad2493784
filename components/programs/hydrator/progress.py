"""How far a run is: a line every few seconds, `progress.json` for machines, and the last words for Kubernetes."""

import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from components.programs.hydrator.volume import utc_now, write_whole

_WINDOW_S = 30.0
_LAST_WORDS_BYTES = 4096  # what Kubernetes keeps of a termination message


class Progress:
    """Counts of one run; used by several threads.

    - `total_bytes`: of all files. `downloaded_bytes`: received in this run, thrown-away ones included.
    - `resumed_bytes`: taken up from an earlier run's parts; `reread_bytes`: of these, read again to go on hashing.
    - `again_bytes`: received although they had been there.
    """

    def __init__(self, path: Path | None, interval_s: float, say: Callable[[str], None]) -> None:
        """Write to `path` and say a line every `interval_s`."""
        self._path = path
        self._interval_s = interval_s
        self._say = say
        self._lock = Lock()
        self._began_s = time.monotonic()
        self._reported_s = self._began_s
        self._there: dict[str, int] = {}
        self._rates: deque[tuple[float, int]] = deque([(self._began_s, 0)])
        self._stage = "starting"
        self.total_bytes = 0
        self.downloaded_bytes = 0
        self.resumed_bytes = 0
        self.reread_bytes = 0
        self.again_bytes = 0
        self.finished_files = 0
        self.total_files = 0

    def say(self, text: str) -> None:
        """One line of the log."""
        self._say(text)

    def stage(self, words: str, total_bytes: int, total_files: int, there: dict[str, int] | None = None) -> None:
        """What is being done now, of how much; `there` is finished already."""
        with self._lock:
            self._stage, self.total_bytes, self.total_files = words, total_bytes, total_files
            self._there = dict(there or {})
            self.finished_files = len(self._there)
            self._rates = deque([(time.monotonic(), sum(self._there.values()))])

    def took_up(self, path: str, size_bytes: int, reread_bytes: int) -> None:
        """A part of an earlier run is gone on with."""
        with self._lock:
            self.resumed_bytes += size_bytes
            self.reread_bytes += reread_bytes
            self._there[path] = size_bytes

    def received(self, path: str, size_bytes: int) -> None:
        """Bytes came over the network."""
        del path
        with self._lock:
            self.downloaded_bytes += size_bytes

    def stored(self, path: str, size_bytes: int) -> None:
        """A file has so many bytes now."""
        with self._lock:
            self._there[path] = size_bytes
        self.report()

    def threw_away(self, path: str) -> None:
        """A file's bytes were wrong."""
        with self._lock:
            self.again_bytes += self._there.pop(path, 0)

    def finished(self, path: str) -> None:
        """A file is whole."""
        del path
        with self._lock:
            self.finished_files += 1

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self._began_s

    def report(self, *, now: bool = False) -> None:
        """Say where things stand, if it is time."""
        with self._lock:
            at_s = time.monotonic()
            if not now and at_s - self._reported_s < self._interval_s:
                return
            self._reported_s = at_s
            there = sum(self._there.values())
            self._rates.append((at_s, there))
            while len(self._rates) > 2 and at_s - self._rates[0][0] > _WINDOW_S:
                self._rates.popleft()
            since_s, since_bytes = self._rates[0]
            rate = max(0, there - since_bytes) / max(at_s - since_s, 0.001)
            left_s = (self.total_bytes - there) / rate if rate > 0 else None
            line = progress_line(self._stage, there, self.total_bytes, rate, left_s)
            document = {
                "stage": self._stage,
                "at": utc_now(),
                "done_bytes": there,
                "total_bytes": self.total_bytes,
                "finished_files": self.finished_files,
                "total_files": self.total_files,
                "bytes_per_s": round(rate),
                "left_s": None if left_s is None else round(left_s),
            }
        self._say(line)
        if self._path is not None:
            with suppress(OSError):  # a full disk has its own error, with the missing GiB
                write_whole(self._path, json.dumps(document) + "\n", safe=False)


def progress_line(stage: str, there: int, total: int, bytes_per_s: float, left_s: float | None) -> str:
    """Such as `fetching: 123.4 of 595.1 GB (20.7 %), 812 MB/s, about 10 min left`."""
    unit, name = (1e9, "GB") if total >= 1e9 else (1e6, "MB")
    share = 100 * there / total if total else 100.0
    if left_s is None:
        left = "nothing comes"
    elif left_s >= 90:
        left = f"about {left_s / 60:,.0f} min left"
    else:
        left = f"about {left_s:,.0f} s left"
    return f"{stage}: {there / unit:,.1f} of {total / unit:,.1f} {name} ({share:.1f} %), {bytes_per_s / 1e6:,.0f} MB/s, {left}"


def last_words(path: Path, summary: dict[str, Any]) -> None:
    """Write the summary where Kubernetes picks it up; a place that cannot be written is no reason to fail."""
    text = json.dumps(summary)
    if len(text.encode()) > _LAST_WORDS_BYTES:
        message = str(summary.get("message", ""))
        spare = _LAST_WORDS_BYTES - len(json.dumps({**summary, "message": ""}).encode()) - 16
        text = json.dumps({**summary, "message": message[: max(spare // 2, 0)] + "…"})
    with suppress(OSError):
        path.write_text(text + "\n", encoding="utf-8")
