"""The weight volume inside Kubernetes: a static PersistentVolume and its claim, pinned to the volume's zone."""

from typing import Any

from serving.manifests.labels import ZONE_TOPOLOGY_LABEL

CSI_DRIVER = "ebs.csi.aws.com"


def persistent_volume(
    name: str, namespace: str, claim: str, zone: str, size_gib: int, labels: dict[str, str]
) -> dict[str, Any]:
    """The PersistentVolume without its volume handle, which is known only once EBS has made the volume.

    Only nodes of `zone` may mount it: an EBS volume attaches nowhere else, and without the affinity the scheduler
    would place the pod on a node where it waits for ever.
    """
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "capacity": {"storage": f"{size_gib}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "volumeMode": "Filesystem",
            "claimRef": {"namespace": namespace, "name": claim},
            "csi": {"driver": CSI_DRIVER, "fsType": "xfs"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": ZONE_TOPOLOGY_LABEL, "operator": "In", "values": [zone]}]}
                    ]
                }
            },
        },
    }


def persistent_volume_claim(
    name: str, namespace: str, volume: str, size_gib: int, labels: dict[str, str]
) -> dict[str, Any]:
    """The claim bound to the volume called `volume` and to no other."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": volume,
            "resources": {"requests": {"storage": f"{size_gib}Gi"}},
        },
    }
