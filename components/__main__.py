"""The plugin's entry: hosts the components for programs in any Pulumi language."""

from pulumi.provider.experimental import component_provider_host

from components import (
    CapacityEvents,
    Cluster,
    CostPolicy,
    Fabric,
    GpuNodeGroup,
    HydrateNodeGroup,
    ImageCache,
    ModelServer,
    Network,
    VllmService,
    WeightAccess,
    WeightHydration,
    WeightStore,
    WeightVolume,
)

if __name__ == "__main__":
    component_provider_host(
        [
            CapacityEvents,
            Cluster,
            CostPolicy,
            Fabric,
            GpuNodeGroup,
            HydrateNodeGroup,
            ImageCache,
            ModelServer,
            Network,
            VllmService,
            WeightAccess,
            WeightHydration,
            WeightStore,
            WeightVolume,
        ],
        "dormouse",
    )
