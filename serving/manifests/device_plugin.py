"""NVIDIA's device plugin: without it a GPU node of EKS's AL2023 image offers no `nvidia.com/gpu`."""

from typing import Any

from serving.manifests.labels import ACCELERATOR_LABEL, GPU_TAINT_KEY
from serving.runtime import pinned_runtime


def device_plugin() -> dict[str, Any]:
    """The DaemonSet on every node that carries the accelerator label."""
    labels = {"app.kubernetes.io/name": "nvidia-device-plugin", "app.kubernetes.io/managed-by": "dormouse"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system", "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": "nvidia-device-plugin"}},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "priorityClassName": "system-node-critical",
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": ACCELERATOR_LABEL, "operator": "Exists"}]}
                                ]
                            }
                        }
                    },
                    "tolerations": [{"key": GPU_TAINT_KEY, "operator": "Exists", "effect": "NoSchedule"}],
                    "containers": [
                        {
                            "name": "nvidia-device-plugin",
                            "image": pinned_runtime().device_plugin_image,
                            "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "true"}],
                            "resources": {
                                "requests": {"cpu": "50m", "memory": "64Mi"},
                                "limits": {"memory": "256Mi"},
                            },
                            # The plugin talks to the kubelet through a socket in a root-owned host folder.
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "capabilities": {"drop": ["ALL"]},
                                "readOnlyRootFilesystem": True,
                            },
                            "volumeMounts": [
                                {"name": "kubelet-device-plugins", "mountPath": "/var/lib/kubelet/device-plugins"}
                            ],
                        }
                    ],
                    "volumes": [
                        {
                            "name": "kubelet-device-plugins",
                            "hostPath": {"path": "/var/lib/kubelet/device-plugins", "type": "Directory"},
                        }
                    ],
                },
            },
        },
    }
