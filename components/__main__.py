"""The plugin's entry: hosts the components for programs in any Pulumi language."""

from pulumi.provider.experimental import component_provider_host

from components import Cluster, CostPolicy, GpuNodeGroup, ModelServer, Network, VllmService, WeightVolume

if __name__ == "__main__":
    component_provider_host(
        [Cluster, CostPolicy, GpuNodeGroup, ModelServer, Network, VllmService, WeightVolume], "dormouse"
    )
