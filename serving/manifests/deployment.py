"""The Deployment that serves one model from one zone's weight volume."""

import json
from dataclasses import dataclass
from typing import Any

from serving.engine_args import (
    CACHE_PATH,
    ENGINE_PORT,
    WEIGHTS_PATH,
    EngineOptions,
    engine_arguments,
    engine_environment,
)
from serving.manifests.gateway import GATEWAY_PORT, gateway_container
from serving.manifests.labels import (
    ACCEPTING_LABEL,
    GPU_RESOURCE,
    GPU_TAINT_KEY,
    GPU_TAINT_VALUE,
    PLAN_ANNOTATION,
    PLANNED_LOAD_ANNOTATION,
    POOL_LABEL,
    ZONE_LABEL,
    app_labels,
    pod_selector,
)
from serving.profiles import ModelProfile
from serving.runtime import pinned_runtime
from serving.service_plan import ServicePlan
from serving.units import GIB

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
    claim: str,
    extra_args: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The Deployment called `name` whose pods mount `claim` in `zone`; replicas 0, since the jobs own that number.

    `extra_args` are passed to vLLM behind those that follow from `plan`.

    `Recreate`, because the only GPU node and the read-write-once volume cannot hold two generations at once.
    """
    labels = {**app_labels(names.instance), ZONE_LABEL: zone}
    selector = {**pod_selector(names.instance), ZONE_LABEL: zone}
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
                    "labels": {**labels, ACCEPTING_LABEL: "true"},
                    "annotations": {
                        PLANNED_LOAD_ANNOTATION: str(plan.planned_load_s),
                        PLAN_ANNOTATION: _plan_annotation(plan),
                    },
                },
                "spec": _pod(names, model, plan, claim, EngineOptions(extra=extra_args)),
            },
        },
    }


def _pod(
    names: ServiceNames, model: ModelProfile, plan: ServicePlan, claim: str, options: EngineOptions
) -> dict[str, Any]:
    runtime = pinned_runtime()
    return {
        "serviceAccountName": names.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": plan.grace_s,
        "nodeSelector": {POOL_LABEL: names.pool},
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
        "initContainers": [gateway_container()],
        "containers": [_engine(names, model, plan, options)],
        "volumes": [
            {"name": "weights", "persistentVolumeClaim": {"claimName": claim}},
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": _gi(plan.shared_memory_bytes)}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "gateway-config", "configMap": {"name": names.gateway_config}},
            {"name": "gateway-scratch", "emptyDir": {}},
        ],
    }


def _engine(names: ServiceNames, model: ModelProfile, plan: ServicePlan, options: EngineOptions) -> dict[str, Any]:
    runtime = pinned_runtime()
    gpus = str(plan.memory.tensor_parallel)
    memory = _gi(plan.pod_memory_bytes)
    environment: list[dict[str, Any]] = [
        {"name": key, "value": value} for key, value in engine_environment(plan).items()
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
            {"name": "weights", "mountPath": WEIGHTS_PATH, "subPath": "models", "readOnly": True},
            {"name": "weights", "mountPath": CACHE_PATH, "subPath": "cache"},
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
    }


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
