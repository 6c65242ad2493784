"""The Kubernetes nodes that a simulated cluster's instances would be, read over boto3 alone.

It needs nothing but the two clients, so a Kubernetes stand-in in another process can call it.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, cast

NEVER_JOINS_TAG = "sandbox:never-joins"
"""The tag of a simulated instance whose Kubernetes node is made never to appear."""

_TAINT_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_GIB = 1024**3
# EKS's images: 110 pods up to 30 vCPU, 250 above.
_MOST_PODS, _MOST_PODS_LARGE, _LARGE_VCPUS = 110, 250, 30
# kubelet's hard eviction threshold on EKS's images.
_EVICTION_MIB = 100
# AWS's instance facts never change while a sandbox runs.
_type_facts: dict[str, dict[str, Any]] = {}


def nodes_from_cloud(ec2: Any, eks: Any, cluster_name: str, now: datetime, join_after_s: float) -> list[dict[str, Any]]:
    """The cluster's Kubernetes Node objects, oldest first; none where there is no such cluster.

    - `ec2`, `eks`: boto3 clients of the simulated cloud.
    - `now`: the simulated time, aware.
    - `join_after_s`: how old an instance is when its node appears, in simulated seconds; tagged ones never appear.
    """
    instances = [
        instance
        for instance in _instances(ec2, cluster_name)
        if NEVER_JOINS_TAG not in _tags(instance) and instance["LaunchTime"] + timedelta(seconds=join_after_s) <= now
    ]
    if not instances:
        return []
    groups = _node_groups(eks, cluster_name, {_tags(one)["eks:nodegroup-name"] for one in instances})
    _learn_types(ec2, {str(one["InstanceType"]) for one in instances})
    zone_ids = {zone["ZoneName"]: zone["ZoneId"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]}
    disk_gib = _root_disks_gib(ec2, instances)
    nodes = [
        _node(instance, groups[_tags(instance)["eks:nodegroup-name"]], zone_ids, disk_gib, join_after_s)
        for instance in instances
        if _tags(instance)["eks:nodegroup-name"] in groups
    ]
    return sorted(nodes, key=lambda node: (node["metadata"]["creationTimestamp"], node["metadata"]["name"]))


def _instances(ec2: Any, cluster_name: str) -> Iterator[dict[str, Any]]:
    pages = ec2.get_paginator("describe_instances").paginate(
        Filters=[
            {"Name": "tag:eks:cluster-name", "Values": [cluster_name]},
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
    )
    for page in pages:
        for reservation in page["Reservations"]:
            for instance in reservation["Instances"]:
                if "eks:nodegroup-name" in _tags(instance):
                    yield instance


def _node_groups(eks: Any, cluster_name: str, names: set[str]) -> dict[str, dict[str, Any]]:
    groups: dict[str, dict[str, Any]] = {}
    for name in names:
        try:
            groups[name] = eks.describe_nodegroup(clusterName=cluster_name, nodegroupName=name)["nodegroup"]
        except eks.exceptions.ResourceNotFoundException:
            # It went between the two requests; so do its nodes.
            continue
    return groups


def _learn_types(ec2: Any, names: set[str]) -> None:
    unknown = sorted(names - set(_type_facts))
    if unknown:
        for facts in ec2.describe_instance_types(InstanceTypes=unknown)["InstanceTypes"]:
            _type_facts[facts["InstanceType"]] = facts


def _root_disks_gib(ec2: Any, instances: list[dict[str, Any]]) -> dict[str, int]:
    roots = {
        mapping["Ebs"]["VolumeId"]: instance["InstanceId"]
        for instance in instances
        for mapping in instance.get("BlockDeviceMappings", [])[:1]
    }
    if not roots:
        return {}
    volumes = ec2.describe_volumes(VolumeIds=sorted(roots))["Volumes"]
    return {roots[volume["VolumeId"]]: int(volume["Size"]) for volume in volumes}


def _node(
    instance: dict[str, Any],
    group: dict[str, Any],
    zone_ids: dict[str, str],
    disk_gib: dict[str, int],
    join_after_s: float,
) -> dict[str, Any]:
    facts = _type_facts[instance["InstanceType"]]
    name, zone = str(instance["PrivateDnsName"]), str(instance["Placement"]["AvailabilityZone"])
    architecture = "arm64" if "arm64" in facts["ProcessorInfo"]["SupportedArchitectures"] else "amd64"
    joined = (instance["LaunchTime"] + timedelta(seconds=join_after_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    capacity, allocatable = _resources(facts, disk_gib.get(instance["InstanceId"], 20))
    labels = {
        **group.get("labels", {}),
        "eks.amazonaws.com/nodegroup": group["nodegroupName"],
        "eks.amazonaws.com/capacityType": group["capacityType"],
        "eks.amazonaws.com/nodegroup-image": instance["ImageId"],
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": zone.rstrip("abcdefghijklmnopqrstuvwxyz"),
        "topology.k8s.aws/zone-id": zone_ids.get(zone, ""),
        "topology.ebs.csi.aws.com/zone": zone,
        "node.kubernetes.io/instance-type": instance["InstanceType"],
        "kubernetes.io/arch": architecture,
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
    }
    spec: dict[str, Any] = {"providerID": f"aws:///{zone}/{instance['InstanceId']}"}
    taints = [_taint(taint) for taint in group.get("taints", [])]
    if taints:
        spec["taints"] = taints
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {}, "creationTimestamp": joined},
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": allocatable,
            "addresses": [
                {"type": "InternalIP", "address": instance["PrivateIpAddress"]},
                {"type": "InternalDNS", "address": name},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [_condition(*values, joined) for values in _CONDITIONS],
            "nodeInfo": {
                "architecture": architecture,
                "operatingSystem": "linux",
                "osImage": "Amazon Linux 2023 (simulated)",
                "kernelVersion": "6.12.0-simulated",
                "containerRuntimeVersion": "containerd://2.1.0",
                "kubeletVersion": f"v{group['version']}.0-eks-simulated",
                "kubeProxyVersion": f"v{group['version']}.0-eks-simulated",
                "machineID": instance["InstanceId"],
                "systemUUID": instance["InstanceId"],
                "bootID": instance["InstanceId"],
            },
        },
    }


def _resources(facts: dict[str, Any], disk_gib: int) -> tuple[dict[str, str], dict[str, str]]:
    """Capacity, and what is left of it after the reservations that EKS's images make for kubelet and system."""
    vcpus, memory_mib = int(facts["VCpuInfo"]["DefaultVCpus"]), int(facts["MemoryInfo"]["SizeInMiB"])
    network = facts["NetworkInfo"]
    addresses = int(network["MaximumNetworkInterfaces"]) * (int(network["Ipv4AddressesPerInterface"]) - 1) + 2
    pods = min(addresses, _MOST_PODS_LARGE if vcpus > _LARGE_VCPUS else _MOST_PODS)
    capacity = {
        "cpu": str(vcpus),
        "memory": f"{memory_mib * 1024}Ki",
        "pods": str(pods),
        "ephemeral-storage": str(disk_gib * _GIB),
    }
    reserved_memory_mib = 255 + 11 * pods + _EVICTION_MIB
    allocatable = {
        **capacity,
        "cpu": f"{vcpus * 1000 - _reserved_millicpu(vcpus)}m",
        "memory": f"{(memory_mib - reserved_memory_mib) * 1024}Ki",
        # EKS's images reserve 1 GiB and evict below a tenth.
        "ephemeral-storage": str(int(disk_gib * _GIB * 0.9) - _GIB),
    }
    gpu_info = cast("dict[str, Any]", facts.get("GpuInfo") or {})
    cards = cast("list[dict[str, Any]]", gpu_info.get("Gpus") or [])
    gpus = sum(int(card["Count"]) for card in cards)
    if gpus:
        capacity["nvidia.com/gpu"] = allocatable["nvidia.com/gpu"] = str(gpus)
    efa_info = cast("dict[str, Any]", network.get("EfaInfo") or {})
    efa = int(efa_info.get("MaximumEfaInterfaces", 0))
    if gpus and efa:
        capacity["vpc.amazonaws.com/efa"] = allocatable["vpc.amazonaws.com/efa"] = str(efa)
        # The EFA driver sets 5,128 pages of 2 MiB aside (EKS user guide, node-efa).
        capacity["hugepages-2Mi"] = allocatable["hugepages-2Mi"] = f"{5128 * 2}Mi"
    return capacity, allocatable


def _reserved_millicpu(vcpus: int) -> int:
    """6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest."""
    shares = [60.0, 10.0, 5.0, 5.0] + [2.5] * max(0, vcpus - 4)
    return int(sum(shares[:vcpus]))


def _taint(taint: dict[str, Any]) -> dict[str, str]:
    shown = {"key": str(taint["key"]), "effect": _TAINT_EFFECTS[taint["effect"]]}
    return {**shown, "value": str(taint["value"])} if taint.get("value") else shown


def _condition(kind: str, status: str, reason: str, message: str, since: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": since,
        "lastTransitionTime": since,
    }


_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def _tags(instance: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}
