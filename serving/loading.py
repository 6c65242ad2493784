"""How weights get from where they sleep into GPU memory: every path with its minutes, dollars and bottleneck.

A path is one or two steps (copy, then load), a step is as fast as the slowest thing in it. Rates come from
`data/loading.toml`, each with its two published ends; a choice is judged by the slow end, because a path that nobody
has measured on such a machine must still be cheaper when it disappoints.
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any

from serving.accelerators import InstanceShape
from serving.units import GB, MIB

_RAM_SHARE = 0.9
"""Above this share of the machine's memory vLLM warns that a prefetched checkpoint may not fit."""


class LoadingPath(StrEnum):
    """One way for the weights; in the order of how little can go wrong."""

    VOLUME = "volume"
    """The zone's own gp3 volume, mapped by every rank: vLLM's default."""
    VOLUME_PREFETCH = "volume-prefetch"
    """The same volume, whole files read ahead by parallel threads."""
    VOLUME_STREAMER = "volume-streamer"
    """The same volume through the Run:ai streamer, each rank a part."""
    CLONE = "snapshot-clone"
    """A volume made from a snapshot at the wake, without an initialisation rate."""
    CLONE_RATED = "snapshot-clone-rated"
    """The same with a provisioned initialisation rate."""
    S3_STREAMER = "s3-streamer"
    """The regional S3 copy straight into GPU memory; no volume."""
    NVME_COPY = "nvme-copy"
    """The volume copied in parallel to the node's NVMe array, then loaded from there."""
    NVME_COPY_S3 = "nvme-copy-s3"
    """The S3 copy brought to the node's NVMe array, then loaded from there."""


READS_S3 = frozenset({LoadingPath.S3_STREAMER, LoadingPath.NVME_COPY_S3})
READS_VOLUME = frozenset(
    {LoadingPath.VOLUME, LoadingPath.VOLUME_PREFETCH, LoadingPath.VOLUME_STREAMER, LoadingPath.NVME_COPY}
)
COPIES_TO_NVME = frozenset({LoadingPath.NVME_COPY, LoadingPath.NVME_COPY_S3})


@dataclass(frozen=True)
class S3Source:
    """The regional copy of the weights: `s3://bucket/prefix` of the model's folder, and the bucket's region."""

    uri: str
    region: str


@dataclass(frozen=True)
class Rate:
    """Bytes a second: the slow and fast ends that were seen, what is likely, and what it is a rate of."""

    name: str
    slow: float
    likely: float
    fast: float
    measured: bool = True
    source: str = ""


@dataclass(frozen=True)
class StoragePrices:
    """US dollars a month for one unit; None where no price is known. `s3_gb` is of 10^9 bytes, the others of GiB."""

    volume_gib: float | None
    volume_mib_per_s: float | None
    volume_iops: float | None
    snapshot_gib: float | None
    s3_gb: float | None


@dataclass(frozen=True)
class WeightStorage:
    """Where the weights sleep.

    - `size_gib`, `throughput_mib_per_s`: of each volume; `billed_mib_per_s` and `billed_iops` are what costs extra.
    - `volumes`: zones that keep one. `s3_copy`: whether a regional copy is kept.
    """

    size_gib: int
    throughput_mib_per_s: int
    billed_mib_per_s: int
    billed_iops: int
    volumes: int
    s3_copy: bool


@dataclass(frozen=True)
class LoadingEstimate:
    """One path for one model on one machine. Seconds are of the load alone, without the compile that follows.

    - `likely_s`, `fast_s`, `slow_s`: None where AWS publishes no rate.
    - `limited_by`: what holds it back, such as `volume`, `source` or `reader`.
    - `measured`: every rate that decides it was measured on eight GPUs with a model of this size.
    - `usd_per_wake`: the machine while it loads; None for want of a price or of a rate.
    - `usd_idle_per_month`: what it costs to have it; None for want of a price.
    - `needs`: why this environment cannot take it, as the end of "needs …"; empty where it can.
    """

    path: LoadingPath
    likely_s: float | None
    fast_s: float | None
    slow_s: float | None
    limited_by: str
    measured: bool
    usd_per_wake: float | None
    usd_idle_per_month: float | None
    needs: str
    source: str

    def usd_per_month(self, wakes_per_month: float, *, slow: bool = False) -> float | None:
        """Dollars a month at so many wakes; with `slow` as if every load took its slow end."""
        if self.usd_per_wake is None or self.usd_idle_per_month is None or not self.likely_s or self.slow_s is None:
            return None
        stretch = self.slow_s / self.likely_s if slow else 1.0
        return self.usd_idle_per_month + wakes_per_month * self.usd_per_wake * stretch


def compare_loading(
    weights_bytes: int,
    shape: InstanceShape,
    storage: WeightStorage,
    prices: StoragePrices,
    usd_per_hour: float | None,
) -> tuple[LoadingEstimate, ...]:
    """Every path, in `LoadingPath`'s order; `usd_per_hour` is the machine's price, None where unknown."""
    volume_idle = _sum(
        (prices.volume_gib, storage.size_gib * storage.volumes),
        (prices.volume_mib_per_s, storage.billed_mib_per_s * storage.volumes),
        (prices.volume_iops, storage.billed_iops * storage.volumes),
    )
    snapshot_idle = _sum((prices.snapshot_gib, weights_bytes / 2**30))
    s3_idle = _sum((prices.s3_gb, weights_bytes / GB))
    rates = {name: _rate(*name) for name in _NAMES}
    share = _document()["volume_share"]
    provisioned = storage.throughput_mib_per_s * MIB
    mapped = _volume(provisioned, share["mmap_slow"], math.sqrt(share["mmap_slow"] * share["mmap_fast"]), share)
    ordered = _volume(provisioned, share["ordered_slow"], share["ordered_likely"], share)
    bandwidth = shape.ebs_mb_per_s * 10**6
    instance = Rate("instance's EBS bandwidth", bandwidth, bandwidth, bandwidth)
    mmap, prefetch, streamer = (rates["reader", name] for name in ("mmap", "prefetch", "streamer"))
    s3, written, read = rates["source", "s3"], rates["disk", "nvme_write"], rates["disk", "nvme_read"]
    snapshot = _document()["snapshot"]
    first_read = snapshot["provisioned_mib_per_s"] * MIB
    initialised = Rate("snapshot's initialisation rate", first_read, first_read, first_read, True, snapshot["source"])

    no_volume = "" if storage.volumes else "a weight volume in the zone (weightsZones)"
    no_copy = "" if storage.s3_copy else "the regional copy in S3 (weightsS3Copy: true)"
    no_disk = "" if weights_bytes < shape.instance_store_gb * 10**9 else f"more NVMe than {shape.name} has"
    no_memory = (
        ""
        if weights_bytes < _RAM_SHARE * shape.memory_bytes
        else f"more memory than {shape.name} has, to read ahead the whole checkpoint"
    )

    def path(
        kind: LoadingPath, idle: float | None, *steps: Sequence[Rate], needs: Sequence[str] = ()
    ) -> LoadingEstimate:
        return _estimate(kind, weights_bytes, steps, usd_per_hour, idle, " and ".join(need for need in needs if need))

    clone = "a snapshot (dormouse weights clone)"
    return (
        path(LoadingPath.VOLUME, volume_idle, (mapped, instance, mmap), needs=(no_volume,)),
        path(LoadingPath.VOLUME_PREFETCH, volume_idle, (ordered, instance, prefetch), needs=(no_volume, no_memory)),
        path(LoadingPath.VOLUME_STREAMER, volume_idle, (ordered, instance, streamer), needs=(no_volume,)),
        LoadingEstimate(
            LoadingPath.CLONE, None, None, None, "snapshot, whose rate AWS does not publish", False, None,
            snapshot_idle, clone, snapshot["source"],
        ),
        path(LoadingPath.CLONE_RATED, snapshot_idle, (initialised, instance, mmap), needs=(clone,)),
        path(LoadingPath.S3_STREAMER, s3_idle, (s3, streamer), needs=(no_copy,)),
        path(
            LoadingPath.NVME_COPY, volume_idle, (ordered, instance, written), (read, mmap), needs=(no_volume, no_disk)
        ),
        path(LoadingPath.NVME_COPY_S3, s3_idle, (s3, written), (read, mmap), needs=(no_copy, no_disk)),
    )  # fmt: skip


def estimate_path(
    path: LoadingPath, weights_bytes: int, shape: InstanceShape, throughput_mib_per_s: int
) -> LoadingEstimate:
    """The estimate of one path without any price: what a start-up window needs."""
    storage = WeightStorage(0, throughput_mib_per_s, 0, 0, 1, s3_copy=True)
    found = compare_loading(weights_bytes, shape, storage, StoragePrices(None, None, None, None, None), None)
    return next(estimate for estimate in found if estimate.path is path)


def _estimate(
    path: LoadingPath,
    weights_bytes: int,
    steps: Sequence[Sequence[Rate]],
    usd_per_hour: float | None,
    idle: float | None,
    needs: str,
) -> LoadingEstimate:
    likely_s = sum(weights_bytes / min(rate.likely for rate in step) for step in steps)
    limits = [min(step, key=lambda rate: rate.likely) for step in steps]
    longest = max(limits, key=lambda rate: weights_bytes / rate.likely)
    sources = dict.fromkeys(rate.source for step in steps for rate in step if rate.source)
    return LoadingEstimate(
        path=path,
        likely_s=likely_s,
        fast_s=sum(weights_bytes / min(rate.fast for rate in step) for step in steps),
        slow_s=sum(weights_bytes / min(rate.slow for rate in step) for step in steps),
        limited_by=longest.name,
        measured=all(rate.measured for rate in limits),
        usd_per_wake=None if usd_per_hour is None else usd_per_hour * likely_s / 3600,
        usd_idle_per_month=idle,
        needs=needs,
        source="; ".join(sources),
    )


def _volume(provisioned: float, slow: float, likely: float, share: Mapping[str, Any]) -> Rate:
    return Rate("volume", provisioned * slow, provisioned * likely, provisioned, False, share["source"])


_NAMES = (
    ("reader", "mmap"),
    ("reader", "prefetch"),
    ("reader", "streamer"),
    ("source", "s3"),
    ("disk", "nvme_write"),
    ("disk", "nvme_read"),
)
_TITLES = {"mmap": "mapped reader", "prefetch": "mapped reader", "streamer": "streamer", "s3": "network from S3"}


def _rate(group: str, name: str) -> Rate:
    row = _document()[group][name]
    return Rate(
        name=_TITLES.get(name, "NVMe array"),
        slow=row["slow"],
        likely=math.sqrt(row["slow"] * row["fast"]),
        fast=row["fast"],
        measured=row["measured"],
        source=row["source"],
    )


def _sum(*parts: tuple[float | None, float]) -> float | None:
    total = 0.0
    for price, quantity in parts:
        if price is None:
            return None
        total += price * quantity
    return total


@cache
def _document() -> dict[str, Any]:
    text = (resources.files("serving") / "data" / "loading.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
