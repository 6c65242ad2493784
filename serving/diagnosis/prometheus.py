"""A Prometheus text page as sums: each metric over every engine, with the labels that are asked for."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Sample:
    """One line of the page."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class MetricsPage:
    """A page's samples; lines that are none are left out."""

    samples: tuple[Sample, ...]

    def total(self, name: str, **labels: str) -> float | None:
        """The sum over every sample of that name and those labels; None where there is none."""
        values = [
            one.value
            for one in self.samples
            if one.name == name and all(one.labels.get(key) == value for key, value in labels.items())
        ]
        return sum(values) if values else None

    def mean(self, histogram: str) -> float | None:
        """The mean of a histogram since the server started; None before its first observation."""
        count, total = self.total(f"{histogram}_count"), self.total(f"{histogram}_sum")
        return total / count if count and total is not None else None


def read_metrics(page: str) -> MetricsPage:
    """The page's samples."""
    return MetricsPage(tuple(_samples(page)))


def _samples(page: str) -> Iterator[Sample]:
    for line in page.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        name, brace, rest = line.partition("{")
        labels, _, value = rest.rpartition("}") if brace else ("", "", line.partition(" ")[2])
        try:
            # A sample may carry a time stamp after its value.
            number = float(value.split()[0])
        except (ValueError, IndexError):
            continue
        if math.isfinite(number):
            yield Sample(name.split(" ", 1)[0], dict(_LABEL.findall(labels)), number)
