"""EKS operations on add-ons."""

import json
import uuid
from collections.abc import Sequence

import yaml

from infra.sandbox.cloud.eks import checks
from infra.sandbox.cloud.eks.call import Call
from infra.sandbox.cloud.eks.errors import in_use, invalid_parameter, invalid_request, not_found
from infra.sandbox.cloud.eks.pod_identity import associate, dissociate
from infra.sandbox.cloud.eks.state import Addon, Cluster, Description, Life, start_update
from infra.versions import kubernetes_minors

KNOWN_ADDONS: tuple[str, ...] = (
    "vpc-cni",
    "kube-proxy",
    "coredns",
    "eks-pod-identity-agent",
    "aws-ebs-csi-driver",
    "eks-node-monitoring-agent",
    "metrics-server",
    "snapshot-controller",
    "amazon-cloudwatch-observability",
    "aws-efs-csi-driver",
    "aws-mountpoint-s3-csi-driver",
    "adot",
)
# The simulated catalogue knows no version but this one by name; a request may pin any, as catalogues change weekly.
DEFAULT_ADDON_VERSION = "v1.0.0-eksbuild.1"


def create_addon(call: Call) -> Description:
    """CreateAddon."""
    cluster, name = call.cluster(), call.text("addonName")
    if name not in KNOWN_ADDONS:
        raise invalid_parameter(f"Addon {name} specified is not supported", clusterName=cluster.name, addonName=name)
    if name in cluster.addons:
        raise in_use("Addon already exists.", clusterName=cluster.name, addonName=name)
    _cluster_must_be_active(cluster, name)
    _configuration(call, cluster, name)
    role_arn = call.optional("serviceAccountRoleArn")
    if role_arn:
        checks.role(call.state, role_arn)
    identifier = str(uuid.uuid4())
    description: Description = {
        "addonName": name,
        "clusterName": cluster.name,
        "addonVersion": call.optional("addonVersion") or DEFAULT_ADDON_VERSION,
        "addonArn": call.state.arn("addon", cluster.name, name, identifier),
        "createdAt": call.now,
        "modifiedAt": call.now,
        "health": {"issues": []},
        "owner": "aws",
        "publisher": "eks",
        "tags": call.mapping("tags"),
    }
    for key in ("configurationValues", "serviceAccountRoleArn", "namespaceConfig"):
        if call.parameters.get(key):
            description[key] = call.parameters[key]
    addon = Addon(description, Life("CREATING", call.now_s + call.durations.addon_create_s, "ACTIVE"))
    _associations(call, cluster, addon)
    addon.life.settle(call.now_s)
    cluster.addons[name] = addon
    return {"addon": addon.shown()}


def describe_addon(call: Call) -> Description:
    """DescribeAddon."""
    return {"addon": call.cluster().addon(call.text("addonName")).shown()}


def list_addons(call: Call) -> Description:
    """ListAddons."""
    return call.page("addons", sorted(call.cluster().addons))


def update_addon(call: Call) -> Description:
    """UpdateAddon."""
    cluster, name = call.cluster(), call.text("addonName")
    addon = cluster.addon(name)
    if addon.life.status != "ACTIVE":
        message = f"Addon {name} cannot be updated as it is currently in {addon.life.status} state"
        raise in_use(message, clusterName=cluster.name, addonName=name)
    _configuration(call, cluster, name)
    role_arn = call.optional("serviceAccountRoleArn")
    if role_arn:
        checks.role(call.state, role_arn)
    for key in ("addonVersion", "configurationValues", "serviceAccountRoleArn"):
        if call.parameters.get(key) is not None:
            addon.description[key] = call.parameters[key]
    if "podIdentityAssociations" in call.parameters:
        _associations(call, cluster, addon)
    addon.description["modifiedAt"] = call.now
    given = {key[0].upper() + key[1:]: value for key, value in call.parameters.items() if key not in _NOT_SHOWN}
    duration_s = call.durations.addon_update_s
    update = start_update(addon.updates, "AddonUpdate", given, call.now_s, duration_s)
    addon.life = Life("UPDATING", call.now_s + duration_s, "ACTIVE")
    addon.life.settle(call.now_s)
    return {"update": update.shown()}


_NOT_SHOWN = ("clusterName", "addonName", "clientRequestToken")


def delete_addon(call: Call) -> Description:
    """DeleteAddon."""
    cluster = call.cluster()
    addon = cluster.addon(call.text("addonName"))
    addon.life = Life("DELETING", call.now_s + call.durations.addon_delete_s, None)
    answer = {"addon": addon.shown()}
    settle_addons(cluster, call.now_s)
    return answer


def describe_addon_versions(call: Call) -> Description:
    """DescribeAddonVersions: a version for every supported cluster version, and those that Dormouse pins."""
    wanted = call.optional("addonName")
    if wanted is not None and wanted not in KNOWN_ADDONS:
        raise not_found(f"Addon {wanted} is not supported", addonName=wanted)
    versions = [call.optional("kubernetesVersion")] if call.optional("kubernetesVersion") else checks.SUPPORTED_VERSIONS
    return {
        "addons": [
            {
                "addonName": name,
                "type": "networking" if name in ("vpc-cni", "coredns", "kube-proxy") else "other",
                "owner": "aws",
                "publisher": "eks",
                "addonVersions": [
                    {
                        "addonVersion": addon_version,
                        "architecture": ["amd64", "arm64"],
                        "requiresConfiguration": False,
                        "compatibilities": [
                            {"clusterVersion": version, "platformVersions": ["*"], "defaultVersion": first}
                            for version in compatible
                        ],
                    }
                    for addon_version, compatible, first in _catalogue(name, versions)
                ],
            }
            for name in KNOWN_ADDONS
            if wanted in (None, name)
        ]
    }


def _catalogue(name: str, versions: Sequence[str | None]) -> list[tuple[str, list[str | None], bool]]:
    """Versions of an add-on, each with the cluster versions that it suits and whether it is their default."""
    pinned: dict[str, list[str | None]] = {}
    for version in versions:
        minor = kubernetes_minors().get(version or "")
        if minor is not None and name in minor.addon_versions:
            pinned.setdefault(minor.addon_versions[name], []).append(version)
    rest = [(addon_version, compatible, False) for addon_version, compatible in pinned.items()]
    return [(DEFAULT_ADDON_VERSION, list(versions), True), *rest]


def settle_addons(cluster: Cluster, now_s: float) -> None:
    """Carry out what fell due on the cluster's add-ons; one that goes takes its pod identity associations along."""
    for name, addon in list(cluster.addons.items()):
        for update in addon.updates.values():
            update.life.settle(now_s)
        if not addon.life.settle(now_s):
            dissociate(cluster, addon.description["addonArn"])
            del cluster.addons[name]


def _associations(call: Call, cluster: Cluster, addon: Addon) -> None:
    owner = addon.description["addonArn"]
    dissociate(cluster, owner)
    arns = [
        associate(call, cluster, "kube-system", str(given["serviceAccount"]), str(given["roleArn"]), owner)[
            "associationArn"
        ]
        for given in call.mappings("podIdentityAssociations")
    ]
    addon.description["podIdentityAssociations"] = arns


def _configuration(call: Call, cluster: Cluster, addon_name: str) -> None:
    """Raises InvalidParameterException unless the configuration values are a JSON or YAML object."""
    text = call.optional("configurationValues")
    if not text:
        return
    try:
        values = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        values = None
    if not isinstance(values, dict):
        message = "ConfigurationValue provided in request is not supported: it is not a JSON or YAML object"
        raise invalid_parameter(message, clusterName=cluster.name, addonName=addon_name)


def _cluster_must_be_active(cluster: Cluster, addon_name: str) -> None:
    if cluster.life.status in ("CREATING", "DELETING"):
        message = f"Addons cannot be created while cluster {cluster.name} is {cluster.life.status}"
        raise invalid_request(message, clusterName=cluster.name, addonName=addon_name)
