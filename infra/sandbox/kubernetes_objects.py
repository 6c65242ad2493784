"""Kubernetes resources of a Pulumi program, applied to an API server."""

import json
import secrets
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from serving.errors import DormouseError

_FIELD_MANAGER = "dormouse-sandbox"
_TIMEOUT_S = 30.0
_CLUSTER_SCOPED = frozenset(
    {
        "APIService",
        "CSIDriver",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
    }
)


class KubernetesRefusedError(DormouseError):
    """The API server refused an object; the message holds its own words."""


def plural(kind: str) -> str:
    """The resource name of a kind in URLs: `networkpolicies` of `NetworkPolicy`."""
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith(("s", "x", "ch")):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") and not name.endswith("ay") else f"{name}s"


def object_path(manifest: Mapping[str, Any]) -> str:
    """The path of an object that has `apiVersion`, `kind` and `metadata.name`."""
    version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
    metadata = manifest["metadata"]
    base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    space = "" if kind in _CLUSTER_SCOPED else f"/namespaces/{quote(metadata.get('namespace') or 'default')}"
    return f"{base}{space}/{plural(kind)}/{quote(metadata['name'])}"


def named(manifest: Mapping[str, Any], resource_name: str) -> dict[str, Any]:
    """`manifest` with a name: where the program gave none it is made up from the resource's name, as the provider does."""
    metadata = dict(manifest.get("metadata") or {})
    metadata.setdefault("name", f"{resource_name}-{secrets.token_hex(4)}")
    if str(manifest.get("kind")) not in _CLUSTER_SCOPED:
        metadata.setdefault("namespace", "default")
    return {**manifest, "metadata": metadata}


class KubernetesObjects:
    """Applies objects to one API server, by server-side apply as Pulumi's Kubernetes provider does.

    - `url`: such as `http://127.0.0.1:6443`; `token`: a bearer token or None; `ca_file`: for a server with TLS.
    """

    def __init__(self, url: str, token: str | None = None, ca_file: str | None = None) -> None:
        """Prepare; nothing is called yet. Raises KubernetesRefusedError for another scheme."""
        if not url.startswith(("http://", "https://")):
            raise KubernetesRefusedError(f"the API server can't be at {url!r}; accepted: http://… or https://…")
        self._url = url.rstrip("/")
        self._token = token
        self._context = ssl.create_default_context(cafile=ca_file) if ca_file else None

    def apply(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Create the object or bring it to `manifest`, and return it as the server has it.

        Raises KubernetesRefusedError.
        """
        path = object_path(manifest)
        request = urllib.request.Request(  # noqa: S310 the scheme is checked above
            f"{self._url}{path}?fieldManager={_FIELD_MANAGER}&force=true",
            data=json.dumps(manifest).encode(),
            method="PATCH",
            headers={"Content-Type": "application/apply-patch+yaml", "Accept": "application/json"},
        )
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=self._context) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            body = error.read().decode(errors="replace")
            try:
                words = str(json.loads(body).get("message") or body)
            except (ValueError, AttributeError):
                words = body or error.reason
            raise KubernetesRefusedError(f"the API server refused {path}: HTTP {error.code}: {words}") from None
        except OSError as error:
            raise KubernetesRefusedError(f"the API server at {self._url} did not answer for {path}: {error}") from error
