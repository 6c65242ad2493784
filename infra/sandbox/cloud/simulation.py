"""The one simulated cloud of this process: its clock, its waiting times, what it sells, where its Kubernetes answers."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import RLock

from infra.clock import Clock
from infra.sandbox.cloud.capacity import CapacityBook
from infra.sandbox.cloud.durations import Durations
from serving.errors import DormouseError


@dataclass
class KubernetesEndpoint:
    """What DescribeCluster answers for every ACTIVE cluster; None leaves EKS's usual, unreachable address.

    - `endpoint`: the API server's URL.
    - `certificate_authority_data`: its CA as base64 of PEM, or None where the URL needs none.
    """

    endpoint: str | None = None
    certificate_authority_data: str | None = None


class Simulation:
    """Everything that the simulated services share beside moto's own state."""

    def __init__(self, clock: Clock, durations: Durations) -> None:
        """Start with capacity for everything and no Kubernetes endpoint."""
        self.clock = clock
        self.durations = durations
        self.capacity = CapacityBook()
        self.kubernetes = KubernetesEndpoint()
        # One request at a time: moto's models are not made for several threads.
        self.lock = RLock()
        self._steps: list[Callable[[str, str, float], None]] = []

    def now_s(self) -> float:
        """The simulated time in seconds since 1970."""
        return self.clock.now().timestamp()

    def now_naive(self) -> datetime:
        """The simulated time as moto keeps times: UTC without a time zone."""
        return self.clock.now().astimezone(UTC).replace(tzinfo=None)

    def on_settle(self, step: Callable[[str, str, float], None]) -> None:
        """Have `step(account_id, region, now_s)` called before every request, to carry out what has fallen due."""
        self._steps.append(step)

    def settle(self, account_id: str, region: str) -> None:
        """Carry out everything that fell due up to now, each with the time at which it fell due."""
        now_s = self.now_s()
        for step in self._steps:
            step(account_id, region, now_s)


# A list, so that replacing its one element needs no global statement.
_installed: list[Simulation] = []


def set_current(simulation: Simulation) -> None:
    """Make `simulation` the one that this process's patched moto follows."""
    _installed[:] = [simulation]


def current() -> Simulation:
    """The simulation that was installed last; raises DormouseError before the first `install`."""
    if not _installed:
        raise DormouseError("no simulated cloud in this process; call infra.sandbox.cloud.install(clock) first")
    return _installed[0]


def utc(seconds: float) -> datetime:
    """Seconds since 1970 as an aware time."""
    return datetime.fromtimestamp(seconds, UTC)
