"""What stands around the pods: Service, NetworkPolicy, gateway configuration, service account, namespace."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from serving.engine_args import ENGINE_PORT
from serving.manifests.deployment import ServiceNames
from serving.manifests.gateway import CONFIG_FILE, GATEWAY_PORT, gateway_config
from serving.manifests.labels import ACCEPTING_LABEL, app_labels, pod_selector

Exposure = Literal["cluster", "internal", "public"]
EXPOSURES: tuple[Exposure, ...] = ("cluster", "internal", "public")
SERVICE_PORT = 80
_TLS_PORT = 443
METRICS_NAMESPACE_LABEL = "dormouse.dev/metrics"


@dataclass(frozen=True)
class Access:
    """Who reaches the service.

    - `exposure`: `cluster` (only from inside the cluster), `internal` (a load balancer inside the VPC) or `public`.
    - `allowed_cidrs`: addresses that a load balancer lets in; required for `public`.
    - `certificate_arn`: the ACM certificate of the load balancer's TLS listener; required for `public`.
    """

    exposure: Exposure = "cluster"
    allowed_cidrs: tuple[str, ...] = ()
    certificate_arn: str | None = None


def namespace(name: str) -> dict[str, Any]:
    """The namespace; Kubernetes itself refuses privileged pods in it."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {
                "app.kubernetes.io/managed-by": "dormouse",
                "pod-security.kubernetes.io/enforce": "restricted",
            },
        },
    }


def service_account(names: ServiceNames) -> dict[str, Any]:
    """The pods' identity; it may do nothing, in Kubernetes or in AWS."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(names, names.service_account),
        "automountServiceAccountToken": False,
    }


def gateway_config_map(names: ServiceNames) -> dict[str, Any]:
    """The gateway's nginx configuration."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(names, names.gateway_config),
        "data": {CONFIG_FILE: gateway_config()},
    }


def service(names: ServiceNames, access: Access) -> dict[str, Any]:
    """The Service in front of every zone's pods; a network load balancer where access asks for one."""
    port = _TLS_PORT if access.certificate_arn else SERVICE_PORT
    spec: dict[str, Any] = {
        "type": "ClusterIP",
        "selector": {**pod_selector(names.instance), ACCEPTING_LABEL: "true"},
        "ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": GATEWAY_PORT, "protocol": "TCP"}],
    }
    metadata = _metadata(names, names.service)
    if access.exposure != "cluster":
        annotations = {
            "service.beta.kubernetes.io/aws-load-balancer-type": "nlb",
            "service.beta.kubernetes.io/aws-load-balancer-cross-zone-load-balancing-enabled": "true",
        }
        if access.exposure == "internal":
            annotations["service.beta.kubernetes.io/aws-load-balancer-internal"] = "true"
        if access.certificate_arn:
            annotations["service.beta.kubernetes.io/aws-load-balancer-ssl-cert"] = access.certificate_arn
            annotations["service.beta.kubernetes.io/aws-load-balancer-ssl-ports"] = str(_TLS_PORT)
        metadata["annotations"] = annotations
        spec["type"] = "LoadBalancer"
        spec["ports"][0]["port"] = port
        if access.allowed_cidrs:
            spec["loadBalancerSourceRanges"] = list(access.allowed_cidrs)
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


# Pod Identity's agent listens on every node at a link-local address (EKS user guide, Pod Identity).
_TO_S3: tuple[dict[str, Any], ...] = (
    {
        "to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]}}],
        "ports": [{"port": 443, "protocol": "TCP"}],
    },
    {"to": [{"ipBlock": {"cidr": "169.254.170.23/32"}}], "ports": [{"port": 80, "protocol": "TCP"}]},
)


def network_policy(
    names: ServiceNames,
    access: Access,
    control_plane_cidrs: Sequence[str],
    node_cidrs: Sequence[str],
    *,
    reads_s3: bool = False,
    several_machines: bool = False,
) -> dict[str, Any]:
    """Who may open a connection to the pods, and to where the pods may.

    - The gateway's port: every pod of the cluster; the nodes too where a load balancer stands in front.
    - The engine's own port (metrics): namespaces labelled `dormouse.dev/metrics: "true"`, and the API server's proxy,
      whose connections come from `control_plane_cidrs`.
    - Out: nothing but DNS; the weights are on the volume and the engine calls nobody. With `reads_s3` also TLS to
      public addresses (the S3 gateway endpoint has no address of its own) and the node's Pod Identity agent.
    - With `several_machines` to a replica: every port between the pods, since their libraries choose ports as they go.
    """
    gateway_from: list[dict[str, Any]] = [{"namespaceSelector": {}}]
    if access.exposure != "cluster":
        gateway_from += [{"ipBlock": {"cidr": cidr}} for cidr in node_cidrs]
    engine_from: list[dict[str, Any]] = [
        {"namespaceSelector": {"matchLabels": {METRICS_NAMESPACE_LABEL: "true"}}},
        *({"ipBlock": {"cidr": cidr}} for cidr in control_plane_cidrs),
    ]
    peers: list[dict[str, Any]] = [{"podSelector": {"matchLabels": pod_selector(names.instance)}}]
    dns = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(names, names.service),
        "spec": {
            "podSelector": {"matchLabels": pod_selector(names.instance)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": gateway_from, "ports": [{"port": GATEWAY_PORT, "protocol": "TCP"}]},
                {"from": engine_from, "ports": [{"port": ENGINE_PORT, "protocol": "TCP"}]},
                *([{"from": peers}] if several_machines else []),
            ],
            "egress": [
                {"to": [dns], "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
                *(_TO_S3 if reads_s3 else ()),
                *([{"to": peers}] if several_machines else []),
            ],
        },
    }


def _metadata(names: ServiceNames, name: str) -> dict[str, Any]:
    return {"name": name, "namespace": names.namespace, "labels": app_labels(names.instance)}
