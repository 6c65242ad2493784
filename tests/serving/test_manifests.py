"""Every object is what Kubernetes accepts, and the details that keep a $45,000 machine right."""

import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from serving.accelerators import instance_shape
from serving.manifests.deployment import ServiceNames, deployment
from serving.manifests.device_plugin import device_plugin
from serving.manifests.gateway import GATEWAY_PORT, gateway_config
from serving.manifests.service import (
    Access,
    gateway_config_map,
    namespace,
    network_policy,
    service,
    service_account,
)
from serving.manifests.volume import persistent_volume, persistent_volume_claim
from serving.memory import EngineLimits
from serving.profiles import load_model
from serving.service_plan import plan_service

KIMI = load_model("kimi-k2.5")
PLAN = plan_service(KIMI, instance_shape("p5e.48xlarge"), EngineLimits(262_144, 64), 1000, 600)
NAMES = ServiceNames("dev", "dev", "kimi", "kimi", "kimi-api-key", "kimi-gateway", "dev")
PUBLIC = Access("public", ("203.0.113.0/24",), "arn:aws:acm:us-east-2:123456789012:certificate/x")


def made() -> dict[str, Any]:
    return deployment(NAMES, KIMI, PLAN, "kimi-us-east-2a", "us-east-2a", "weights-a")


def pod() -> dict[str, Any]:
    return made()["spec"]["template"]["spec"]


def engine() -> dict[str, Any]:
    return pod()["containers"][0]


def volume() -> dict[str, Any]:
    manifest = persistent_volume("weights-a", "dev", "weights-a", "us-east-2a", 650, {})
    manifest["spec"]["csi"]["volumeHandle"] = "vol-0123456789abcdef0"
    return manifest


@pytest.mark.parametrize(
    "manifest",
    [
        made(),
        service(NAMES, Access()),
        service(NAMES, Access("internal")),
        service(NAMES, PUBLIC),
        network_policy(NAMES, PUBLIC, ["10.40.224.0/28"], ["10.40.0.0/19"]),
        service_account(NAMES),
        gateway_config_map(NAMES),
        namespace("dev"),
        volume(),
        persistent_volume_claim("weights-a", "dev", "weights-a", 650, {}),
        device_plugin(),
    ],
    ids=lambda manifest: manifest["kind"],
)
@pytest.mark.parametrize("version", ["1.35", "1.36"])
def test_kubernetes_knows_every_field(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_two_generations_never_want_the_machine_at_once() -> None:
    assert made()["spec"]["strategy"] == {"type": "Recreate"}
    assert made()["spec"]["replicas"] == 0


def test_the_pod_tolerates_the_gpu_taint_and_takes_the_whole_machine() -> None:
    assert {"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"} in pod()[
        "tolerations"
    ]
    assert engine()["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert engine()["resources"]["requests"]["memory"] == engine()["resources"]["limits"]["memory"]


def test_weights_are_read_only_and_caches_outlive_the_pod() -> None:
    mounts = {mount["mountPath"]: mount for mount in engine()["volumeMounts"]}
    assert mounts["/models"]["readOnly"] is True
    assert mounts["/cache"]["name"] == mounts["/models"]["name"] == "weights"
    assert "readOnly" not in mounts["/cache"]
    volumes = {entry["name"]: entry for entry in pod()["volumes"]}
    assert volumes["weights"]["persistentVolumeClaim"] == {"claimName": "weights-a"}
    assert volumes["shared-memory"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "32Gi"}
    assert mounts["/dev/shm"]["name"] == "shared-memory"


def test_no_probe_can_kill_a_loading_server() -> None:
    startup, liveness = engine()["startupProbe"], engine()["livenessProbe"]
    assert startup["failureThreshold"] * startup["periodSeconds"] == PLAN.startup_window_s
    # Kubernetes holds liveness back until the startup probe has passed; without one it must not exist.
    assert liveness["failureThreshold"] * liveness["periodSeconds"] >= 120


def test_draining_has_the_time_it_needs() -> None:
    grace = pod()["terminationGracePeriodSeconds"]
    sleep = engine()["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert grace >= sleep + PLAN.drain_s + 15
    assert f"--shutdown-timeout={PLAN.drain_s}" in engine()["args"]


def test_the_gateway_ends_after_the_engine() -> None:
    check, gateway = pod()["initContainers"]
    assert check["name"] == "weights-check"
    # An init container that restarts always is a sidecar: started before the others and stopped after them.
    assert gateway["restartPolicy"] == "Always"


def test_the_key_comes_from_the_secret_alone() -> None:
    environment = {entry["name"]: entry for entry in engine()["env"]}
    assert environment["VLLM_API_KEY"]["valueFrom"]["secretKeyRef"] == {"name": "kimi-api-key", "key": "api-key"}
    assert "value" not in environment["VLLM_API_KEY"]


def test_nothing_runs_as_root() -> None:
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["securityContext"]["runAsUser"] == 2000
    for container in (*pod()["initContainers"], *pod()["containers"]):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert namespace("dev")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_callers_reach_the_gateway_and_never_the_engine() -> None:
    for access in (Access(), Access("internal"), PUBLIC):
        (port,) = service(NAMES, access)["spec"]["ports"]
        assert port["targetPort"] == GATEWAY_PORT
    ingress = network_policy(NAMES, Access(), ["10.40.224.0/28"], ["10.40.0.0/19"])["spec"]["ingress"]
    to_engine = next(rule for rule in ingress if rule["ports"][0]["port"] == 8000)
    assert {"ipBlock": {"cidr": "10.40.224.0/28"}} in to_engine["from"]
    assert {"namespaceSelector": {}} not in to_engine["from"]
    assert {"ipBlock": {"cidr": "10.40.0.0/19"}} not in to_engine["from"]


def test_a_pod_that_stops_accepting_leaves_the_service_and_stays_in_the_deployment() -> None:
    assert service(NAMES, Access())["spec"]["selector"]["dormouse.dev/accepting"] == "true"
    assert "dormouse.dev/accepting" not in made()["spec"]["selector"]["matchLabels"]
    labels = made()["spec"]["template"]["metadata"]["labels"]
    assert service(NAMES, Access())["spec"]["selector"].items() <= labels.items()
    assert made()["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_exposure() -> None:
    assert service(NAMES, Access())["spec"]["type"] == "ClusterIP"
    internal = service(NAMES, Access("internal"))
    assert internal["spec"]["type"] == "LoadBalancer"
    assert internal["metadata"]["annotations"]["service.beta.kubernetes.io/aws-load-balancer-internal"] == "true"
    public = service(NAMES, PUBLIC)
    assert public["spec"]["loadBalancerSourceRanges"] == ["203.0.113.0/24"]
    assert public["spec"]["ports"][0]["port"] == 443
    assert "aws-load-balancer-internal" not in str(public["metadata"]["annotations"])
    assert public["metadata"]["annotations"]["service.beta.kubernetes.io/aws-load-balancer-ssl-cert"].startswith("arn:")


def test_the_volume_is_mounted_in_its_own_zone_only() -> None:
    (term,) = volume()["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-2a"]}
    ]
    assert volume()["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume()["spec"]["claimRef"] == {"namespace": "dev", "name": "weights-a"}


class _Engine(BaseHTTPRequestHandler):
    """Answers every path, as vLLM answers many without a key."""

    def do_GET(self) -> None:
        body = b"engine"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.skipif(
    shutil.which("nginx") is None, reason="nginx is not installed; apt-get install nginx-light brings it"
)
def test_the_gateway_lets_the_allowed_paths_through_and_nothing_else(tmp_path: Path) -> None:
    engine_server = ThreadingHTTPServer(("127.0.0.1", 0), _Engine)
    threading.Thread(target=engine_server.serve_forever, daemon=True).start()
    port = _free_port()
    config = gateway_config().replace("127.0.0.1:8000", f"127.0.0.1:{engine_server.server_port}")
    config = config.replace(f"listen {GATEWAY_PORT};", f"listen 127.0.0.1:{port};").replace("/tmp/", f"{tmp_path}/")
    path = tmp_path / "nginx.conf"
    path.write_text(config, encoding="utf-8")
    process = subprocess.Popen(["nginx", "-g", "daemon off;", "-c", str(path)], stderr=subprocess.PIPE)
    try:
        _wait_for(port)
        for allowed in ("/v1/models", "/v1/chat/completions", "/health"):
            assert _status(port, allowed) == (200, "engine"), allowed
        for refused in (
            "/metrics", "/invocations", "/tokenize", "/docs", "/openapi.json", "/version", "/load", "/healthz", "/",
            "/v1", "/v1/../invocations", "/v1/%2e%2e/invocations", "//invocations", "/v1/..%2finvocations",
        ):  # fmt: skip
            code, body = _status(port, refused)
            assert (code, "engine" in body) != (200, True), refused
            assert code in (400, 404), refused
        code, body = _status(port, "/invocations")
        assert '"message":"only /v1/* and /health are served here"' in body
    finally:
        process.terminate()
        process.wait(timeout=10)
        engine_server.shutdown()


def test_the_gateway_names_exactly_the_allowed_paths() -> None:
    passed = re.findall(r"location (.*?) \{ proxy_pass", gateway_config())
    assert passed == ["~ ^/v1/", "= /health"]


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(port: int) -> None:
    import socket
    import time

    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("nginx did not start")


def _status(port: int, path: str) -> tuple[int, str]:
    """One request whose path reaches the server byte for byte."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.putrequest("GET", path, skip_host=False)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read().decode()
