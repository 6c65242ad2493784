"""The server's own metrics while it is loaded: read every second or so beside the load, summed up at the end."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from infra.load.measured import ServerView
from serving.diagnosis.prometheus import MetricsPage, read_metrics

Pages = Callable[[], list[str]]
"""Reads the metrics page of every replica; raises MetricsUnreadable."""
_COUNTERS = {
    "preemptions": "vllm:num_preemptions_total",
    "queries": "vllm:prefix_cache_queries_total",
    "hits": "vllm:prefix_cache_hits_total",
}


class MetricsUnreadable(Exception):  # noqa: N818 - what happened, in words for people
    """Why the metrics could not be read."""


class MetricsWatch:
    """Looks until the `with` ends; `view()` then says what was seen."""

    def __init__(self, pages: Pages | None, every_s: float = 1.0) -> None:
        """Watch `pages`; None watches nothing."""
        self._pages = pages
        self._every_s = every_s
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._looks = 0
        self._problem = "" if pages else "no --metrics-url and no stack was named"
        self._most: dict[str, float] = {}
        self._first: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def __enter__(self) -> Self:
        """Look once, then keep looking beside."""
        self._look()
        if self._pages is not None:
            self._thread = threading.Thread(target=self._keep_looking, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Look a last time and stop."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._look()

    def view(self) -> ServerView:
        """The highest gauges and the growth of the counters."""
        if not self._looks:
            return ServerView(problem=self._problem)
        grown = {name: self._last[name] - self._first[name] for name in self._first if name in self._last}
        queries = grown.get("queries", 0.0)
        return ServerView(
            kv_cache_share=self._most.get("kv"),
            running=_whole(self._most.get("running")),
            waiting=_whole(self._most.get("waiting")),
            preemptions=_whole(grown.get("preemptions")),
            prefix_hit_share=grown.get("hits", 0.0) / queries if queries > 0 else None,
            looks=self._looks,
            problem=self._problem,
        )

    def _keep_looking(self) -> None:
        while not self._over.wait(self._every_s):
            self._look()

    def _look(self) -> None:
        if self._pages is None:
            return
        try:
            pages = [read_metrics(page) for page in self._pages()]
        except MetricsUnreadable as error:
            self._problem = str(error)
            return
        self._looks += 1
        self._peak("kv", _highest(pages, "vllm:kv_cache_usage_perc"))
        self._peak("running", _sum(pages, "vllm:num_requests_running"))
        self._peak("waiting", _sum(pages, "vllm:num_requests_waiting"))
        for name, metric in _COUNTERS.items():
            value = _sum(pages, metric)
            if value is not None:
                self._first.setdefault(name, value)
                self._last[name] = value

    def _peak(self, name: str, value: float | None) -> None:
        if value is not None:
            self._most[name] = max(value, self._most.get(name, value))


def _highest(pages: list[MetricsPage], metric: str) -> float | None:
    """Over every engine of every replica: one that is full preempts, whatever the others have free."""
    values = [one.value for page in pages for one in page.samples if one.name == metric]
    return max(values, default=None)


def _sum(pages: list[MetricsPage], metric: str) -> float | None:
    values = [value for page in pages if (value := page.total(metric)) is not None]
    return sum(values) if values else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
