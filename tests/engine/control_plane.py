"""A real Kubernetes control plane on 127.0.0.1: etcd, API server, controller manager, scheduler, and KWOK's nodes.

Real: admission, schema checks, RBAC, server-side apply, controllers, volume binding, the scheduler. Not real: nodes
and what runs on them. KWOK answers for every node that carries `kwok.x-k8s.io/node: fake`: its pods become Ready at
once, run nothing, and end at once, so there are no logs, no metrics and no drain to watch in this tier.
"""

import base64
import json
import secrets
import ssl
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kubernetes.client import ApiClient
from kubernetes.config import new_client_from_config_dict  # pyright: ignore[reportUnknownVariableType]

from serving.manifests.hydrate import COMPONENT_LABEL, HYDRATOR_COMPONENT

from .processes import EngineProcessError, LoggedProcess, free_ports

START_TIMEOUT_S = 90
SERVICE_CIDR = "172.20.0.0/16"
HYDRATOR_LAST_WORDS = {
    "outcome": "verified",
    "message": "simulated: the weights count as verified and nothing was downloaded",
    "revision": "simulated",
    "manifest_sha256": "0" * 64,
}
"""What a hydrator's pod says at its end here, in the form of the real one."""


class ControlPlane:
    """A control plane between `with` and its end.

    - `bin_dir`: the binaries, from `engine/build.py --print-path`.
    - `workdir`: an empty folder for data, certificates and logs.
    - `token_webhook_url`: where the API server sends a TokenReview for tokens that it does not know, or None.

    Attributes: `url`, `ca_data_base64` (PEM in base64, as EKS gives it), `admin_token`, `admin_kubeconfig` (a mapping),
    `admin_kubeconfig_path`. Raises EngineProcessError with the log's end where a part does not start.
    """

    def __init__(self, bin_dir: Path, workdir: Path, token_webhook_url: str | None = None) -> None:
        self._bin = bin_dir
        self._published_stages = bin_dir.parent / "share" / "kwok-stages.yaml"
        self._workdir = workdir
        self._token_webhook_url = token_webhook_url
        self._stack = ExitStack()
        self._processes: list[LoggedProcess] = []
        self._etcd_port, self._etcd_peer_port, self._api_port, self._kwok_port = free_ports(4)
        self.url = f"https://127.0.0.1:{self._api_port}"
        self.admin_token = secrets.token_urlsafe(24)
        self.admin_kubeconfig_path = workdir / "admin.kubeconfig"
        self.admin_kubeconfig: dict[str, Any] = {}
        self.ca_data_base64 = ""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def api_client(self) -> ApiClient:
        """A client of the `kubernetes` package with every right; closed with the control plane."""
        client: ApiClient = new_client_from_config_dict(self.admin_kubeconfig)
        self._stack.callback(client.close)
        return client

    def require_alive(self) -> None:
        """Raise EngineProcessError where a part has ended."""
        for process in self._processes:
            process.require_alive()

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a GET as administrator; status 0 where nothing answers."""
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.admin_token}"})
        context = ssl.create_default_context(cadata=base64.b64decode(self.ca_data_base64).decode())
        return _answer(request, context)

    def _start(self) -> None:
        etcd = self._run(
            "etcd",
            f"--data-dir={self._workdir / 'etcd'}",
            "--unsafe-no-fsync",  # the data dies with the tests, so a crash may lose it
            f"--listen-client-urls=http://127.0.0.1:{self._etcd_port}",
            f"--advertise-client-urls=http://127.0.0.1:{self._etcd_port}",
            f"--listen-peer-urls=http://127.0.0.1:{self._etcd_peer_port}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{self._etcd_peer_port}",
            f"--initial-cluster=default=http://127.0.0.1:{self._etcd_peer_port}",
        )
        health = urllib.request.Request(f"http://127.0.0.1:{self._etcd_port}/health")
        etcd.wait_until(lambda: _answer(health)[0] == 200, START_TIMEOUT_S, "health")

        key = self._write_service_account_key()
        certificates = self._workdir / "certificates"
        api_server = self._run("kube-apiserver", *self._api_server_flags(key, certificates))
        certificate = certificates / "apiserver.crt"
        api_server.wait_until(certificate.is_file, START_TIMEOUT_S, "certificate")
        # The API server signs its own certificate and writes the whole chain, its authority last.
        self.ca_data_base64 = base64.b64encode(certificate.read_bytes()).decode()
        self._write_admin_kubeconfig()
        api_server.wait_until(lambda: self.get("/readyz")[0] == 200, START_TIMEOUT_S, "readiness")

        kubeconfig = f"--kubeconfig={self.admin_kubeconfig_path}"
        controllers = self._run(
            "kube-controller-manager",
            kubeconfig,
            "--leader-elect=false",
            "--secure-port=0",
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={certificate}",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        )
        scheduler = self._run("kube-scheduler", kubeconfig, "--leader-elect=false", "--secure-port=0")
        kwok = self._run(
            "kwok",
            kubeconfig,
            f"--config={self._write_stages()}",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            f"--server-address=127.0.0.1:{self._kwok_port}",
            "--node-lease-duration-seconds=40",
        )
        health = urllib.request.Request(f"http://127.0.0.1:{self._kwok_port}/healthz")
        kwok.wait_until(lambda: _answer(health)[0] == 200, START_TIMEOUT_S, "health")
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        controllers.wait_until(lambda: self.get(account)[0] == 200, START_TIMEOUT_S, "the default service account")
        scheduler.require_alive()

    def _api_server_flags(self, service_account_key: Path, certificates: Path) -> list[str]:
        tokens = self._workdir / "tokens.csv"
        tokens.write_text(f'{self.admin_token},engine-tier-admin,engine-tier-admin,"system:masters"\n')
        tokens.chmod(0o600)
        flags = [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._api_port}",
            f"--cert-dir={certificates}",
            # Without it the server looks for a network interface to advertise, and there may be none.
            "--endpoint-reconciler-type=none",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={service_account_key}",
            f"--service-account-signing-key-file={service_account_key}",
            f"--service-cluster-ip-range={SERVICE_CIDR}",
        ]
        if self._token_webhook_url is not None:
            webhook = self._workdir / "token-webhook.kubeconfig"
            webhook.write_text(yaml.safe_dump(_kubeconfig({"server": self._token_webhook_url}, {})))
            flags += [
                f"--authentication-token-webhook-config-file={webhook}",
                "--authentication-token-webhook-version=v1",
                # Access entries change within one test, so an answer must not live for the default two minutes.
                "--authentication-token-webhook-cache-ttl=1s",
            ]
        return flags

    def _write_stages(self) -> Path:
        """KWOK's own stages, and last words for the pod of a hydrator, which moves no bytes here."""
        published = self._published_stages.read_text(encoding="utf-8")
        complete = (
            "            exitCode: 0\n            finishedAt: {{ $now | Quote }}\n            reason: Completed\n"
        )
        ended, found, rest = published.rpartition(complete)
        if not found:
            raise EngineProcessError(f"{self._published_stages} has no stage that completes a Job's pod as expected")
        words = (
            f"            {{{{ if eq (index $root.metadata.labels {json.dumps(COMPONENT_LABEL)}) "
            f"{json.dumps(HYDRATOR_COMPONENT)} }}}}\n"
            f"            message: '{json.dumps(HYDRATOR_LAST_WORDS)}'\n"
            "            {{ end }}\n"
        )
        path = self._workdir / "kwok-stages.yaml"
        path.write_text(ended + found + words + rest, encoding="utf-8")
        return path

    def _write_service_account_key(self) -> Path:
        path = self._workdir / "service-account.key"
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
        path.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
        path.chmod(0o600)
        return path

    def _write_admin_kubeconfig(self) -> None:
        cluster = {"server": self.url, "certificate-authority-data": self.ca_data_base64}
        self.admin_kubeconfig = _kubeconfig(cluster, {"token": self.admin_token})
        self.admin_kubeconfig_path.touch(mode=0o600)
        self.admin_kubeconfig_path.write_text(json.dumps(self.admin_kubeconfig, indent=2))

    def _run(self, name: str, *flags: str) -> LoggedProcess:
        process = LoggedProcess(name, [self._bin / name, *flags], self._workdir)
        self._stack.callback(process.stop)
        self._processes.append(process)
        return process


def _kubeconfig(cluster: dict[str, str], user: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "engine-tier", "cluster": cluster}],
        "users": [{"name": "engine-tier", "user": user}],
        "contexts": [{"name": "engine-tier", "context": {"cluster": "engine-tier", "user": "engine-tier"}}],
        "current-context": "engine-tier",
    }


def _answer(request: urllib.request.Request, context: ssl.SSLContext | None = None) -> tuple[int, str]:
    # A proxy of the user's environment has no business between two processes of this machine.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=5) as response:
            return int(response.status), response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (OSError, ssl.SSLError):
        return 0, ""
