"""What the brain remembers between two looks: traffic, money, counters. A few kilobytes in a ConfigMap of the cluster."""

import json
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from infra.brain.history import History
from infra.jobs.kubernetes_api import KubernetesApi, NotFound

NAME = "dormouse-brain"
# A ConfigMap takes a mebibyte; this is far from it, and small enough to read each minute.
MAXIMUM_BYTES = 32 * 1024


@dataclass(frozen=True)
class Memory:
    """What is kept.

    - `looked_at`: the last look. `month`: of `spent_usd`, such as `2026-12` (UTC, as AWS bills).
    - `unpriced`: whether a machine ran this month whose price nobody publishes, so that `spent_usd` is too little.
    - `finished`: by pod, how many requests it had finished and in hand at the last look.
    - `last_activity`: when a request was last seen. `answered_wish`: the wake request that was met last.
    - `refused_until`: by candidate, before when it is not tried again.
    """

    looked_at: datetime | None = None
    month: str = ""
    spent_usd: float = 0.0
    unpriced: bool = False
    finished: dict[str, float] = field(default_factory=dict[str, float])
    last_activity: datetime | None = None
    answered_wish: datetime | None = None
    refused_until: dict[str, datetime] = field(default_factory=dict[str, datetime])


@dataclass
class Remembered:
    """The memory and the history as they were read, with the version that a writing must still find."""

    memory: Memory
    history: History
    version: str | None


def recall(api: KubernetesApi, namespace: str, zone: str) -> Remembered:
    """What the last look left; nothing where there was none or it cannot be understood. Raises KubernetesError."""
    try:
        found = api.get(_path(namespace))
    except NotFound:
        return Remembered(Memory(), History(zone), None)
    version = str(cast("dict[str, Any]", found["metadata"])["resourceVersion"])
    data = cast("dict[str, str]", found.get("data") or {})
    return Remembered(_memory(data.get("memory", "")), _history(data.get("history", ""), zone), version)


def remember(api: KubernetesApi, namespace: str, kept: Remembered) -> None:
    """Write it back. Raises Conflict where another brain wrote meanwhile, whose look then counts; KubernetesError else."""
    data = {"memory": memory_text(kept.memory), "history": kept.history.to_json()}
    metadata: dict[str, Any] = {"name": NAME, "labels": {"app.kubernetes.io/managed-by": "dormouse"}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    if kept.version is None:
        api.create(f"/api/v1/namespaces/{namespace}/configmaps", body)
    else:
        metadata["resourceVersion"] = kept.version
        api.replace(_path(namespace), body)


def memory_text(memory: Memory) -> str:
    """The memory as JSON; `_memory` reads it back."""
    return json.dumps(
        asdict(memory), default=lambda value: value.isoformat() if isinstance(value, datetime) else str(value)
    )


def spend(memory: Memory, now: datetime, running: list[tuple[datetime, float | None]]) -> Memory:
    """The memory with the money of the time since the last look added.

    - `running`: of each machine that is billed now, since when it runs and its dollars an hour, None where unknown.

    A machine that came and went between two looks is not seen; AWS's own bill has it. A new month begins at 0.
    """
    now = now.astimezone(UTC)
    month = f"{now:%Y-%m}"
    begins = datetime(now.year, now.month, 1, tzinfo=UTC)
    spent_usd = memory.spent_usd if memory.month == month else 0.0
    unpriced = memory.unpriced and memory.month == month
    since = max(memory.looked_at or begins, begins)
    for launched_at, usd_per_hour in running:
        seconds = (now - max(since, launched_at)).total_seconds()
        spent_usd += (usd_per_hour or 0.0) * max(0.0, seconds) / 3600
        unpriced = unpriced or usd_per_hour is None
    return replace(memory, looked_at=now, month=month, spent_usd=spent_usd, unpriced=unpriced)


def _memory(text: str) -> Memory:
    try:
        given = cast("dict[str, Any]", json.loads(text))
        return Memory(
            _instant(given["looked_at"]),
            str(given["month"]),
            float(given["spent_usd"]),
            bool(given["unpriced"]),
            {str(pod): float(count) for pod, count in given["finished"].items()},
            _instant(given["last_activity"]),
            _instant(given["answered_wish"]),
            {str(slot): datetime.fromisoformat(until) for slot, until in given["refused_until"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return Memory()


def _history(text: str, zone: str) -> History:
    try:
        return History.from_json(text)
    except (ValueError, KeyError, TypeError):
        return History(zone)


def _instant(text: object) -> datetime | None:
    return None if text is None else datetime.fromisoformat(str(text))


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{NAME}"
