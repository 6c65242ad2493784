"""EKS operations on managed node groups."""

import uuid
from typing import Any

from infra.sandbox.cloud import scaling
from infra.sandbox.cloud.eks import checks, merged_template
from infra.sandbox.cloud.eks.access import admit_nodes
from infra.sandbox.cloud.eks.call import Call
from infra.sandbox.cloud.eks.errors import in_use, invalid_parameter, invalid_request
from infra.sandbox.cloud.eks.state import Cluster, Description, EksState, Life, NodeGroup, start_update
from infra.sandbox.cloud.images import RELEASE
from infra.sandbox.cloud.simulation import Simulation, current, utc

_SCALING_KEYS = ("minSize", "desiredSize", "maxSize")
_USUAL_SCALING = {"minSize": 1, "desiredSize": 2, "maxSize": 2}


def create_nodegroup(call: Call) -> Description:
    """CreateNodegroup."""
    cluster, name = call.cluster(), call.text("nodegroupName")
    if name in cluster.node_groups:
        message = f"NodeGroup already exists with name {name} and cluster name {cluster.name}"
        raise in_use(message, clusterName=cluster.name, nodegroupName=name)
    if cluster.life.status in ("CREATING", "DELETING"):
        message = f"Cluster '{cluster.name}' is not in ACTIVE status"
        raise invalid_request(message, clusterName=cluster.name, nodegroupName=name)
    capacity_type = call.optional("capacityType") or "ON_DEMAND"
    found = checks.subnets(call.state, call.texts("subnets"), cluster.description["resourcesVpcConfig"]["vpcId"])
    checks.role(call.state, call.text("nodeRole"), "ec2.amazonaws.com")
    template = checks.template(call.state, call.mapping("launchTemplate"))
    if template is not None:
        checks.template_fits(template, capacity_type, call.parameters)
    if capacity_type == "CAPACITY_BLOCK":
        checks.capacity_block(template)
    numbers = {**_USUAL_SCALING, **call.mapping("scalingConfig")}
    checks.scaling(numbers)
    checks.labels(call.mapping("labels"))
    checks.update_config(call.mapping("updateConfig"))
    version = checks.node_version(call.optional("version"), cluster.description["version"])
    in_template = template.data.get("InstanceType") if template else None
    instance_types = call.texts("instanceTypes") or ([] if in_template else ["t3.medium"])
    image_in_template = bool(template and template.data.get("ImageId"))
    identifier = str(uuid.uuid4())
    group_name = f"eks-{name}-{identifier}"
    description: Description = {
        "nodegroupName": name,
        "nodegroupArn": call.state.arn("nodegroup", cluster.name, name, identifier),
        "clusterName": cluster.name,
        "version": version,
        "releaseVersion": call.optional("releaseVersion") or f"{version}.0-{RELEASE}",
        "createdAt": call.now,
        "modifiedAt": call.now,
        "capacityType": capacity_type,
        "subnets": call.texts("subnets"),
        "amiType": call.optional("amiType") or ("CUSTOM" if image_in_template else "AL2023_x86_64_STANDARD"),
        "nodeRole": call.text("nodeRole"),
        "labels": call.mapping("labels"),
        "taints": call.mappings("taints"),
        "resources": {"autoScalingGroups": [{"name": group_name}]},
        "updateConfig": call.mapping("updateConfig") or {"maxUnavailable": 1},
        "tags": call.mapping("tags"),
    }
    if instance_types:
        description["instanceTypes"] = instance_types
    if template is not None:
        shown_template = {"name": template.name, "id": template.template_id, "version": template.version}
        description["launchTemplate"] = shown_template
    else:
        description["diskSize"] = int(call.parameters.get("diskSize") or 20)
    for key in ("nodeRepairConfig", "remoteAccess", "warmPoolConfig"):
        if call.parameters.get(key) is not None:
            description[key] = call.parameters[key]
    merged_id = merged_template.create(call.state, cluster, description, template, identifier)
    life = Life("CREATING", call.now_s + call.durations.node_group_create_s, "ACTIVE")
    group = NodeGroup(description, life, group_name, merged_id, call.now_s)
    admit_nodes(call, cluster, call.text("nodeRole"))
    cluster.node_groups[name] = group
    scaling.create_group(
        call.state.account_id,
        call.state.region,
        group_name,
        merged_id,
        [str(subnet.id) for subnet in found],
        numbers,
        {
            "eks:cluster-name": cluster.name,
            "eks:nodegroup-name": name,
            f"kubernetes.io/cluster/{cluster.name}": "owned",
            f"k8s.io/cluster-autoscaler/{cluster.name}": "owned",
            "k8s.io/cluster-autoscaler/enabled": "true",
        },
        scaling.Launch(
            purchase=_PURCHASES[capacity_type],
            instance_types=tuple(instance_types or [str(in_template)]),
            reservation_id=template.reservation_id if template and capacity_type == "CAPACITY_BLOCK" else None,
        ),
    )
    call.simulation.settle(call.state.account_id, call.state.region)
    return {"nodegroup": shown(call.state, group)}


_PURCHASES = {"ON_DEMAND": "on-demand", "SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}


def describe_nodegroup(call: Call) -> Description:
    """DescribeNodegroup."""
    return {"nodegroup": shown(call.state, call.cluster().node_group(call.text("nodegroupName")))}


def list_nodegroups(call: Call) -> Description:
    """ListNodegroups."""
    return call.page("nodegroups", sorted(call.cluster().node_groups))


def update_nodegroup_config(call: Call) -> Description:
    """UpdateNodegroupConfig: scaling, labels, taints, update and repair settings, any of them together."""
    cluster, group = _active_group(call)
    description = group.description
    parameters: dict[str, Any] = {}
    change = call.mapping("scalingConfig")
    held = scaling.numbers(call.state.account_id, call.state.region, group.group_name)
    numbers = {**held, **change}
    checks.scaling(numbers)
    labels = call.mapping("labels")
    checks.labels(labels.get("addOrUpdateLabels") or {})
    checks.update_config(call.mapping("updateConfig"))
    for key in _SCALING_KEYS:
        if key in change:
            parameters[key[0].upper() + key[1:]] = change[key]
    if labels:
        removed: set[str] = set(labels.get("removeLabels") or [])
        added: dict[str, str] = labels.get("addOrUpdateLabels") or {}
        kept = {key: value for key, value in description["labels"].items() if key not in removed}
        description["labels"] = {**kept, **added}
        parameters |= {"LabelsToAdd": added} if added else {}
        parameters |= {"LabelsToRemove": sorted(removed)} if removed else {}
    taints = call.mapping("taints")
    if taints:
        new: list[dict[str, Any]] = taints.get("addOrUpdateTaints") or []
        old: list[dict[str, Any]] = taints.get("removeTaints") or []
        gone = {_taint_identity(taint) for taint in (*new, *old)}
        description["taints"] = [taint for taint in description["taints"] if _taint_identity(taint) not in gone] + new
        parameters |= {"TaintsToAdd": new} if new else {}
        parameters |= {"TaintsToRemove": old} if old else {}
    if call.mapping("updateConfig"):
        description["updateConfig"] = call.mapping("updateConfig")
        for key, value in description["updateConfig"].items():
            parameters[key[0].upper() + key[1:]] = value
    for key in ("nodeRepairConfig", "warmPoolConfig"):
        if call.parameters.get(key) is not None:
            description[key] = {**description.get(key, {}), **call.parameters[key]}
            parameters[key[0].upper() + key[1:]] = call.parameters[key]
    if not parameters:
        message = "No changes needed for the node group"
        raise invalid_parameter(message, clusterName=cluster.name, nodegroupName=description["nodegroupName"])
    if change:
        scaling.set_numbers(call.state.account_id, call.state.region, group.group_name, numbers)
    return _begin_update(call, group, "ConfigUpdate", parameters, call.durations.node_group_update_s)


def update_nodegroup_version(call: Call) -> Description:
    """UpdateNodegroupVersion: another Kubernetes version, another version of the same launch template, or both.

    Running instances are replaced, as in AWS.
    """
    cluster, group = _active_group(call)
    description = group.description
    given = call.mapping("launchTemplate")
    template = checks.template(call.state, given)
    held = description.get("launchTemplate")
    parameters: dict[str, Any] = {}
    if template is not None:
        if held is None or template.template_id != held["id"]:
            message = "The launch template of a node group cannot be changed, only its version"
            raise invalid_request(message, clusterName=cluster.name, nodegroupName=description["nodegroupName"])
        checks.template_fits(template, description["capacityType"], description)
        if description["capacityType"] == "CAPACITY_BLOCK":
            checks.capacity_block(template)
        parameters["LaunchTemplateName"] = template.name
        parameters["LaunchTemplateVersion"] = template.version
    wanted = call.optional("version")
    if template is None or wanted is not None:
        description["version"] = checks.node_version(wanted, cluster.description["version"])
        description["releaseVersion"] = call.optional("releaseVersion") or f"{description['version']}.0-{RELEASE}"
        parameters |= {"Version": description["version"], "ReleaseVersion": description["releaseVersion"]}
    if template is not None and held is not None:
        held["version"] = template.version
        merged_template.add_version(call.state, cluster, group, template)
        scaling.set_launch(
            call.state.account_id,
            call.state.region,
            group.group_name,
            str(template.data.get("InstanceType") or "") or None,
            template.reservation_id if description["capacityType"] == "CAPACITY_BLOCK" else None,
        )
    scaling.replace_instances(call.state.account_id, call.state.region, group.group_name)
    return _begin_update(call, group, "VersionUpdate", parameters, call.durations.node_group_version_update_s)


def delete_nodegroup(call: Call) -> Description:
    """DeleteNodegroup: its instances are terminated at once, it itself is gone a while later."""
    group = call.cluster().node_group(call.text("nodegroupName"))
    if group.life.status == "DELETING":
        return {"nodegroup": shown(call.state, group)}
    group.life = Life("DELETING", call.now_s + call.durations.node_group_delete_s, None)
    scaling.set_numbers(
        call.state.account_id, call.state.region, group.group_name, {"minSize": 0, "desiredSize": 0, "maxSize": 1}
    )
    answer = {"nodegroup": shown(call.state, group)}
    settle_node_groups(call.state, call.cluster(), call.now_s)
    return answer


def shown(state: EksState, group: NodeGroup) -> Description:
    """A node group as DescribeNodegroup answers it: the numbers are its Auto Scaling group's own."""
    numbers = scaling.numbers(state.account_id, state.region, group.group_name)
    issues = list(group.description.get("failures", []))
    if scaling.launch_fails(state.account_id, state.region, group.group_name):
        issues.append(
            {
                "code": "AsgInstanceLaunchFailures",
                "message": scaling.last_message(state.account_id, state.region, group.group_name),
                "resourceIds": [group.group_name],
            }
        )
    answer = {key: value for key, value in group.description.items() if key != "failures"}
    return {**answer, "status": group.life.status, "scalingConfig": numbers, "health": {"issues": issues}}


def settle_node_groups(state: EksState, cluster: Cluster, now_s: float) -> None:
    """Carry out what fell due on the cluster's node groups."""
    for name, group in list(cluster.node_groups.items()):
        for update in group.updates.values():
            update.life.settle(now_s)
        if group.life.status == "CREATING" and group.life.is_due(now_s):
            _finish_creation(state, group, now_s)
        elif not group.life.settle(now_s):
            scaling.delete_group(state.account_id, state.region, group.group_name)
            merged_template.delete(state, group)
            del cluster.node_groups[name]


def _finish_creation(state: EksState, group: NodeGroup, now_s: float) -> None:
    """ACTIVE once every wanted node has joined; CREATE_FAILED when that takes too long, as EKS does."""
    simulation: Simulation = current()
    # EKS does not look whether nodes of Capacity Blocks joined.
    joins_are_checked = group.description["capacityType"] != "CAPACITY_BLOCK"
    wanted = scaling.numbers(state.account_id, state.region, group.group_name)["desiredSize"]
    joined = scaling.joined_count(state.account_id, state.region, group.group_name, now_s)
    if not joins_are_checked or joined >= wanted:
        group.life.settle(now_s)
    elif now_s >= group.created_s + simulation.durations.node_group_create_timeout_s:
        group.life = Life("CREATE_FAILED")
        running = scaling.instance_ids(state.account_id, state.region, group.group_name)
        group.description["failures"] = (
            [
                {
                    "code": "NodeCreationFailure",
                    "message": "Instances failed to join the kubernetes cluster",
                    "resourceIds": running,
                }
            ]
            if running
            else []
        )


def _begin_update(
    call: Call, group: NodeGroup, kind: str, parameters: dict[str, Any], duration_s: float
) -> Description:
    group.description["modifiedAt"] = utc(call.now_s)
    update = start_update(group.updates, kind, parameters, call.now_s, duration_s)
    group.life = Life("UPDATING", call.now_s + duration_s, "ACTIVE")
    group.life.settle(call.now_s)
    call.simulation.settle(call.state.account_id, call.state.region)
    return {"update": update.shown()}


def _active_group(call: Call) -> tuple[Cluster, NodeGroup]:
    cluster = call.cluster()
    group = cluster.node_group(call.text("nodegroupName"))
    if group.life.status != "ACTIVE":
        message = "Nodegroup cannot be updated as it is currently not in Active State"
        raise in_use(message, clusterName=cluster.name, nodegroupName=group.description["nodegroupName"])
    return cluster, group


def _taint_identity(taint: dict[str, Any]) -> tuple[str, str]:
    return str(taint.get("key")), str(taint.get("effect"))
