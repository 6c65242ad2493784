"""A person's wish for faster or cheaper volumes."""

from components.weight_volume import THROUGHPUT_RANGE, iops_for
from infra.clock import Clock
from infra.jobs.clients import Clients
from infra.jobs.weights.places import read_places
from infra.jobs.weights.throughput import Change, require_changed, set_throughput
from infra.jobs.weights.volumes import read_volume
from infra.outputs import StackOutputs
from serving.errors import ConfigurationError, Fault


def change_speed(
    outputs: StackOutputs, clients: Clients, clock: Clock, direction: str, mib_per_s: int, zone: str | None = None
) -> tuple[Change, ...]:
    """Set every volume's throughput, or that of one zone; `direction` (up, down) guards against a slip.

    Raises ConfigurationError for a wrong number or the wrong way, JobError where EBS's limits forbid a change now.
    """
    low, high = THROUGHPUT_RANGE
    if not low <= mib_per_s <= high:
        raise ConfigurationError([Fault("MIBPS", str(mib_per_s), f"{low} to {high:,} MiB/s")], "the command line")
    places = read_places(outputs, clients, zone)
    faults: list[Fault] = []
    for place in places:
        now = read_volume(clients, place.volume_id).throughput_mib_per_s
        if (direction == "up" and mib_per_s < now) or (direction == "down" and mib_per_s > now):
            wanted = f"more than {now}" if direction == "up" else f"less than {now}"
            faults.append(Fault(f"speed {direction}", f"{mib_per_s} MiB/s", f"{wanted}, which {place.volume_id} has"))
    if faults:
        raise ConfigurationError(faults, "the command line")
    iops = iops_for(mib_per_s)
    if outputs.volume_iops > iops_for(outputs.volume_mib_per_s):
        # Somebody has asked for more than the throughput needs (weightsIops).
        iops = max(iops, outputs.volume_iops)
    return tuple(require_changed(set_throughput(clients, clock, place.volume_id, mib_per_s, iops)) for place in places)
