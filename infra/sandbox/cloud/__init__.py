"""The simulated AWS: moto, with what EKS, Auto Scaling, EC2 and Budgets do in AWS and moto does not.

Within one process: `install(clock)`, then boto3 under moto's `mock_aws`. For other processes too:
`infra.sandbox.cloud.server.CloudServer(clock)`.

It reaches into moto's own classes, so moto is pinned to one version.
"""

from infra.clock import Clock
from infra.sandbox.cloud.capacity import CapacityBlock, CapacityBook, CapacityRule
from infra.sandbox.cloud.durations import Durations
from infra.sandbox.cloud.simulation import KubernetesEndpoint, Simulation, set_current

__all__ = [
    "CapacityBlock",
    "CapacityBook",
    "CapacityRule",
    "Durations",
    "KubernetesEndpoint",
    "Simulation",
    "install",
]


def install(clock: Clock, durations: Durations | None = None) -> Simulation:
    """Make this process's moto the simulated AWS and return its controls.

    A later call starts a new simulation (new clock, waiting times, capacity) over moto's state as it is; reset moto,
    or leave its `mock_aws`, for an empty cloud.

    - `clock`: every status, launch and time stamp follows it.
    - `durations`: None is AWS's usual ones.
    """
    # moto costs half a second to import; whoever only wants the types above does not pay it.
    from infra.sandbox.cloud import patches

    simulation = Simulation(clock, durations or Durations())
    patches.install(simulation)
    set_current(simulation)
    return simulation
