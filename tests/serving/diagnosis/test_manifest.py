"""Faults of Kubernetes manifests, those that guides spread and those of our own."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from serving.accelerators import instance_shape
from serving.diagnosis.manifest import diagnose_manifest
from serving.diagnosis.workload import quantity_bytes
from serving.manifests.deployment import ServiceNames, deployment
from serving.manifests.service import Access, network_policy, service
from serving.memory import EngineLimits
from serving.profiles import load_model
from serving.service_plan import plan_service

NAMES = ServiceNames("kimi", "kimi", "kimi-k2-5", "kimi-k2-5", "kimi-key", "kimi-gateway", "kimi")


def ours() -> dict[str, Any]:
    model = load_model("kimi-k2.5")
    plan = plan_service(model, instance_shape("p5en.48xlarge"), EngineLimits(262_144, 64), 1000, 600)
    return deployment(NAMES, model, plan, "kimi-k2-5-us-east-2a", "us-east-2a", "weights-a")


def found(*documents: Mapping[str, Any]) -> dict[str, Any]:
    return {one.cause_id: one for one in diagnose_manifest(documents)}


def claim(size: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": "weights-a"}, "spec": spec}


def test_our_own_manifests_give_none() -> None:
    assert found(ours(), claim("650Gi"), service(NAMES, Access()), network_policy(NAMES, Access(), [], [])) == {}


def pod_of(document: dict[str, Any]) -> dict[str, Any]:
    return document["spec"]["template"]["spec"]


def engine_of(document: dict[str, Any]) -> dict[str, Any]:
    return pod_of(document)["containers"][0]


def change(what: str) -> list[dict[str, Any]]:
    """Our Deployment and its claim with one thing made wrong."""
    one, disk = copy.deepcopy(ours()), claim("650Gi")
    pod, engine = pod_of(one), engine_of(one)
    if what == "manifest-probe-window":
        engine["startupProbe"]["failureThreshold"] = 30
    elif what == "manifest-no-startup-probe":
        del engine["startupProbe"]
        engine["livenessProbe"]["initialDelaySeconds"] = 3600
    elif what == "manifest-sysctl":
        pod["securityContext"]["sysctls"] = [{"name": "vm.swappiness", "value": "10"}]
    elif what == "manifest-volume-small":
        disk = claim("400Gi")
    elif what == "manifest-rolling-update":
        one["spec"]["strategy"] = {"type": "RollingUpdate"}
    elif what == "manifest-shared-volume":
        one["spec"]["replicas"] = 2
    elif what == "manifest-host-network":
        pod["hostNetwork"] = True
    elif what == "manifest-memory-limit":
        engine["resources"]["limits"]["memory"] = "512Gi"
    elif what == "manifest-shared-memory":
        engine["volumeMounts"] = [mount for mount in engine["volumeMounts"] if mount["name"] != "shared-memory"]
    elif what == "manifest-no-gpu":
        engine["resources"] = {}
    elif what == "manifest-gpu-count":
        engine["resources"]["limits"]["nvidia.com/gpu"] = "4"
    elif what == "manifest-toleration":
        pod["tolerations"] = []
    elif what == "manifest-grace":
        pod["terminationGracePeriodSeconds"] = 30
    elif what == "manifest-secret-in-clear":
        engine["env"].append({"name": "HF_TOKEN", "value": "hf_secret"})
    elif what == "manifest-image-unpinned":
        engine["image"] = "vllm/vllm-openai:latest"
    elif what == "command-flag":
        engine["args"].append("--swap-space=4")
    return [one, disk]


@pytest.mark.parametrize(
    "what",
    [
        "manifest-probe-window", "manifest-no-startup-probe", "manifest-sysctl", "manifest-volume-small",
        "manifest-rolling-update", "manifest-shared-volume", "manifest-host-network", "manifest-memory-limit",
        "manifest-shared-memory", "manifest-no-gpu", "manifest-gpu-count", "manifest-toleration", "manifest-grace",
        "manifest-secret-in-clear", "manifest-image-unpinned", "command-flag",
    ],
)  # fmt: skip
def test_one_thing_wrong_is_named_alone(what: str) -> None:
    assert list(found(*change(what))) == [what]


def test_the_words_carry_numbers_and_places() -> None:
    probe = found(*change("manifest-probe-window"))["manifest-probe-window"]
    assert probe.evidence.place == "Deployment/kimi-k2-5-us-east-2a spec.template.spec.containers[0].startupProbe"
    assert "gives it 5 min, and loading takes about 12 min (Kimi K2.5 at 1,000 MiB/s, then compiling)" in probe.cause
    memory = found(*change("manifest-memory-limit"))["manifest-memory-limit"]
    assert memory.remedy.startswith("Raise it to 715Gi")
    volume = found(*change("manifest-volume-small"))["manifest-volume-small"]
    assert "Ask for 650Gi or more" in volume.remedy
    assert "hf_secret" not in repr(found(*change("manifest-secret-in-clear")))


def test_a_load_balancer_straight_to_the_engine() -> None:
    labels = ours()["spec"]["template"]["metadata"]["labels"]
    spec = {"type": "LoadBalancer", "selector": labels, "ports": [{"port": 80, "targetPort": 8000}]}
    exposed = {"kind": "Service", "metadata": {"name": "open"}, "spec": spec}
    assert list(found(ours(), exposed)) == ["manifest-engine-exposed"]
    assert found(ours(), service(NAMES, Access("public", ("203.0.113.0/24",), "arn:aws:acm:x"))) == {}


def test_an_autoscaler_on_processor_use() -> None:
    metrics = [{"type": "Resource", "resource": {"name": "cpu"}}]
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "kimi-k2-5-us-east-2a"}, "metrics": metrics}
    scaler = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "kimi"}, "spec": spec}
    assert list(found({"kind": "List", "items": [ours(), scaler]})) == ["manifest-autoscaler"]


def test_what_serves_no_model_is_left_alone() -> None:
    pod = {"containers": [{"name": "web", "image": "nginx"}]}
    assert found({"kind": "Pod", "metadata": {"name": "web"}, "spec": pod}) == {}
    assert diagnose_manifest([None, 7, "x", {"kind": "Deployment"}]) == ()


def test_quantities() -> None:
    read = [quantity_bytes(text) for text in ("400Gi", "1T", "5", "1.5Gi", "500m", "much")]
    assert read == [400 << 30, 10**12, 5, 3 << 29, None, None]
