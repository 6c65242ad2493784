"""Plain manifests for a cluster that somebody else runs: the objects of a stack, with the weights on the node's own disk."""

import json
from typing import Any

from serving.emit.server import EmittedFile, OneServer
from serving.manifests.deployment import API_KEY_FIELD, ServiceNames, deployment
from serving.manifests.device_plugin import device_plugin
from serving.manifests.labels import POOL_LABEL, ZONE_LABEL, app_labels
from serving.manifests.service import (
    Access,
    gateway_config_map,
    namespace,
    network_policy,
    service,
    service_account,
)
from serving.runtime import pinned_runtime
from serving.service_plan import volume_size_gib

_ZONE = "local"


def kubernetes_objects(server: OneServer, name: str) -> list[dict[str, Any]]:
    """Every object but the key's Secret, in an order that can be applied; `name` is the namespace's and the pool's."""
    base = server.model.served_name.replace(".", "-")
    names = ServiceNames(
        instance=name,
        namespace=name,
        service=base,
        service_account=base,
        api_key_secret=f"{base}-api-key",
        gateway_config=f"{base}-gateway",
        pool=name,
    )
    labels = app_labels(name)
    claim = f"{base}-weights"
    size = f"{volume_size_gib(server.plan.memory.weights_bytes)}Gi"
    served = deployment(names, server.model, server.plan, base, _ZONE, claim, server.extra_args)
    served["spec"]["replicas"] = 1
    served["metadata"]["labels"][ZONE_LABEL] = _ZONE
    on_node = {"key": POOL_LABEL, "operator": "In", "values": [name]}
    return [
        namespace(name),
        service_account(names),
        gateway_config_map(names),
        network_policy(names, Access(), [], []),
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{name}-{claim}", "labels": labels},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": {"namespace": name, "name": claim},
                # The folder that holds `models/` and `cache/`.
                "local": {"path": server.machine.weights_path},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": name, "labels": labels},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "volumeName": f"{name}-{claim}",
                "resources": {"requests": {"storage": size}},
            },
        },
        service(names, Access()),
        served,
    ]


def kubernetes_files(server: OneServer, name: str) -> list[EmittedFile]:
    """One List of all objects, and NVIDIA's device plugin apart, which a cluster may have already."""
    document = {"apiVersion": "v1", "kind": "List", "items": kubernetes_objects(server, name)}
    return [
        EmittedFile("vllm.json", json.dumps(document, indent=2) + "\n"),
        EmittedFile("device-plugin.json", json.dumps(device_plugin(), indent=2) + "\n"),
    ]


def kubernetes_steps(server: OneServer, name: str) -> list[str]:
    """What is to be done in the cluster, in order."""
    base = server.model.served_name.replace(".", "-")
    return [
        (
            f"kubectl label node NODE {POOL_LABEL}={name}; its {server.machine.weights_path}/cache is an empty folder,"
            f" and that and models/ belong to user {pinned_runtime().vllm_user_id}"
        ),
        "kubectl apply -f vllm.json (and device-plugin.json, unless nvidia.com/gpu is there already)",
        (
            f"openssl rand -hex 24 | tr -d '\\n' | kubectl create secret generic {base}-api-key --namespace {name} "
            f"--from-file={API_KEY_FIELD}=/dev/stdin"
        ),
        f"kubectl wait --namespace {name} --for=condition=Available deployment/{base} --timeout={server.plan.startup_window_s}s",
    ]
