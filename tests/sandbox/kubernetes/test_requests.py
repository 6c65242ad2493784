"""The pods' pages, through the API server's proxy."""

import json
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from infra.jobs.kubernetes_api import KubernetesApi, KubernetesError
from tests.sandbox.kubernetes.builders import eventually, gpu_deployment, gpu_node


@pytest.fixture
def cluster(start_cluster):
    cluster = start_cluster([gpu_node()], concurrent_requests=4)
    cluster.api = KubernetesApi(cluster.server.url, "", lambda: "token")
    cluster.deploy(gpu_deployment(load_s=900))
    eventually(lambda: cluster.pod().status.phase == "Running")
    cluster.path = f"/api/v1/namespaces/kimi/pods/{cluster.pod().metadata.name}:8000/proxy"
    return cluster


def metric(cluster, name):
    lines = cluster.api.get_text(f"{cluster.path}/metrics").splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"vllm:{name}{{"))


def test_a_loading_server_refuses_connections(cluster):
    with pytest.raises(KubernetesError) as caught:
        cluster.api.get_text(f"{cluster.path}/health")
    address = cluster.pod().status.pod_ip
    assert (caught.value.status, caught.value.reason) == (503, "ServiceUnavailable")
    assert (
        caught.value.message == f"error trying to reach service: dial tcp {address}:8000: connect: connection refused"
    )
    assert cluster.server.simulate_requests("kimi", 1, 1) == 0


def test_metrics_count_simulated_requests(cluster):
    cluster.clock.advance(900)
    eventually(cluster.ready)
    assert cluster.api.get_text(f"{cluster.path}/health") == ""
    page = cluster.api.get_text(f"{cluster.path}/metrics")
    assert page.startswith("# Simulated: no model runs behind this page.\n")
    assert 'vllm:num_requests_running{engine="0",model_name="kimi-k2.5"} 0.0' in page
    assert cluster.server.simulate_requests("kimi", 6, 100, prompt_tokens=10, generation_tokens=50) == 6
    assert (metric(cluster, "num_requests_running"), metric(cluster, "num_requests_waiting")) == (4, 2)
    assert (metric(cluster, "prompt_tokens_total"), metric(cluster, "kv_cache_usage_perc")) == (40, 1)
    cluster.clock.advance(50)
    assert metric(cluster, "generation_tokens_total") == 4 * 25
    cluster.clock.advance(51)
    assert (metric(cluster, "num_requests_running"), metric(cluster, "num_requests_waiting")) == (2, 0)
    assert metric(cluster, "request_success_total") == 4
    cluster.clock.advance(100)
    assert (metric(cluster, "num_requests_running"), metric(cluster, "request_success_total")) == (0, 6)
    assert metric(cluster, "generation_tokens_total") == 300


def test_requests_can_be_simulated_from_another_process(cluster):
    cluster.clock.advance(900)
    eventually(cluster.ready)
    assert cluster.api.create("/simulation/requests", {"namespace": "kimi", "count": 2, "seconds_each": 5}) == {
        "simulated": True,
        "taken": 2,
    }
    assert metric(cluster, "num_requests_running") == 2
    with pytest.raises(KubernetesError, match="seconds_each"):
        cluster.api.create("/simulation/requests", {"namespace": "kimi"})


def test_other_pages_of_a_simulated_server(cluster):
    cluster.clock.advance(900)
    eventually(cluster.ready)
    models = json.loads(cluster.api.get_text(f"{cluster.path}/v1/models"))
    assert [model["id"] for model in models["data"]] == ["kimi-k2.5"]
    with pytest.raises(KubernetesError, match="no model runs here"):
        cluster.api.get_text(f"{cluster.path}/v1/unknown")
    with pytest.raises(KubernetesError, match=":9999: connect: connection refused"):
        cluster.api.get_text(cluster.path.replace(":8000", ":9999") + "/health")


def test_a_real_server_can_stand_behind_the_pods(cluster):
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"from the real one")

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        cluster.server.put_behind_pods(f"http://127.0.0.1:{upstream.server_address[1]}/{{namespace}}/{{port}}")
        with pytest.raises(KubernetesError, match="connection refused"):
            cluster.api.get_text(f"{cluster.path}/health")
        cluster.clock.advance(900)
        eventually(cluster.ready)
        assert cluster.api.get_text(f"{cluster.path}/metrics", a="b") == "from the real one"
        upstream.shutdown()
    assert asked == ["/kimi/8000/metrics?a=b"]


def test_services_have_a_proxy_too(cluster):
    ports = [{"port": 80, "targetPort": 8000}]
    spec = {"selector": {"app": "vllm"}, "ports": ports}
    cluster.core.create_namespaced_service("kimi", {"metadata": {"name": "kimi"}, "spec": spec})
    path = "/api/v1/namespaces/kimi/services/kimi:80/proxy/health"
    with pytest.raises(KubernetesError, match='no endpoints available for service "kimi"'):
        cluster.api.get_text(path)
    cluster.clock.advance(900)
    eventually(cluster.ready)
    assert cluster.api.get_text(path) == ""


def test_discovery(cluster):
    assert cluster.api.get("/api")["versions"] == ["v1"]
    groups = {group["name"] for group in cluster.api.get("/apis")["groups"]}
    assert {"apps", "batch", "policy", "storage.k8s.io"} <= groups
    names = {one["name"]: one["namespaced"] for one in cluster.api.get("/apis/apps/v1")["resources"]}
    assert names["deployments/scale"] is True
    with urllib.request.urlopen(f"{cluster.server.url}/healthz") as answer:
        assert answer.read() == b"ok"
