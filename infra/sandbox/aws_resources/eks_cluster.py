"""EKS clusters."""

from collections.abc import Mapping
from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.eks_type import EksType, issues, own_tags
from infra.sandbox.aws_resources.errors import AwsResourceError
from infra.sandbox.aws_resources.properties import Properties, Shape, changed, differences, listed, nested, picked

_LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
_VPC_ARGUMENTS = ("subnetIds", "securityGroupIds", "endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs")
_ENDPOINT_ARGUMENTS = ("endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs")


def _logging(enabled: list[str]) -> dict[str, Any]:
    off = [name for name in _LOG_TYPES if name not in enabled]
    setups = [{"types": enabled, "enabled": True}, {"types": off, "enabled": False}]
    return {"clusterLogging": [setup for setup in setups if setup["types"]]}


class Cluster(EksType):
    """A Kubernetes control plane run by AWS."""

    token = "aws:eks/cluster:Cluster"
    label = "EKS Cluster"
    inputs: ClassVar[Shape] = {
        **dict.fromkeys(
            (
                "name",
                "roleArn",
                "version",
                "enabledClusterLogTypes",
                "bootstrapSelfManagedAddons",
                "deletionProtection",
                "defaultAddonsToRemoves",
                "forceUpdateVersion",
                "tags",
            )
        ),
        "accessConfig": dict.fromkeys(("authenticationMode", "bootstrapClusterCreatorAdminPermissions")),
        "encryptionConfig": {"provider": {"keyArn": None}, "resources": None},
        "kubernetesNetworkConfig": {
            "ipFamily": None,
            "serviceIpv4Cidr": None,
            "elasticLoadBalancing": {"enabled": None},
        },
        "upgradePolicy": {"supportType": None},
        "vpcConfig": dict.fromkeys(_VPC_ARGUMENTS),
        "zonalShiftConfig": {"enabled": None},
    }
    required = ("roleArn", "vpcConfig")
    defaults: ClassVar[Mapping[str, Any]] = {"bootstrapSelfManagedAddons": True}
    computed = (
        "arn",
        "certificateAuthority",
        "createdAt",
        "endpoint",
        "identities",
        "platformVersion",
        "status",
        "tagsAll",
    )
    replace_on = frozenset(
        {
            "roleArn",
            "bootstrapSelfManagedAddons",
            "accessConfig.bootstrapClusterCreatorAdminPermissions",
            "kubernetesNetworkConfig.ipFamily",
            "kubernetesNetworkConfig.serviceIpv4Cidr",
        }
    )
    name_key = "name"

    def _replaces(self, path: str, old: Any, new: Any) -> bool:
        # Encryption can be switched on in place; it can never be changed or switched off.
        if path.startswith("encryptionConfig"):
            return bool(old.get("encryptionConfig"))
        return super()._replaces(path, old, new)

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        request = picked(
            inputs,
            "name",
            "roleArn",
            "version",
            "accessConfig",
            "bootstrapSelfManagedAddons",
            "deletionProtection",
            "kubernetesNetworkConfig",
            "upgradePolicy",
            "zonalShiftConfig",
            tagsAll="tags",
        )
        request["resourcesVpcConfig"] = picked(inputs["vpcConfig"], *_VPC_ARGUMENTS)
        if inputs.get("encryptionConfig"):
            request["encryptionConfig"] = [inputs["encryptionConfig"]]
        if inputs.get("enabledClusterLogTypes"):
            request["logging"] = _logging(inputs["enabledClusterLogTypes"])
        return str(clients.client("eks").create_cluster(**request)["cluster"]["name"])

    def _settle(self, clients: AwsClients, resource_id: str, inputs: Properties) -> None:
        def active() -> bool:
            found = clients.client("eks").describe_cluster(name=resource_id)["cluster"]
            if found["status"] == "FAILED":
                raise AwsResourceError(f"EKS Cluster ({resource_id}) is in status FAILED: {issues(found)}")
            return found["status"] == "ACTIVE"

        clients.wait(f"EKS Cluster ({resource_id}) to be ACTIVE", active)

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        eks = clients.client("eks")

        def configure(**request: Any) -> None:
            self._await_update(clients, eks.update_cluster_config(name=resource_id, **request), name=resource_id)

        if changed(old, new, "version") and new.get("version"):
            force = picked(new, forceUpdateVersion="force")
            answer = eks.update_cluster_version(name=resource_id, version=new["version"], **force)
            self._await_update(clients, answer, name=resource_id)
        before, after = nested(old, "vpcConfig"), nested(new, "vpcConfig")
        # EKS takes one kind of change at a time.
        if changed(before, after, *_ENDPOINT_ARGUMENTS):
            configure(resourcesVpcConfig=picked(after, *_ENDPOINT_ARGUMENTS))
        if changed(before, after, "subnetIds", "securityGroupIds"):
            configure(resourcesVpcConfig=picked(after, "subnetIds", "securityGroupIds"))
        if changed(old, new, "enabledClusterLogTypes"):
            configure(logging=_logging(listed(new, "enabledClusterLogTypes")))
        for name in ("upgradePolicy", "deletionProtection", "zonalShiftConfig"):
            if changed(old, new, name) and new.get(name) is not None:
                configure(**{name: new[name]})
        mode = nested(new, "accessConfig").get("authenticationMode")
        if mode and mode != nested(old, "accessConfig").get("authenticationMode"):
            configure(accessConfig={"authenticationMode": mode})
        balancing = "kubernetesNetworkConfig.elasticLoadBalancing"
        if any(path.startswith(balancing) for path in differences(old, new)):
            part = picked(nested(new, "kubernetesNetworkConfig"), "elasticLoadBalancing")
            configure(kubernetesNetworkConfig=part)
        if new.get("encryptionConfig") and not old.get("encryptionConfig"):
            answer = eks.associate_encryption_config(
                clusterName=resource_id, encryptionConfig=[new["encryptionConfig"]]
            )
            self._await_update(clients, answer, name=resource_id)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = clients.client("eks").describe_cluster(name=resource_id)["cluster"]
        setups = nested(found, "logging").get("clusterLogging") or ()
        issuer = nested(nested(found, "identity"), "oidc").get("issuer")
        encryption = listed(found, "encryptionConfig")
        return {
            "arn": found["arn"],
            "accessConfig": nested(found, "accessConfig"),
            "certificateAuthority": {"data": nested(found, "certificateAuthority").get("data", "")},
            "createdAt": found["createdAt"].isoformat() if found.get("createdAt") else "",
            "deletionProtection": bool(found.get("deletionProtection")),
            "enabledClusterLogTypes": [name for setup in setups if setup["enabled"] for name in setup["types"]],
            "encryptionConfig": encryption[0] if encryption else None,
            "endpoint": found.get("endpoint", ""),
            "identities": [{"oidcs": [{"issuer": issuer}]}] if issuer else [],
            "kubernetesNetworkConfig": nested(found, "kubernetesNetworkConfig"),
            "name": found["name"],
            "platformVersion": found.get("platformVersion", ""),
            "roleArn": found["roleArn"],
            "status": found["status"],
            "tagsAll": own_tags(found.get("tags")),
            "upgradePolicy": nested(found, "upgradePolicy"),
            "version": found["version"],
            "vpcConfig": found["resourcesVpcConfig"],
            **({"zonalShiftConfig": found["zonalShiftConfig"]} if found.get("zonalShiftConfig") else {}),
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        eks = clients.client("eks")
        # A deletion that was interrupted goes on by itself.
        if eks.describe_cluster(name=resource_id)["cluster"]["status"] != "DELETING":
            eks.delete_cluster(name=resource_id)
