"""How many replicas there are and how many machines each takes: the two keys, read and checked together."""

from dataclasses import dataclass

from infra.configuration import ConfigurationReader
from serving.accelerators import InstanceShape, instance_shapes
from serving.manifests.place import MOST_NODES, MOST_REPLICAS


@dataclass(frozen=True)
class ReplicaSettings:
    """`count` replicas of the model, each on `nodes` machines of one zone that work as one."""

    count: int
    nodes: int

    @property
    def machines(self) -> int:
        """Machines when everything is awake; each has a weight volume in every zone."""
        return self.count * self.nodes


def read_replicas(read: ConfigurationReader, shape: InstanceShape) -> ReplicaSettings:
    """The `replicas` and `nodesPerReplica` keys; faults go to `read`."""
    count = read.whole_number("replicas", 1, MOST_REPLICAS, 1)
    nodes = read.whole_number("nodesPerReplica", 1, MOST_NODES, 1, "machines")
    if nodes > 1 and not shape.efa_cards:
        able = ", ".join(one.name for one in instance_shapes().values() if one.efa_cards)
        read.fault(
            "nodesPerReplica",
            f"{nodes} with {shape.name}, whose Elastic Fabric Adapters are not on record",
            f"1, or one of {able}",
        )
    return ReplicaSettings(count, nodes)
