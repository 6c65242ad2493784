"""How long the simulated AWS takes for each thing, in seconds of the simulated clock."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Durations:
    """Waiting times of the simulated control planes; the defaults are what users of EKS report.

    - `cluster_create_s`, `cluster_update_s`, `cluster_version_update_s`, `cluster_delete_s`: the control plane.
    - `node_group_create_s`: until a node group is ACTIVE; one that starts above 0 nodes also waits for them to join.
    - `node_group_update_s`, `node_group_version_update_s`, `node_group_delete_s`: changes of a node group.
    - `node_group_create_timeout_s`: after this a node group whose nodes did not join is CREATE_FAILED.
    - `addon_create_s`, `addon_update_s`, `addon_delete_s`: add-ons.
    - `instance_join_s`: from an instance's launch until its Kubernetes node is there.
    - `launch_retry_s`: how often an Auto Scaling group asks again for capacity that was refused.
    - `instance_replacement_s`: until an Auto Scaling group replaces an instance that was terminated by hand.
    """

    cluster_create_s: float = 540.0
    cluster_update_s: float = 60.0
    cluster_version_update_s: float = 600.0
    cluster_delete_s: float = 180.0
    node_group_create_s: float = 60.0
    node_group_create_timeout_s: float = 1500.0
    node_group_update_s: float = 5.0
    node_group_version_update_s: float = 60.0
    node_group_delete_s: float = 120.0
    addon_create_s: float = 30.0
    addon_update_s: float = 30.0
    addon_delete_s: float = 10.0
    instance_join_s: float = 240.0
    launch_retry_s: float = 60.0
    instance_replacement_s: float = 30.0

    @classmethod
    def instant(cls) -> "Durations":
        """No waiting at all, except between two requests for refused capacity (60 s) and for a timeout (1500 s)."""
        kept = {"launch_retry_s", "node_group_create_timeout_s"}
        return cls(**{field.name: 0.0 for field in fields(cls) if field.name not in kept})
