"""The jobs' Kubernetes client over real sockets: against the stand-in, and against a server that answers by script."""

import base64
import datetime as dt
import ipaddress
import json
import socket
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from infra.clock import SystemClock
from infra.jobs.kubernetes_api import AccessDenied, Conflict, KubernetesApi, KubernetesError, NotFound, Unreachable
from infra.sandbox.kubernetes.server import KubernetesServer
from serving.errors import DormouseError

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class Script(ThreadingHTTPServer):
    """Gives the answers in its list, one a request; an answer is a status and headers, or None to hang up."""

    daemon_threads = True

    def __init__(self, answers):
        self.answers = list(answers)
        self.requests = []
        super().__init__(("127.0.0.1", 0), ScriptHandler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]

    def handle_error(self, request, client_address):
        pass


class ScriptHandler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.command, self.path, dict(self.headers), body))
        answer = self.server.answers.pop(0)
        if answer is None:
            self.connection.close()
            return
        status, headers = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps({"kind": "Answer", "message": f"said {status}"}).encode())

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, *args):
        pass


@pytest.fixture
def script():
    servers = []

    def start(*answers):
        servers.append(Script(answers))
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def waits():
    return []


@pytest.fixture
def api_of(waits):
    return lambda server, **more: KubernetesApi(
        f"http://127.0.0.1:{server.port}", "", lambda: "secret", sleep=waits.append, **more
    )


@pytest.fixture(scope="module")
def cluster():
    with KubernetesServer(SystemClock()) as server:
        yield server


@pytest.fixture
def api(cluster):
    return KubernetesApi(cluster.url, cluster.certificate_authority_data, lambda: "secret")


def test_the_calls_that_jobs_make(api):
    made = api.create(CONFIG_MAPS, {"metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"k": "v"}})
    assert api.get(f"{CONFIG_MAPS}/a")["data"] == {"k": "v"}
    assert api.patch(f"{CONFIG_MAPS}/a", {"data": {"k": None, "l": "w"}})["data"] == {"l": "w"}
    operations = [{"op": "add", "path": "/data/m", "value": "x"}]
    assert api.patch(f"{CONFIG_MAPS}/a", operations, "json")["data"] == {"l": "w", "m": "x"}
    assert api.patch(f"{CONFIG_MAPS}/a", {"data": {"m": None}}, "strategic")["data"] == {"l": "w"}
    assert [one["metadata"]["name"] for one in api.list(CONFIG_MAPS, label_selector="x=1")] == ["a"]
    assert api.list(CONFIG_MAPS, field_selector="metadata.name=b") == []
    with pytest.raises(Conflict, match='configmaps "a" already exists'):
        api.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    with pytest.raises(Conflict, match="the object has been modified"):
        api.replace(f"{CONFIG_MAPS}/a", made)
    api.delete(f"{CONFIG_MAPS}/a", grace_period_s=0, propagation="Foreground")
    with pytest.raises(NotFound) as caught:
        api.get(f"{CONFIG_MAPS}/a")
    assert str(caught.value) == (
        'Kubernetes API, GET /api/v1/namespaces/default/configmaps/a: 404 NotFound: configmaps "a" not found'
    )
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")


def test_a_list_has_all_pages(api, cluster):
    for number in range(501):
        body = {"metadata": {"name": f"many-{number:03}"}}
        cluster.store.create(cluster_kind("secrets"), "default", body, checked=False)
    assert len(api.list("/api/v1/namespaces/default/secrets")) == 501


def cluster_kind(plural):
    from infra.sandbox.kubernetes.resource_types import resource_type

    return resource_type("", "v1", plural, namespaced=True)


def test_texts(api):
    assert api.get_text("/healthz") == "ok"


def test_token_and_body_are_sent(script, api_of):
    server = script((200, {}))
    api_of(server).patch("/x", {"a": 1}, "strategic")
    method, path, headers, body = server.requests[0]
    assert (method, path, json.loads(body)) == ("PATCH", "/x", {"a": 1})
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/strategic-merge-patch+json"


def test_temporary_failures_are_tried_again(script, api_of, waits):
    server = script((503, {}), None, (500, {}), (200, {}))
    assert api_of(server).get("/x")["message"] == "said 200"
    assert waits == [0.25, 0.5, 1.0]


def test_the_last_refusal_is_told(script, api_of, waits):
    server = script(*[(503, {})] * 3)
    with pytest.raises(KubernetesError, match="GET /x: 503 Service Unavailable: said 503"):
        api_of(server, attempts=3).get("/x")
    assert len(waits) == 2


def test_the_server_says_how_long_to_wait(script, api_of, waits):
    server = script((429, {"Retry-After": "3"}), (201, {}))
    assert api_of(server).create("/x", {})["message"] == "said 201"
    assert waits == [3.0]


@pytest.mark.parametrize("answer", [(503, {}), None])
def test_a_create_is_never_sent_twice(script, api_of, answer):
    server = script(answer, (201, {}))
    with pytest.raises(KubernetesError):
        api_of(server).create("/x", {})
    with pytest.raises(KubernetesError):
        api_of(script(answer, (200, {}))).patch("/x", [], "json")
    assert len(server.requests) == 1


def test_what_a_pod_refuses_is_not_tried_again(script, api_of, waits):
    server = script((503, {}), (200, {}))
    with pytest.raises(KubernetesError, match="said 503"):
        api_of(server).get_text("/api/v1/namespaces/n/pods/p:8000/proxy/metrics")
    assert waits == []


def test_a_token_does_not_follow_a_redirect(script, api_of):
    other = script((200, {}))
    server = script((302, {"Location": f"http://127.0.0.1:{other.port}/"}))
    with pytest.raises(KubernetesError, match="302"):
        api_of(server).get("/x")
    assert other.requests == []


@pytest.mark.parametrize(("status", "remedy"), [(401, "credentials"), (403, "access entry")])
def test_refused_identities_are_told_what_to_do(script, api_of, status, remedy):
    with pytest.raises(AccessDenied, match=remedy):
        api_of(script((status, {}))).get("/x")


def test_nobody_there():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(Unreachable, match=r"Connection refused.*is the cluster's endpoint open to this network"):
        KubernetesApi(url, "", lambda: "t", sleep=lambda _: None).get("/x")


def test_no_answer_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match=r"gave no answer within 0\.1 s"):
            KubernetesApi(url, "", lambda: "t", timeout_s=0.1, attempts=2, sleep=lambda _: None).get("/x")


@pytest.mark.parametrize(
    ("endpoint", "authority", "words"),
    [
        ("http://cluster.example", "", "send the token in the clear"),
        ("cluster.example", "", "not an address"),
        ("https://cluster.example", "no base64!", "not base64 of a PEM certificate"),
        ("https://cluster.example", base64.b64encode(b"no PEM").decode(), "not base64 of a PEM certificate"),
    ],
)
def test_endpoints_that_get_no_token(endpoint, authority, words):
    with pytest.raises(DormouseError, match=words):
        KubernetesApi(endpoint, authority, lambda: "t")


def certificate(tmp_path, name):
    """A certificate for 127.0.0.1 that signs itself, in the PEM files that ssl loads."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = signed.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path / f"{name}.pem"
    path.write_bytes(private + pem)
    return path, base64.b64encode(pem).decode()


def test_only_the_clusters_own_certificate_is_trusted(script, tmp_path, waits):
    path, authority = certificate(tmp_path, "cluster")
    _, another = certificate(tmp_path, "another")
    server = script((200, {}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = f"https://127.0.0.1:{server.port}"
    with pytest.raises(Unreachable, match="a certificate that the cluster's authority did not sign"):
        KubernetesApi(url, another, lambda: "t", sleep=waits.append).get("/x")
    assert waits == []
    assert KubernetesApi(url, authority, lambda: "t").get("/x")["message"] == "said 200"


def test_nothing_but_the_standard_library_is_imported():
    code = (
        "import sys; before = set(sys.modules); import infra.jobs.kubernetes_api; "
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['infra', 'serving']"
