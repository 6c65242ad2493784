"""Where one Deployment of a model server stands: its replica, its machine's rank in it, and the names that follow."""

from dataclasses import dataclass

from serving.engine.arguments import Node
from serving.manifests.labels import PLACE_LABEL, REPLICA_LABEL, ZONE_LABEL

MOST_REPLICAS = 16
MOST_NODES = 4


@dataclass(frozen=True)
class Place:
    """One machine of one replica.

    - `replica`: the replica's number, from 0. `apart`: whether nodes are kept for one replica each, as soon as there
      are several.
    - `rank`: the machine's number in its replica, from 0; the first one answers callers.
    - `first_name`: the headless Service that leads to the first machine's pod; needed where there are several.
    """

    replica: int = 0
    apart: bool = False
    rank: int = 0
    first_name: str = ""

    @property
    def suffix(self) -> str:
        """The end of its names."""
        return place_suffix(self.replica, self.rank)

    @property
    def node(self) -> Node:
        """What vLLM is told; the first machine knows itself by its own pod's address, which needs no name service."""
        return Node(self.rank, self.first_name if self.rank else "$(VLLM_HOST_IP)")

    def labels(self, zone: str) -> dict[str, str]:
        """The labels that tell this Deployment's pods in `zone` from those of its neighbours."""
        if not self.replica and not self.rank:
            return {ZONE_LABEL: zone}
        return {PLACE_LABEL: zone + self.suffix}

    @property
    def node_labels(self) -> dict[str, str]:
        """Node labels that its pods select, beside the pool."""
        return {REPLICA_LABEL: str(self.replica)} if self.apart else {}


def place_suffix(replica: int, rank: int = 0) -> str:
    """The end of every name that belongs to one machine of one replica; empty for the first of the first."""
    return (f"-r{replica}" if replica else "") + (f"-node{rank}" if rank else "")
