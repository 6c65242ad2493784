"""A way in from outside the cluster: kubectl's port-forward to the Service, with a token of our own."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from infra.jobs.clients import Clients
from infra.jobs.eks_token import eks_token
from infra.outputs import StackOutputs
from serving.errors import JobError


class ConnectError(JobError):
    """No connection could be opened."""


def connect_to_service(outputs: StackOutputs, clients: Clients, local_port: int) -> int:
    """Forward 127.0.0.1:`local_port` to the Service until interrupted; returns kubectl's exit code.

    The token stands in a file that only this user reads, never on a command line, and is gone at the end.
    Raises ConnectError without kubectl.
    """
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise ConnectError(
            "no `kubectl` on PATH; `dormouse connect` forwards through it. Install it, or call the service from inside"
            f" the cluster at {inside_url(outputs)}"
        )
    cluster: dict[str, Any] = clients.eks.describe_cluster(name=outputs.cluster_name)["cluster"]
    token = eks_token(clients.sts, outputs.cluster_name, outputs.region)
    with tempfile.TemporaryDirectory(prefix="dormouse-connect-") as folder:
        path = Path(folder) / "kubeconfig"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            json.dump(_kubeconfig(cluster, token), file)
        return subprocess.run(
            [
                kubectl, "--kubeconfig", str(path), "--namespace", outputs.namespace, "port-forward",
                "--address", "127.0.0.1", f"service/{outputs.service_name}", f"{local_port}:{outputs.service_port}",
            ],
            check=False,
        ).returncode  # fmt: skip


def inside_url(outputs: StackOutputs) -> str:
    """The OpenAI-compatible base URL inside the cluster."""
    scheme = "https" if outputs.service_port == 443 else "http"
    port = "" if outputs.service_port in (80, 443) else f":{outputs.service_port}"
    return f"{scheme}://{outputs.service_name}.{outputs.namespace}.svc.cluster.local{port}/v1"


def _kubeconfig(cluster: dict[str, Any], token: str) -> dict[str, Any]:
    described: dict[str, str] = {"server": cluster["endpoint"]}
    authority: dict[str, Any] = cluster.get("certificateAuthority") or {}
    if authority.get("data"):
        described["certificate-authority-data"] = authority["data"]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "stack", "cluster": described}],
        "users": [{"name": "stack", "user": {"token": token}}],
        "contexts": [{"name": "stack", "context": {"cluster": "stack", "user": "stack"}}],
        "current-context": "stack",
    }
