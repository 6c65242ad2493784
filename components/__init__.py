"""The reusable Pulumi components; every argument set is a TypedDict, so that other languages can host them."""

from components.capacity_events import CapacityEvents, CapacityEventsArgs
from components.cluster import Cluster, ClusterArgs
from components.cost_policy import CostPolicy, CostPolicyArgs
from components.fabric import Fabric, FabricArgs
from components.gpu_node_group import GpuNodeGroup, GpuNodeGroupArgs, Purchase
from components.hydrate_node_group import HydrateNodeGroup, HydrateNodeGroupArgs
from components.image_cache import ImageCache, ImageCacheArgs
from components.model_server import Candidate, ModelServer, ModelServerArgs
from components.network import Network, NetworkArgs
from components.vllm_service import VllmService, VllmServiceArgs
from components.weight_access import WeightAccess, WeightAccessArgs
from components.weight_hydration import WeightHydration, WeightHydrationArgs
from components.weight_store import WeightStore, WeightStoreArgs
from components.weight_volume import WeightVolume, WeightVolumeArgs

__all__ = [
    "Candidate",
    "CapacityEvents",
    "CapacityEventsArgs",
    "Cluster",
    "ClusterArgs",
    "CostPolicy",
    "CostPolicyArgs",
    "Fabric",
    "FabricArgs",
    "GpuNodeGroup",
    "GpuNodeGroupArgs",
    "HydrateNodeGroup",
    "HydrateNodeGroupArgs",
    "ImageCache",
    "ImageCacheArgs",
    "ModelServer",
    "ModelServerArgs",
    "Network",
    "NetworkArgs",
    "Purchase",
    "VllmService",
    "VllmServiceArgs",
    "WeightAccess",
    "WeightAccessArgs",
    "WeightHydration",
    "WeightHydrationArgs",
    "WeightStore",
    "WeightStoreArgs",
    "WeightVolume",
    "WeightVolumeArgs",
]
