"""The reusable Pulumi components; every argument set is a TypedDict, so that other languages can host them."""

from components.cluster import Cluster, ClusterArgs
from components.cost_policy import CostPolicy, CostPolicyArgs
from components.gpu_node_group import GpuNodeGroup, GpuNodeGroupArgs, Purchase
from components.model_server import Candidate, ModelServer, ModelServerArgs
from components.network import Network, NetworkArgs
from components.vllm_service import VllmService, VllmServiceArgs
from components.weight_volume import WeightVolume, WeightVolumeArgs

__all__ = [
    "Candidate",
    "Cluster",
    "ClusterArgs",
    "CostPolicy",
    "CostPolicyArgs",
    "GpuNodeGroup",
    "GpuNodeGroupArgs",
    "ModelServer",
    "ModelServerArgs",
    "Network",
    "NetworkArgs",
    "Purchase",
    "VllmService",
    "VllmServiceArgs",
    "WeightVolume",
    "WeightVolumeArgs",
]
