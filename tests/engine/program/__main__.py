"""One replica with eight GPUs and a volume in zone us-east-2b, as Dormouse shapes it, on the cluster it is given."""

import os

import pulumi
import pulumi_kubernetes as kubernetes

settings = pulumi.Config()
cluster = kubernetes.Provider("cluster", kubeconfig=os.environ["ENGINE_CHECK_KUBECONFIG"])
options = pulumi.ResourceOptions(provider=cluster)

namespace = kubernetes.core.v1.Namespace("namespace", metadata={"name": "engine-check"}, opts=options)
volume = kubernetes.core.v1.PersistentVolume(
    "volume",
    metadata={"name": "engine-check-us-east-2b"},
    spec={
        "capacity": {"storage": "700Gi"},
        "access_modes": ["ReadWriteOnce"],
        "persistent_volume_reclaim_policy": "Retain",
        "storage_class_name": "",
        "csi": {"driver": "ebs.csi.aws.com", "volume_handle": "vol-0123456789abcdef0", "fs_type": "ext4"},
        "claim_ref": {"namespace": "engine-check", "name": "weights"},
        "node_affinity": {
            "required": {
                "node_selector_terms": [
                    {
                        "match_expressions": [
                            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-2b"]}
                        ]
                    }
                ]
            }
        },
    },
    opts=options,
)
claim = kubernetes.core.v1.PersistentVolumeClaim(
    "claim",
    metadata={"name": "weights", "namespace": namespace.metadata.name},
    spec={
        "access_modes": ["ReadWriteOnce"],
        "storage_class_name": "",
        "volume_name": volume.metadata.name,
        "resources": {"requests": {"storage": "700Gi"}},
    },
    opts=options,
)
labels = {"app.kubernetes.io/name": "vllm"}
deployment = kubernetes.apps.v1.Deployment(
    "deployment",
    metadata={"name": "vllm", "namespace": namespace.metadata.name},
    spec={
        "replicas": settings.get_int("replicas", 1),
        "strategy": {"type": "Recreate"},
        "selector": {"match_labels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "init_containers": [{"name": "gateway", "image": "nginx", "restart_policy": "Always"}],
                "containers": [
                    {
                        "name": "vllm",
                        "image": "vllm/vllm-openai",
                        "resources": {"limits": {"nvidia.com/gpu": "8"}},
                        "volume_mounts": [{"name": "weights", "mount_path": "/weights"}],
                    }
                ],
                "volumes": [{"name": "weights", "persistent_volume_claim": {"claim_name": claim.metadata.name}}],
            },
        },
    },
    opts=options,
)
pulumi.export("deployment", deployment.metadata.name)
pulumi.export("key", pulumi.Output.secret("not-to-be-shown"))
if refusal := settings.get("refusal"):
    raise ValueError(refusal)
