"""AWS's device plugin for Elastic Fabric Adapters: without it no node offers `vpc.amazonaws.com/efa`."""

from typing import Any

from serving.manifests.labels import ACCELERATOR_LABEL, GPU_TAINT_KEY
from serving.runtime import pinned_runtime

_NAME = "aws-efa-k8s-device-plugin"
_SOCKETS = "/var/lib/kubelet/device-plugins"
_ADAPTERS = "/dev/infiniband"


def efa_device_plugin(region: str) -> dict[str, Any]:
    """The DaemonSet on every node that carries the accelerator label; its image is pulled inside `region`."""
    labels = {"app.kubernetes.io/name": _NAME, "app.kubernetes.io/managed-by": "dormouse"}
    on_gpu_nodes = {"matchExpressions": [{"key": ACCELERATOR_LABEL, "operator": "Exists"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": _NAME, "namespace": "kube-system", "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": _NAME}},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "priorityClassName": "system-node-critical",
                    # It reads the adapters of the host.
                    "hostNetwork": True,
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [on_gpu_nodes]}
                        }
                    },
                    "tolerations": [{"key": GPU_TAINT_KEY, "operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [
                        {
                            "name": _NAME,
                            "image": pinned_runtime().efa_device_plugin(region),
                            "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}, "limits": {"memory": "256Mi"}},
                            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                            "volumeMounts": [
                                {"name": "kubelet-device-plugins", "mountPath": _SOCKETS},
                                {"name": "adapters", "mountPath": _ADAPTERS},
                            ],
                        }
                    ],
                    "volumes": [
                        {"name": "kubelet-device-plugins", "hostPath": {"path": _SOCKETS}},
                        {"name": "adapters", "hostPath": {"path": _ADAPTERS}},
                    ],
                },
            },
        },
    }
