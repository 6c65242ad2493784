"""The Deployment that serves one model from one zone's weight volume."""

import json
from dataclasses import dataclass
from typing import Any

from serving.engine_args import (
    ENGINE_PORT,
    EngineOptions,
    engine_arguments,
    engine_environment,
    model_environment,
)
from serving.loading import S3Source
from serving.manifests.gateway import GATEWAY_PORT, gateway_container
from serving.manifests.labels import (
    ACCEPTING_LABEL,
    GPU_RESOURCE,
    GPU_TAINT_KEY,
    GPU_TAINT_VALUE,
    PLAN_ANNOTATION,
    PLANNED_LOAD_ANNOTATION,
    POOL_LABEL,
    ZONE_TOPOLOGY_LABEL,
    app_labels,
    pod_selector,
)
from serving.manifests.multi_node import joined
from serving.manifests.place import Place
from serving.manifests.weight_mounts import check_containers, weight_containers, weight_mounts, weight_volumes
from serving.profiles import ModelProfile
from serving.runtime import pinned_runtime
from serving.service_plan import ServicePlan
from serving.units import GIB
from serving.weights.sources import WeightSource

API_KEY_FIELD = "api-key"
_PROBE_PERIOD_S = 10


@dataclass(frozen=True)
class ServiceNames:
    """The names of one model server's objects in its namespace.

    - `instance`: the label value that tells this server from others.
    - `pool`: value of the node label that its GPU nodes carry.
    """

    instance: str
    namespace: str
    service: str
    service_account: str
    api_key_secret: str
    gateway_config: str
    pool: str


def deployment(
    names: ServiceNames,
    model: ModelProfile,
    plan: ServicePlan,
    name: str,
    zone: str,
    claim: str | None,
    extra_args: tuple[str, ...] = (),
    s3: S3Source | None = None,
    place: Place | None = None,
    image: Any = None,
    source: WeightSource | None = None,
) -> dict[str, Any]:
    """The Deployment called `name` whose pods mount `claim` in `zone`; replicas 0, since the jobs own that number.

    `extra_args` are passed to vLLM behind those that follow from `plan`. A zone without a volume has no `claim`; its
    plan loads from `s3`. `place` is the machine of the replica that its pods are; None is the first of the only one.
    `image` is the engine's where it comes by another registry. `source` is what the volume has to hold, proven, before
    anything starts; None is any weights of the model. Raises ConfigurationError where the plan's loading path
    lacks what it reads.

    `Recreate`, because the only GPU node and the read-write-once volume cannot hold two generations at once.
    """
    place = place or Place()
    labels = {**app_labels(names.instance), **place.labels(zone)}
    selector = {**pod_selector(names.instance), **place.labels(zone)}
    # The Service finds pods by this label, and only a replica's first machine answers.
    accepting = {} if place.rank else {ACCEPTING_LABEL: "true"}
    layout = plan.memory.fit.layout
    options = EngineOptions(layout if layout.nodes > 1 else None, place.node, extra_args, s3)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": names.namespace, "labels": labels},
        "spec": {
            "replicas": 0,
            "revisionHistoryLimit": 5,
            "strategy": {"type": "Recreate"},
            # A start may take the whole window; Kubernetes must not call it failed before.
            "progressDeadlineSeconds": plan.startup_window_s + 1800,
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {
                    "labels": {**labels, **accepting},
                    "annotations": {
                        PLANNED_LOAD_ANNOTATION: str(plan.planned_load_s),
                        PLAN_ANNOTATION: _plan_annotation(plan),
                    },
                },
                "spec": _with_image(
                    joined(_pod(names, model, plan, claim, options, place, zone, source), plan, place), image
                ),
            },
        },
    }


def _pod(
    names: ServiceNames,
    model: ModelProfile,
    plan: ServicePlan,
    claim: str | None,
    options: EngineOptions,
    place: Place,
    zone: str,
    source: WeightSource | None,
) -> dict[str, Any]:
    # A claim ties the pod to its volume's zone; without one only this does.
    in_zone = {} if claim else {ZONE_TOPOLOGY_LABEL: zone}
    runtime = pinned_runtime()
    return {
        "serviceAccountName": names.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": plan.grace_s,
        "nodeSelector": {POOL_LABEL: names.pool, **place.node_labels, **in_zone},
        "tolerations": [{"key": GPU_TAINT_KEY, "operator": "Equal", "value": GPU_TAINT_VALUE, "effect": "NoSchedule"}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": runtime.vllm_user_id,
            "runAsGroup": runtime.vllm_user_id,
            "fsGroup": runtime.vllm_user_id,
            # A walk over the whole volume on every start would cost minutes and change nothing.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [
            *check_containers(plan, model, source),
            gateway_container(),
            *weight_containers(plan, model, options.s3),
        ],
        "containers": [_engine(names, model, plan, claim, options)],
        "volumes": [
            *weight_volumes(plan, claim, options.s3),
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": _gi(plan.shared_memory_bytes)}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "gateway-config", "configMap": {"name": names.gateway_config}},
            {"name": "gateway-scratch", "emptyDir": {}},
        ],
    }


def _engine(
    names: ServiceNames, model: ModelProfile, plan: ServicePlan, claim: str | None, options: EngineOptions
) -> dict[str, Any]:
    runtime = pinned_runtime()
    gpus = str(plan.memory.gpus_per_node)
    memory = _gi(plan.pod_memory_bytes)
    environment: list[dict[str, Any]] = [
        {"name": key, "value": value}
        for key, value in {**engine_environment(plan, options.s3), **model_environment(model)}.items()
    ]
    environment.append(
        {
            "name": "VLLM_API_KEY",
            "valueFrom": {"secretKeyRef": {"name": names.api_key_secret, "key": API_KEY_FIELD}},
        }
    )
    health = {"httpGet": {"path": "/health", "port": ENGINE_PORT}, "periodSeconds": _PROBE_PERIOD_S}
    return {
        "name": "vllm",
        "image": runtime.vllm_image,
        "command": ["vllm", "serve"],
        "args": engine_arguments(model, plan, options),
        "env": environment,
        "ports": [{"name": "engine", "containerPort": ENGINE_PORT}],
        "resources": {
            "requests": {"cpu": "32", "memory": memory, GPU_RESOURCE: gpus},
            "limits": {"memory": memory, GPU_RESOURCE: gpus},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "startupProbe": {
            **health,
            "timeoutSeconds": 5,
            "failureThreshold": plan.startup_window_s // _PROBE_PERIOD_S,
        },
        # Readiness goes through the gateway: it is what callers reach.
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": GATEWAY_PORT},
            "periodSeconds": 5,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        # Starts counting after the startup probe has passed, so it can never kill a loading server; a dead engine
        # answers 503 and a stuck one nothing at all for two minutes.
        "livenessProbe": {**health, "timeoutSeconds": 10, "failureThreshold": 12},
        # vLLM refuses new requests from the first moment of its own drain, so the Service must let go of it before.
        "lifecycle": {"preStop": {"sleep": {"seconds": plan.deregister_s}}},
        "volumeMounts": [
            *weight_mounts(plan, claim),
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
    }


def _with_image(pod: dict[str, Any], image: Any) -> dict[str, Any]:
    """`pod` with `image` in place of the pinned engine image, wherever it stands; None leaves it."""
    for container in (*pod["initContainers"], *pod["containers"]) if image is not None else ():
        if container["image"] == pinned_runtime().vllm_image:
            container["image"] = image
    return pod


def _plan_annotation(plan: ServicePlan) -> str:
    memory = plan.memory
    return json.dumps(
        {
            "instanceType": memory.instance_type,
            "tensorParallel": memory.tensor_parallel,
            "weightsBytesPerGpu": memory.weights_bytes_per_gpu,
            "kvCacheBytesPerGpu": memory.kv_cache_bytes,
            "kvCacheTokens": memory.kv_cache_tokens,
            "contextTokens": memory.limits.context_tokens,
        },
        separators=(",", ":"),
    )


def _gi(count: int) -> str:
    return f"{count // GIB}Gi"
