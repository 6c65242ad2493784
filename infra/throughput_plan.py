"""A volume's throughput as money: high always, or high only while awake; what each saves and what it may cost."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.weight_volume import CHANGES_PER_DAY, THROUGHPUT_RANGE, iops_for
from infra.pricing import HOURS_PER_MONTH, find_price
from serving.loading import READS_VOLUME, LoadingPath, estimate_path

if TYPE_CHECKING:
    from infra.environment import Environment
    from infra.loading_plan import LoadingPlan

_CHANGES_PER_WAKE = 2
_DAYS_PER_MONTH = HOURS_PER_MONTH / 24


@dataclass(frozen=True)
class ThroughputPlan:
    """The arithmetic for one environment. Where the asleep rate is not set, it is that of gp3's included 125 MiB/s.

    - `path`: how the weights are loaded; `reads_volume`: whether the volume's throughput matters to it.
    - `set`: whether jobs change the throughput.
    - `volumes`: all that are kept; `raised`: those that are raised when every replica is awake.
    - `load_s`, `slow_load_s`: a load at the awake and at the asleep rate.
    - `extra_usd_per_month`: what one volume costs more at the awake rate, None for want of a price.
    - `usd_per_hour`: the machines of one replica, None likewise.
    """

    path: LoadingPath
    reads_volume: bool
    set: bool
    awake_mib_per_s: int
    awake_iops: int
    asleep_mib_per_s: int
    asleep_iops: int
    volumes: int
    raised: int
    load_s: float
    slow_load_s: float
    extra_usd_per_month: float | None
    usd_per_hour: float | None
    replicas: int
    wakes_per_month: float
    awake_hours_per_month: float

    @property
    def saved_s(self) -> float:
        """Seconds of a wake that the awake rate saves."""
        return self.slow_load_s - self.load_s

    @property
    def saved_usd_per_wake(self) -> float | None:
        """What a replica's machines would cost for those seconds."""
        return None if self.usd_per_hour is None else self.usd_per_hour * self.saved_s / 3600

    @property
    def always_usd_per_month(self) -> float | None:
        """What the awake rate costs where every volume always has it."""
        return None if self.extra_usd_per_month is None else self.extra_usd_per_month * self.volumes

    @property
    def changing_usd_per_month(self) -> float | None:
        """What it costs where only volumes in use have it, and only while awake."""
        if self.extra_usd_per_month is None:
            return None
        return self.extra_usd_per_month * self.raised * self.awake_hours_per_month / HOURS_PER_MONTH

    @property
    def saving_usd_per_month(self) -> float | None:
        """What changing saves, before any wake that is slower for it."""
        always, changing = self.always_usd_per_month, self.changing_usd_per_month
        return None if always is None or changing is None else always - changing

    @property
    def late_wakes_per_month(self) -> float:
        """Wakes of one volume that EBS's limit leaves at the asleep rate: beyond two in 24 hours."""
        return max(0.0, self.wakes_per_month - CHANGES_PER_DAY / _CHANGES_PER_WAKE * _DAYS_PER_MONTH)

    @property
    def net_usd_per_month(self) -> float | None:
        """What changing saves after those wakes; below 0 it costs more than it saves."""
        saving, wake = self.saving_usd_per_month, self.saved_usd_per_wake
        if saving is None or wake is None:
            return None
        return saving - self.late_wakes_per_month * self.replicas * wake

    @property
    def affordable_late_wakes(self) -> float | None:
        """Wakes a month of all replicas that may load at the asleep rate before changing costs more than it saves."""
        saving, wake = self.saving_usd_per_month, self.saved_usd_per_wake
        return None if saving is None or not wake else max(0.0, saving / wake)

    @property
    def pays(self) -> bool | None:
        """Whether changing saves money if EBS is in time for every wake that it lets raise; None for want of a price."""
        return None if self.net_usd_per_month is None else self.net_usd_per_month > 0

    def to_mapping(self) -> dict[str, Any]:
        """The arithmetic as plain JSON, in camelCase; what nobody knows is null."""
        return {
            "set": self.set,
            "readsVolume": self.reads_volume,
            "awakeMibps": self.awake_mib_per_s,
            "asleepMibps": self.asleep_mib_per_s,
            "volumes": self.volumes,
            "savedSPerWake": round(self.saved_s),
            "savedUsdPerWake": _cents(self.saved_usd_per_wake),
            "alwaysUsdPerMonth": _cents(self.always_usd_per_month),
            "changingUsdPerMonth": _cents(self.changing_usd_per_month),
            "savingUsdPerMonth": _cents(self.saving_usd_per_month),
            "wakesPerMonth": round(self.wakes_per_month, 1),
            "wakesBeyondLimitPerMonth": round(self.late_wakes_per_month, 1),
            "netUsdPerMonth": _cents(self.net_usd_per_month),
            "affordableLateWakesPerMonth": _cents(self.affordable_late_wakes),
            "pays": self.pays,
        }


def plan_throughput(environment: "Environment", loading: "LoadingPlan") -> ThroughputPlan:
    """The arithmetic for `environment` with the path, the price and the wakes of `loading`. It is total."""
    weights, region, path = environment.weights, environment.region, loading.choice.path
    changes = weights.asleep_mib_per_s != weights.throughput_mib_per_s
    asleep = weights.asleep_mib_per_s if changes else THROUGHPUT_RANGE[0]
    asleep_iops = iops_for(asleep)

    def load_s(mib_per_s: int) -> float:
        estimate = estimate_path(path, environment.model.published_weights_bytes, environment.shape, mib_per_s)
        return estimate.likely_s or 0.0

    rate, iops = (find_price(f"ebs.gp3.{unit}-month", region) for unit in ("mib-per-s", "iops"))
    extra = None
    if rate is not None and iops is not None:
        extra = (weights.throughput_mib_per_s - asleep) * rate.usd + (weights.iops - asleep_iops) * iops.usd
    return ThroughputPlan(
        path=path,
        reads_volume=path in READS_VOLUME,
        set=changes,
        awake_mib_per_s=weights.throughput_mib_per_s,
        awake_iops=weights.iops,
        asleep_mib_per_s=asleep,
        asleep_iops=asleep_iops,
        volumes=len(weights.zones) * environment.replicas.machines,
        raised=environment.replicas.machines,
        load_s=load_s(weights.throughput_mib_per_s),
        slow_load_s=load_s(asleep),
        extra_usd_per_month=extra,
        usd_per_hour=loading.usd_per_hour,
        replicas=environment.replicas.count,
        wakes_per_month=loading.wakes_per_month,
        awake_hours_per_month=environment.cost.timetable.hours_per_month,
    )


def _cents(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 2)
