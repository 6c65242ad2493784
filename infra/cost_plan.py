"""What an environment costs by the hour awake, by the day asleep and by the month, with every price's origin."""

from collections.abc import Sequence
from dataclasses import dataclass

from components.weight_volume import IOPS_RANGE, THROUGHPUT_RANGE
from infra.environment import Environment
from infra.pricing import HOURS_PER_MONTH, Price, find_price, machine_price
from serving.units import GB

SYSTEM_INSTANCE_TYPE = "t4g.medium"
SYSTEM_DISK_GIB = 20


@dataclass(frozen=True)
class CostItem:
    """One thing that is billed as long as the environment exists, asleep or awake.

    - `quantity`: how many units of `price`, or None with it where the price is unknown.
    """

    name: str
    key: str
    quantity: float
    price: Price | None

    @property
    def usd_per_month(self) -> float | None:
        """Dollars a month, or None where the price is unknown."""
        return None if self.price is None else self.price.usd_per_month * self.quantity


@dataclass(frozen=True)
class MachineCost:
    """The hourly price of one candidate's machines, or None where no price is published.

    - `nodes`: machines that one replica takes.
    """

    candidate: str
    key: str
    prepaid: bool
    price: Price | None
    nodes: int = 1

    @property
    def usd_per_hour(self) -> float | None:
        """Dollars an hour for one replica, or None."""
        return None if self.price is None else self.price.usd * self.nodes


@dataclass(frozen=True)
class CostPlan:
    """All of it. A sum is None as soon as one of its prices is unknown.

    - `replicas`: how many run when all are awake; sums by the month count all of them.
    - `raised`: what the volumes of all replicas cost more while awake, each as if for a whole month.
    """

    machines: tuple[MachineCost, ...]
    asleep: tuple[CostItem, ...]
    awake_hours_per_month: float
    replicas: int = 1
    raised: tuple[CostItem, ...] = ()

    @property
    def asleep_usd_per_month(self) -> float | None:
        """Dollars a month with the GPUs away."""
        total = 0.0
        for item in self.asleep:
            if item.usd_per_month is None:
                return None
            total += item.usd_per_month
        return total

    @property
    def asleep_usd_per_day(self) -> float | None:
        """Dollars a day with the GPUs away."""
        month = self.asleep_usd_per_month
        return None if month is None else month * 24 / HOURS_PER_MONTH

    def month_usd(self, machine: MachineCost) -> float | None:
        """Dollars a month when every replica runs on `machine` for the timetable's hours, asleep costs included."""
        return self._usd(machine, self.awake_hours_per_month)

    def always_on_usd(self, machine: MachineCost) -> float | None:
        """Dollars a month when every replica runs on `machine` and never sleeps."""
        return self._usd(machine, HOURS_PER_MONTH)

    @property
    def raised_usd_per_hour(self) -> float | None:
        """Dollars an hour that raised volumes cost more than asleep, or None for want of a price."""
        months = [item.usd_per_month for item in self.raised]
        known = [month for month in months if month is not None]
        return sum(known) / HOURS_PER_MONTH if len(known) == len(months) else None

    def _usd(self, machine: MachineCost, awake_hours: float) -> float | None:
        asleep, raised = self.asleep_usd_per_month, self.raised_usd_per_hour
        if asleep is None or raised is None or machine.usd_per_hour is None:
            return None
        return asleep + (machine.usd_per_hour * self.replicas + raised) * awake_hours


def plan_cost(environment: Environment, slots: Sequence[str]) -> CostPlan:
    """The cost plan; `slots` names the candidates in their order. It is total: an unknown price stays unknown."""
    region = environment.region
    machines = tuple(
        MachineCost(
            candidate=slot,
            key=f"ec2.{environment.shape.name}.{candidate.purchase.value}",
            prepaid=candidate.reservation_id is not None,
            price=machine_price(environment.shape.name, candidate.purchase.value, region),
            nodes=environment.replicas.nodes,
        )
        for slot, candidate in zip(slots, environment.candidates, strict=True)
    )
    zones = len(environment.weights.zones)
    kept = zones * environment.replicas.machines
    weights = environment.weights

    def item(name: str, key: str, quantity: float) -> CostItem:
        return CostItem(name, key, quantity, find_price(key, region))

    volumes = "weight volume" if zones == 1 else f"weight volumes in {zones} zones"
    if environment.replicas.machines > 1:
        volumes = f"{kept} {'weight volumes' if zones == 1 else volumes}"
    items = [
        item("EKS control plane", "eks.cluster.standard-support", 1),
        item("system node", f"ec2.{SYSTEM_INSTANCE_TYPE}.on-demand", 1),
        item("system node's disk", "ebs.gp3.gib-month", SYSTEM_DISK_GIB),
        item("NAT gateway", "nat.gateway", 1),
        item("NAT gateway's address", "public-ipv4.address", 1),
        item("key of Kubernetes secrets", "kms.key-month", 1),
        item(f"{volumes}: {weights.size_gib} GiB", "ebs.gp3.gib-month", kept * weights.size_gib),
    ]
    # EBS counts throughput above 125 MiB/s and operations above 3,000.
    extra_rate = weights.asleep_mib_per_s - THROUGHPUT_RANGE[0]
    extra_iops = weights.asleep_iops - IOPS_RANGE[0]
    if extra_rate:
        items.append(item(f"{volumes}: {weights.asleep_mib_per_s} MiB/s", "ebs.gp3.mib-per-s-month", kept * extra_rate))
    if extra_iops:
        items.append(item(f"{volumes}: {weights.asleep_iops} IOPS", "ebs.gp3.iops-month", kept * extra_iops))
    raised: list[CostItem] = []
    if weights.asleep_mib_per_s != weights.throughput_mib_per_s:
        awake = environment.replicas.machines
        more = (weights.throughput_mib_per_s - weights.asleep_mib_per_s, weights.iops - weights.asleep_iops)
        raised = [
            item("raised throughput", "ebs.gp3.mib-per-s-month", awake * more[0]),
            item("raised IOPS", "ebs.gp3.iops-month", awake * more[1]),
        ]
    if weights.s3_copy:
        copied_gb = environment.model.published_weights_bytes / GB
        items.append(item(f"copy of the weights in S3: {copied_gb:,.0f} GB", "s3.standard.gb-month", copied_gb))
    hours = environment.cost.timetable.hours_per_month
    return CostPlan(machines, tuple(items), hours, environment.replicas.count, tuple(raised))
