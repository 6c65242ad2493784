"""An environment's loading paths with its prices, and the one that it takes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.weight_volume import IOPS_RANGE, THROUGHPUT_RANGE
from infra.pricing import find_price, machine_price
from serving.image_pull import pull_estimates
from serving.loading import LoadingEstimate, StoragePrices, WeightStorage, compare_loading
from serving.loading_choice import LoadingChoice, choose_loading

if TYPE_CHECKING:
    from infra.environment import Environment


@dataclass(frozen=True)
class LoadingPlan:
    """Every path, the one that is taken, and what its dollars were counted with.

    - `usd_per_hour`: one replica's machines at the first candidate that has a price; None without any. `priced_as`: its key.
    """

    estimates: tuple[LoadingEstimate, ...]
    choice: LoadingChoice
    wakes_per_month: float
    wakes_from: str
    usd_per_hour: float | None
    priced_as: str
    parallel_pull: bool

    def to_mapping(self) -> dict[str, Any]:
        """The comparison as plain JSON, in camelCase; what nobody knows is null."""
        return {
            "path": self.choice.path.value,
            "reason": self.choice.reason,
            "wakesPerMonth": round(self.wakes_per_month, 1),
            "usdPerHour": self.usd_per_hour,
            "paths": [
                {
                    "path": one.path.value,
                    "available": not one.needs,
                    "needs": one.needs or None,
                    "likelyS": _whole(one.likely_s),
                    "fastS": _whole(one.fast_s),
                    "slowS": _whole(one.slow_s),
                    "limitedBy": one.limited_by,
                    "measured": one.measured,
                    "usdPerWake": _cents(one.usd_per_wake),
                    "usdIdlePerMonth": _cents(one.usd_idle_per_month),
                    "usdPerMonth": _cents(one.usd_per_month(self.wakes_per_month)),
                    "source": one.source,
                }
                for one in self.estimates
            ],
            "imagePull": [
                {
                    "way": one.way,
                    "inUse": one.in_use,
                    "savesLowS": _whole(one.saves_low_s),
                    "savesHighS": _whole(one.saves_high_s),
                    "source": one.source,
                }
                for one in pull_estimates(self.usd_per_hour, parallel=self.parallel_pull)
            ],
        }


def storage_of(
    size_gib: int, throughput_mib_per_s: int, asleep: tuple[int, int], zones: int, *, s3_copy: bool
) -> WeightStorage:
    """The storage with what EBS counts extra while `asleep` (MiB/s, IOPS): above 125 MiB/s and above 3,000 IOPS."""
    return WeightStorage(
        size_gib,
        throughput_mib_per_s,
        asleep[0] - THROUGHPUT_RANGE[0],
        asleep[1] - IOPS_RANGE[0],
        zones,
        s3_copy,
    )


def plan_loading(environment: "Environment") -> LoadingPlan:
    """The comparison for `environment` and its choice; raises ConfigurationError where the choice cannot be had."""
    region, settings = environment.region, environment.loading

    def price(key: str) -> float | None:
        found = find_price(key, region)
        return None if found is None else found.usd

    prices = StoragePrices(
        volume_gib=price("ebs.gp3.gib-month"),
        volume_mib_per_s=price("ebs.gp3.mib-per-s-month"),
        volume_iops=price("ebs.gp3.iops-month"),
        snapshot_gib=price("ebs.snapshot.gib-month"),
        s3_gb=price("s3.standard.gb-month"),
    )
    keys = dict.fromkeys(candidate.purchase.value for candidate in environment.candidates)
    known = [(key, found) for key in keys if (found := machine_price(environment.shape.name, key, region)) is not None]
    usd_per_hour = known[0][1].usd * environment.replicas.nodes if known else None
    estimates = compare_loading(
        environment.model.published_weights_bytes, environment.shape, environment.storage, prices, usd_per_hour
    )
    return LoadingPlan(
        estimates,
        choose_loading(estimates, settings.wanted, settings.wakes_per_month, settings.wanted_by),
        settings.wakes_per_month,
        settings.wakes_from,
        usd_per_hour,
        known[0][0] if known else "",
        settings.parallel_pull,
    )


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds)


def _cents(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 2)
