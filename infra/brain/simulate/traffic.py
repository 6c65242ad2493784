"""Traffic to replay: requests in each bucket of time, read from CSV or Prometheus JSON."""

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from infra.brain.history import BUCKET_S
from serving.errors import ConfigurationError, Fault

TICK_S = 60
_ACCEPTED = (
    "a CSV file with a header: `timestamp` alone (one line a request), `timestamp` and counts, `timestamp` and a "
    "column ending in _total (a counter), or `window_start_s` and mean requests a second; or Prometheus' answer to a "
    "range query as JSON"
)


@dataclass(frozen=True)
class Traffic:
    """Requests of one service.

    - `requests`: of each bucket, the first beginning at `start`.
    - `bucket_s`: seconds; a minute, or what the source has where that is coarser, at most ten minutes.
    """

    name: str
    start: datetime
    bucket_s: int
    requests: tuple[float, ...]

    @property
    def total(self) -> float:
        """All requests."""
        return sum(self.requests)

    @property
    def days(self) -> float:
        """Days that it spans."""
        return len(self.requests) * self.bucket_s / 86400


def read_traffic(path: Path) -> tuple[Traffic, ...]:
    """Every service in the file. ConfigurationError, with the line, where it cannot be read as traffic."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    found = _prometheus(text, path) if text.lstrip().startswith("{") else _csv(text, path)
    quiet = [one.name for one in found if one.total <= 0]
    if not found or len(quiet) == len(found):
        raise _refusal(path, "no request at all", "traffic with at least one request")
    return tuple(one for one in found if one.total > 0)


def _csv(text: str, path: Path) -> list[Traffic]:
    rows = [row for row in csv.reader(io.StringIO(text)) if row and any(cell.strip() for cell in row)]
    if len(rows) < 2:
        raise _refusal(path, f"{len(rows)} lines", _ACCEPTED)
    header = [cell.strip() for cell in rows[0]]
    if _time(header[0]) is not None:
        raise _refusal(path, f"a first line of values ({header[0]})", _ACCEPTED)
    times: list[float] = []
    values: list[list[float]] = [[] for _ in header[1:]]
    faults: list[Fault] = []
    for number, row in enumerate(rows[1:], start=2):
        at = _time(row[0])
        cells = [_number(cell) for cell in row[1:]]
        if at is None or len(row) != len(header) or any(cell is None for cell in cells):
            faults.append(Fault(f"{path.name} line {number}", ",".join(row)[:80], "a time and numbers of 0 or more"))
            continue
        times.append(at)
        for column, cell in zip(values, cells, strict=True):
            column.append(cell or 0.0)
    if faults:
        raise ConfigurationError(faults[:20], str(path))
    if len(header) == 1:
        return [_binned(path.stem, sorted(times), [1.0] * len(times), TICK_S)]
    _in_order(times, path)
    step_s = _step_s(times)
    found: list[Traffic] = []
    for name, column in zip(header[1:], values, strict=True):
        if name.endswith("_total"):
            found.append(_from_counter(name, times, column, step_s))
        else:
            scale = step_s if header[0] == "window_start_s" else 1.0
            found.append(_binned(name, times, [cell * scale for cell in column], step_s))
    return found


def _prometheus(text: str, path: Path) -> list[Traffic]:
    try:
        document = cast("dict[str, Any]", json.loads(text))
        series = document["data"]["result"] if "data" in document else document["result"]
        found: list[Traffic] = []
        for one in series:
            labels = cast("dict[str, str]", one.get("metric", {}))
            pairs = [(float(at), float(value)) for at, value in one["values"]]
            if len(pairs) < 2:
                continue
            times = [at for at, _ in pairs]
            name = labels.get("model_name") or labels.get("pod") or labels.get("__name__") or path.stem
            found.append(_from_counter(name, times, [value for _, value in pairs], _step_s(times)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _refusal(path, f"JSON that is no range query ({error})", _ACCEPTED) from error
    return found


def _from_counter(name: str, times: Sequence[float], values: Sequence[float], step_s: int) -> Traffic:
    """A counter's increases; it begins again at 0 when vLLM restarts."""
    grown = [later - earlier if later >= earlier else later for earlier, later in pairwise(values)]
    return _binned(name, times[:-1], grown, step_s)


def _binned(name: str, times: Sequence[float], requests: Sequence[float], step_s: int) -> Traffic:
    """Requests by bucket; what covers more than ten minutes is spread evenly over its time."""
    bucket_s = min(max(TICK_S, step_s), BUCKET_S)
    first = math.floor(times[0] / bucket_s) * bucket_s
    parts = max(1, round(step_s / bucket_s)) if step_s > bucket_s else 1
    counts = [0.0] * (int((times[-1] - first) // bucket_s) + parts)
    for at, value in zip(times, requests, strict=True):
        slot = int((at - first) // bucket_s)
        for part in range(parts):
            counts[slot + part] += value / parts
    return Traffic(name, datetime.fromtimestamp(first, UTC), bucket_s, tuple(counts))


def _step_s(times: Sequence[float]) -> int:
    steps = sorted(later - earlier for earlier, later in pairwise(times) if later > earlier)
    return max(1, round(steps[len(steps) // 2])) if steps else TICK_S


def _in_order(times: Sequence[float], path: Path) -> None:
    for number, (earlier, later) in enumerate(pairwise(times), start=3):
        if later <= earlier:
            raise _refusal(path, f"line {number} is not later than the line before", "lines in the order of time")
    if (times[-1] - times[0]) / TICK_S > 5_000_000:
        raise _refusal(path, f"{(times[-1] - times[0]) / 86400:,.0f} days", "at most 3,400 days")


def _time(text: str) -> float | None:
    number = _number(text)
    if number is not None:
        return number / 1000 if number > 1e11 else number
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _number(text: str) -> float | None:
    try:
        value = float(text.strip() or "0")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _refusal(path: Path, got: str, accepted: str) -> ConfigurationError:
    return ConfigurationError([Fault("--traffic", f"{path.name} with {got}", accepted)], "the command line")
