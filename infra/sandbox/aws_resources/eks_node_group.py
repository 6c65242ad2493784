"""EKS managed node groups."""

from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.eks_type import EksType, issues, own_tags, split_id
from infra.sandbox.aws_resources.errors import AwsResourceError
from infra.sandbox.aws_resources.properties import Properties, Shape, changed, listed, nested, picked, same


def _taint_key(taint: Properties) -> tuple[str, str]:
    return taint["key"], taint["effect"]


class NodeGroup(EksType):
    """Machines that join a cluster. Sizes, labels, taints and versions change in place, everything else replaces."""

    token = "aws:eks/nodeGroup:NodeGroup"
    label = "EKS Node Group"
    inputs: ClassVar[Shape] = {
        **dict.fromkeys(
            (
                "amiType",
                "capacityType",
                "clusterName",
                "diskSize",
                "forceUpdateVersion",
                "instanceTypes",
                "labels",
                "nodeGroupName",
                "nodeRoleArn",
                "releaseVersion",
                "subnetIds",
                "tags",
                "version",
            )
        ),
        "launchTemplate": dict.fromkeys(("id", "name", "version")),
        "nodeRepairConfig": {
            **dict.fromkeys(
                (
                    "enabled",
                    "maxParallelNodesRepairedCount",
                    "maxParallelNodesRepairedPercentage",
                    "maxUnhealthyNodeThresholdCount",
                    "maxUnhealthyNodeThresholdPercentage",
                )
            ),
            "nodeRepairConfigOverrides": dict.fromkeys(
                ("minRepairWaitTimeMins", "nodeMonitoringCondition", "nodeUnhealthyReason", "repairAction")
            ),
        },
        "remoteAccess": dict.fromkeys(("ec2SshKey", "sourceSecurityGroupIds")),
        "scalingConfig": dict.fromkeys(("desiredSize", "maxSize", "minSize")),
        "taints": dict.fromkeys(("key", "value", "effect")),
        "updateConfig": dict.fromkeys(("maxUnavailable", "maxUnavailablePercentage", "updateStrategy")),
    }
    required = ("clusterName", "nodeRoleArn", "scalingConfig", "subnetIds")
    computed = ("arn", "resources", "status", "tagsAll")
    replace_on = frozenset(
        {
            "amiType",
            "capacityType",
            "clusterName",
            "diskSize",
            "instanceTypes",
            "nodeRoleArn",
            "remoteAccess",
            "subnetIds",
            "launchTemplate.id",
            "launchTemplate.name",
        }
    )
    name_key = "nodeGroupName"
    ordered = frozenset({"instanceTypes"})

    def _identity(self, name: str, inputs: Properties) -> str:
        return f"{inputs.get('clusterName')}:{inputs.get('nodeGroupName', name)}"

    def _replaces(self, path: str, old: Any, new: Any) -> bool:
        # Adding or dropping the template as a whole is no new version of it.
        return path == "launchTemplate" or super()._replaces(path, old, new)

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        request = picked(
            inputs,
            "amiType",
            "capacityType",
            "clusterName",
            "diskSize",
            "instanceTypes",
            "labels",
            "launchTemplate",
            "nodeRepairConfig",
            "releaseVersion",
            "remoteAccess",
            "scalingConfig",
            "taints",
            "updateConfig",
            "version",
            nodeGroupName="nodegroupName",
            nodeRoleArn="nodeRole",
            subnetIds="subnets",
            tagsAll="tags",
        )
        if "launchTemplate" in request:
            request["launchTemplate"] = {key: str(value) for key, value in request["launchTemplate"].items()}
        clients.client("eks").create_nodegroup(**request)
        return f"{inputs['clusterName']}:{inputs['nodeGroupName']}"

    def _found(self, clients: AwsClients, resource_id: str) -> Any:
        cluster, name = split_id(resource_id)
        return clients.client("eks").describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]

    def _settle(self, clients: AwsClients, resource_id: str, inputs: Properties) -> None:
        def active() -> bool:
            found = self._found(clients, resource_id)
            if found["status"] in ("CREATE_FAILED", "DEGRADED"):
                raise AwsResourceError(
                    f"EKS Node Group ({resource_id}) is in status {found['status']}: {issues(found)}"
                )
            return found["status"] == "ACTIVE"

        clients.wait(f"EKS Node Group ({resource_id}) to be ACTIVE", active)

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        eks = clients.client("eks")
        cluster, name = split_id(resource_id)
        where = {"clusterName": cluster, "nodegroupName": name}
        request = {
            key: new[key]
            for key in ("scalingConfig", "updateConfig", "nodeRepairConfig")
            if changed(old, new, key) and new.get(key) is not None
        }
        before, after = nested(old, "labels"), nested(new, "labels")
        if before != after:
            request["labels"] = {
                "addOrUpdateLabels": {key: value for key, value in after.items() if before.get(key) != value},
                "removeLabels": [key for key in before if key not in after],
            }
        had = {_taint_key(taint): taint for taint in listed(old, "taints")}
        has = {_taint_key(taint): taint for taint in listed(new, "taints")}
        put = [taint for key, taint in has.items() if not same(had.get(key), taint)]
        drop = [taint for key, taint in had.items() if key not in has]
        if put or drop:
            request["taints"] = {"addOrUpdateTaints": put, "removeTaints": drop}
        if request:
            answer = eks.update_nodegroup_config(**where, **request)
            self._await_update(clients, answer, name=cluster, nodegroupName=name)
        if changed(old, new, "version", "releaseVersion", "launchTemplate"):
            request = picked(new, "version", "releaseVersion", forceUpdateVersion="force")
            if changed(old, new, "launchTemplate") and new.get("launchTemplate"):
                # AWS takes the template's id or its name, never both.
                template = picked(new["launchTemplate"], "id", "version") or new["launchTemplate"]
                request["launchTemplate"] = {key: str(value) for key, value in template.items()}
            answer = eks.update_nodegroup_version(**where, **request)
            self._await_update(clients, answer, name=cluster, nodegroupName=name)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = self._found(clients, resource_id)
        resources = nested(found, "resources")
        group: Properties = {
            "autoscalingGroups": [{"name": one["name"]} for one in listed(resources, "autoScalingGroups")]
        }
        if resources.get("remoteAccessSecurityGroup"):
            group["remoteAccessSecurityGroupId"] = resources["remoteAccessSecurityGroup"]
        live = {
            "amiType": found.get("amiType"),
            "arn": found["nodegroupArn"],
            "capacityType": found.get("capacityType") or "ON_DEMAND",
            "clusterName": found["clusterName"],
            "labels": nested(found, "labels"),
            "launchTemplate": found.get("launchTemplate"),
            "nodeGroupName": found["nodegroupName"],
            "nodeRoleArn": found["nodeRole"],
            "resources": [group],
            "scalingConfig": found["scalingConfig"],
            "status": found["status"],
            "subnetIds": found["subnets"],
            "tagsAll": own_tags(found.get("tags")),
            "taints": listed(found, "taints"),
            "updateConfig": found.get("updateConfig"),
            "version": found.get("version"),
        }
        optional = picked(found, "diskSize", "instanceTypes", "nodeRepairConfig", "releaseVersion", "remoteAccess")
        return {**live, **optional}

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        cluster, name = split_id(resource_id)
        if self._found(clients, resource_id)["status"] != "DELETING":
            clients.client("eks").delete_nodegroup(clusterName=cluster, nodegroupName=name)
