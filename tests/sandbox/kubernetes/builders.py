"""Manifests and a clock for the tests of the Kubernetes stand-in."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

Object = dict[str, Any]

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self._now = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self._now

    def monotonic_s(self) -> float:
        return self._now.timestamp()

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


def eventually(look: Callable[[], Any], within_s: float = 30.0) -> Any:
    """What `look` gives once it is true; it is asked for `within_s` real seconds."""
    end = time.monotonic() + within_s
    while True:
        value = look()
        if value or time.monotonic() > end:
            assert value, f"still {value!r} after {within_s} s"
            return value
        time.sleep(0.01)


def eventually_later(clock: ManualClock, look: Callable[[], Any], step_s: float = 5) -> Any:
    """What `look` gives once it is true, while the clock goes on: for what takes several turns of the control loop."""

    def look_and_step() -> Any:
        value = look()
        if not value:
            clock.advance(step_s)
        return value

    return eventually(look_and_step)


def stays(look: Callable[[], Any], for_s: float = 0.25) -> None:
    """Assert that `look` is true again and again for `for_s` real seconds."""
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        assert look()
        time.sleep(0.02)


@contextmanager
def refused(code: int, *words: str) -> Iterator[None]:
    """Expect the official client's ApiException with a status and words from its message."""
    import pytest
    from kubernetes.client import ApiException

    with pytest.raises(ApiException) as caught:
        yield
    assert caught.value.status == code, caught.value.body
    for word in words:
        assert word in str(caught.value.body), caught.value.body


def gpu_node(name: str = "ip-10-0-1-5.us-east-2.compute.internal", zone: str = "us-east-2a", gpus: int = 8) -> Object:
    return {
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}},
        "spec": {"providerID": f"aws:///{zone}/i-{name[3:9].replace('-', '')}", "taints": [GPU_TAINT]},
        "status": {"capacity": {"nvidia.com/gpu": str(gpus), "cpu": "192", "memory": "2000Gi", "pods": "100"}},
    }


def cpu_node(name: str = "ip-10-0-9-9.us-east-2.compute.internal", zone: str = "us-east-2a") -> Object:
    return {
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": {"providerID": f"aws:///{zone}/i-cpu"},
        "status": {"capacity": {"cpu": "2", "memory": "8Gi", "pods": "20"}},
    }


def deployment(name: str = "vllm", replicas: int = 1, load_s: float | None = None, **pod_spec: Any) -> Object:
    """A small one; `pod_spec` replaces fields of the pod's specification."""
    labels = {"app": name}
    annotations = {} if load_s is None else {"dormouse.dev/planned-load-s": str(load_s)}
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.32.0", "ports": [{"containerPort": 8000}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {"containers": [container], **pod_spec},
            },
        },
    }


def gpu_deployment(name: str = "vllm", replicas: int = 1, load_s: float | None = None, **pod_spec: Any) -> Object:
    """As `deployment`, with all 8 GPUs of a node and the toleration for it."""
    body = deployment(name, replicas, load_s, tolerations=[GPU_TOLERATION], **pod_spec)
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
    container["args"] = ["--model", "/weights", "--served-model-name", "kimi-k2.5"]
    return body


def volume(name: str = "weights-a", zone: str = "us-east-2a", volume_id: str = "vol-0a") -> Object:
    expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "700Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": volume_id},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }


def claim(name: str = "weights-a", volume_name: str = "weights-a") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": volume_name,
            "resources": {"requests": {"storage": "700Gi"}},
        },
    }


def mounting(body: Object, claim_name: str = "weights-a") -> Object:
    """A Deployment that also mounts a claim at /weights."""
    spec = body["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "weights", "persistentVolumeClaim": {"claimName": claim_name}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "weights", "mountPath": "/weights"}]
    return body
