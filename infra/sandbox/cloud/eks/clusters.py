"""EKS operations on clusters."""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# moto's backends are untyped.

import base64
import uuid
from collections.abc import Iterable
from typing import Any

from moto.ec2.models import ec2_backends

from infra.sandbox.cloud.eks import checks
from infra.sandbox.cloud.eks.access import bootstrap_creator
from infra.sandbox.cloud.eks.call import Call
from infra.sandbox.cloud.eks.errors import in_use, invalid_parameter, invalid_request
from infra.sandbox.cloud.eks.state import Cluster, Description, EksState, Life, start_update
from infra.sandbox.cloud.simulation import Simulation

_LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
# Settings that EKS keeps as given; the others are treated one by one.
_KEPT = (
    "encryptionConfig",
    "zonalShiftConfig",
    "remoteNetworkConfig",
    "computeConfig",
    "storageConfig",
    "controlPlaneScalingConfig",
    "kubeApiServerConfig",
    "kubeSchedulerConfig",
    "kubeControllerManagerConfig",
)


def create_cluster(call: Call) -> Description:
    """CreateCluster."""
    name = call.text("name")
    if name in call.state.clusters:
        raise in_use(f"Cluster already exists with name: {name}", clusterName=name)
    network = call.mapping("resourcesVpcConfig")
    found = checks.subnets(call.state, network.get("subnetIds") or [])
    if len({subnet.availability_zone for subnet in found}) < 2:
        raise invalid_parameter("Subnets specified must be in at least two different AZs", clusterName=name)
    if len({subnet.vpc_id for subnet in found}) > 1:
        raise invalid_parameter("Subnets specified must be in the same VPC", clusterName=name)
    checks.security_groups(call.state, network.get("securityGroupIds") or [])
    checks.role(call.state, call.text("roleArn"), "eks.amazonaws.com")
    version = checks.version(call.optional("version"))
    access = call.mapping("accessConfig")
    bootstrap = bool(access.get("bootstrapClusterCreatorAdminPermissions", True))
    description: Description = {
        "name": name,
        "arn": call.state.arn("cluster", name),
        "createdAt": call.now,
        "version": version,
        "platformVersion": "eks.1",
        "roleArn": call.text("roleArn"),
        "resourcesVpcConfig": _network(network, found[0].vpc_id),
        "kubernetesNetworkConfig": {
            "serviceIpv4Cidr": "172.20.0.0/16",
            "ipFamily": "ipv4",
            "elasticLoadBalancing": {"enabled": False},
            **call.mapping("kubernetesNetworkConfig"),
        },
        "logging": _logging({}, call.mapping("logging")),
        "identity": {"oidc": {"issuer": f"https://oidc.eks.{call.state.region}.amazonaws.com/id/{_identity()}"}},
        "accessConfig": {
            # EKS's own default for requests that say nothing.
            "authenticationMode": access.get("authenticationMode", "CONFIG_MAP"),
            "bootstrapClusterCreatorAdminPermissions": bootstrap,
        },
        "upgradePolicy": {"supportType": "EXTENDED", **call.mapping("upgradePolicy")},
        "deletionProtection": bool(call.parameters.get("deletionProtection", False)),
        "health": {"issues": []},
        "tags": call.mapping("tags"),
        **{key: call.parameters[key] for key in _KEPT if call.parameters.get(key) is not None},
    }
    life = Life("CREATING", call.now_s + call.durations.cluster_create_s, "ACTIVE")
    cluster = Cluster(description, life)
    _occupy_network(call.state, cluster, found)
    if bootstrap and description["accessConfig"]["authenticationMode"] != "CONFIG_MAP":
        bootstrap_creator(call, cluster)
    call.state.clusters[name] = cluster
    life.settle(call.now_s)
    return {"cluster": shown(cluster, call.simulation)}


def describe_cluster(call: Call) -> Description:
    """DescribeCluster."""
    return {"cluster": shown(call.cluster("name"), call.simulation)}


def list_clusters(call: Call) -> Description:
    """ListClusters."""
    return call.page("clusters", sorted(call.state.clusters))


def delete_cluster(call: Call) -> Description:
    """DeleteCluster."""
    cluster = call.cluster("name")
    if cluster.description["deletionProtection"]:
        message = f"Cluster {cluster.name} has deletion protection enabled; disable it before deleting the cluster"
        raise invalid_request(message, clusterName=cluster.name)
    if cluster.node_groups:
        raise in_use(
            "Cluster has nodegroups attached", clusterName=cluster.name, nodegroupName=next(iter(cluster.node_groups))
        )
    _must_be_active(cluster)
    cluster.life = Life("DELETING", call.now_s + call.durations.cluster_delete_s, None)
    answer = {"cluster": shown(cluster, call.simulation)}
    settle_cluster(call.state, cluster, call.now_s)
    return answer


def update_cluster_config(call: Call) -> Description:
    """UpdateClusterConfig: one kind of change a request, as EKS demands."""
    cluster = call.cluster("name")
    _must_be_active(cluster)
    kinds = [key for key in call.parameters if key not in ("name", "clientRequestToken")]
    if len(kinds) != 1:
        raise invalid_parameter("Only one type of update can be allowed, and one is needed", clusterName=cluster.name)
    kind = kinds[0]
    description = cluster.description
    change = call.parameters[kind]
    if kind == "resourcesVpcConfig":
        if change.get("subnetIds"):
            checks.subnets(call.state, change["subnetIds"], description[kind]["vpcId"])
        checks.security_groups(call.state, change.get("securityGroupIds") or [])
        _must_differ(cluster, description[kind], change)
        description[kind] = {**description[kind], **change}
        name = "VpcConfigUpdate" if change.get("subnetIds") else "EndpointAccessUpdate"
    elif kind == "logging":
        description[kind] = _logging(description[kind], change)
        name = "LoggingUpdate"
    elif kind == "accessConfig":
        _must_differ(cluster, description[kind], change)
        description[kind] = {**description[kind], **change}
        name = "AccessConfigUpdate"
    elif kind == "deletionProtection":
        description[kind] = bool(change)
        name = "DeletionProtectionUpdate"
    else:
        held = description.get(kind)
        description[kind] = {**held, **change} if isinstance(held, dict) else change
        name = kind[0].upper() + kind[1:].removesuffix("Config") + "Update"
    return _begin_update(call, cluster, name, {kind[0].upper() + kind[1:]: change}, call.durations.cluster_update_s)


def update_cluster_version(call: Call) -> Description:
    """UpdateClusterVersion: one minor version up."""
    cluster = call.cluster("name")
    _must_be_active(cluster)
    old, new = cluster.description["version"], call.text("version")
    following = dict(zip(checks.SUPPORTED_VERSIONS, checks.SUPPORTED_VERSIONS[1:], strict=False)).get(old)
    if new != following:
        message = f"Unsupported Kubernetes minor version update from {old} to {new}"
        raise invalid_parameter(message, clusterName=cluster.name)
    cluster.description["version"] = new
    duration_s = call.durations.cluster_version_update_s
    return _begin_update(call, cluster, "VersionUpdate", {"Version": new}, duration_s)


def describe_cluster_versions(call: Call) -> Description:
    """DescribeClusterVersions: the supported ones, newest first."""
    wanted = call.texts("clusterVersions") or list(checks.SUPPORTED_VERSIONS)
    versions = [
        {
            "clusterVersion": version,
            "clusterType": "eks",
            "defaultVersion": version == checks.DEFAULT_VERSION,
            "status": "standard-support",
            "versionStatus": "STANDARD_SUPPORT",
            "defaultPlatformVersion": "eks.1",
        }
        for version in reversed(checks.SUPPORTED_VERSIONS)
        if version in wanted
    ]
    return {"clusterVersions": versions}


def shown(cluster: Cluster, simulation: Simulation) -> Description:
    """A cluster as DescribeCluster answers it: address and CA once it has been created."""
    answer = {**cluster.description, "status": cluster.life.status}
    if cluster.life.status != "CREATING":
        issuer: str = cluster.description["identity"]["oidc"]["issuer"]
        region = cluster.description["arn"].split(":")[3]
        usual = f"https://{issuer.rsplit('/', 1)[1]}.gr7.{region}.eks.amazonaws.com"
        unusable = base64.b64encode(b"simulated cluster without a Kubernetes API server\n").decode()
        answer["endpoint"] = simulation.kubernetes.endpoint or usual
        answer["certificateAuthority"] = {"data": simulation.kubernetes.certificate_authority_data or unusable}
    return answer


def settle_cluster(state: EksState, cluster: Cluster, now_s: float) -> None:
    """Carry out what fell due on the cluster itself: a status, an update's end, its disappearance."""
    for update in cluster.updates.values():
        update.life.settle(now_s)
    if cluster.life.settle(now_s):
        return
    backend: Any = ec2_backends[state.account_id][state.region]
    for interface_id in cluster.interface_ids:
        if interface_id in backend.enis:
            backend.enis[interface_id].delete()
    group_id = cluster.description["resourcesVpcConfig"]["clusterSecurityGroupId"]
    if backend.get_security_group_from_id(group_id) is not None:
        backend.groups[cluster.description["resourcesVpcConfig"]["vpcId"]].pop(group_id, None)
    state.clusters.pop(cluster.name, None)


def _begin_update(
    call: Call, cluster: Cluster, kind: str, parameters: dict[str, Any], duration_s: float
) -> Description:
    update = start_update(cluster.updates, kind, parameters, call.now_s, duration_s)
    cluster.life = Life("UPDATING", call.now_s + duration_s, "ACTIVE")
    cluster.life.settle(call.now_s)
    return {"update": update.shown()}


def _must_be_active(cluster: Cluster) -> None:
    if cluster.life.status != "ACTIVE":
        message = f"Cluster status is {cluster.life.status}, it must be ACTIVE for this operation"
        raise in_use(message, clusterName=cluster.name)


def _must_differ(cluster: Cluster, held: Description, change: Description) -> None:
    if all(held.get(key) == value for key, value in change.items()):
        raise invalid_parameter("Cluster is already at the desired configuration", clusterName=cluster.name)


def _network(given: Description, vpc_id: str) -> Description:
    return {
        "endpointPublicAccess": True,
        "endpointPrivateAccess": False,
        "publicAccessCidrs": ["0.0.0.0/0"],
        "securityGroupIds": [],
        **given,
        "vpcId": vpc_id,
    }


def _logging(held: Description, given: Description) -> Description:
    """EKS's two lists, enabled and disabled types, after `given` was laid over `held`."""
    enabled = {name for setup in _setups(held) if setup.get("enabled") for name in setup.get("types", [])}
    for setup in _setups(given):
        types = set(setup.get("types") or [])
        enabled = enabled | types if setup.get("enabled") else enabled - types
    lists = [(True, [name for name in _LOG_TYPES if name in enabled])]
    lists.append((False, [name for name in _LOG_TYPES if name not in enabled]))
    return {"clusterLogging": [{"types": types, "enabled": on} for on, types in lists if types]}


def _setups(logging: Description) -> Iterable[Description]:
    return logging.get("clusterLogging") or []


def _identity() -> str:
    return uuid.uuid4().hex.upper()


def _occupy_network(state: EksState, cluster: Cluster, found: list[Any]) -> None:
    """The cluster security group and the control plane's network interfaces, which hold subnets and groups in use."""
    backend: Any = ec2_backends[state.account_id][state.region]
    network = cluster.description["resourcesVpcConfig"]
    group = backend.create_security_group(
        f"eks-cluster-sg-{cluster.name}-{uuid.uuid4().hex[:8]}",
        "EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, as well as any "
        "managed workloads.",
        vpc_id=network["vpcId"],
        tags={f"kubernetes.io/cluster/{cluster.name}": "owned", "aws:eks:cluster-name": cluster.name},
    )
    backend.authorize_security_group_ingress(group.id, "-1", None, None, [], source_groups=[{"GroupId": group.id}])
    network["clusterSecurityGroupId"] = group.id
    for subnet in found:
        interface = backend.create_network_interface(
            subnet,
            subnet.get_available_subnet_ip(instance=None),
            group_ids=[group.id, *network["securityGroupIds"]],
            description=f"Amazon EKS {cluster.name}",
        )
        interface.status = "in-use"
        cluster.interface_ids.append(interface.id)
