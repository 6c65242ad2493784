"""What EKS refuses: references that do not exist, and settings that contradict each other."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's and botocore's models are untyped.

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.iam.models import iam_backends

from infra.sandbox.cloud.eks.errors import EksError, invalid_parameter, invalid_request
from infra.sandbox.cloud.eks.state import EksState

SUPPORTED_VERSIONS: tuple[str, ...] = ("1.34", "1.35", "1.36")
DEFAULT_VERSION = "1.36"
# EKS: a kubelet may be at most three minor versions older than the control plane.
OLDEST_NODE_LAG = 3

_RESERVED_LABEL_PREFIXES = ("kubernetes.io/", "k8s.io/", "eks.amazonaws.com/")
_FORBIDDEN_TEMPLATE_FIELDS = ("IamInstanceProfile", "HibernationOptions", "InstanceInitiatedShutdownBehavior")


@dataclass(frozen=True)
class Template:
    """A launch template version: ids as EC2 knows them, `data` as EC2's RequestLaunchTemplateData."""

    template_id: str
    name: str
    version: str
    data: Mapping[str, Any]

    @property
    def market_type(self) -> str | None:
        """`spot`, `capacity-block` or None."""
        return (self.data.get("InstanceMarketOptions") or {}).get("MarketType")

    @property
    def reservation_id(self) -> str | None:
        """The capacity reservation that it targets, or None."""
        target = (self.data.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
        return target.get("CapacityReservationId")


def enum_fault(shape: Any, value: Any, where: str = "") -> str | None:
    """The first text in `value` that botocore's `shape` does not list among its values, as AWS words it, or None."""
    if value is None:
        return None
    if shape.type_name == "structure" and isinstance(value, Mapping):
        parts = ((member, value.get(name), f"{where}.{name}".lstrip(".")) for name, member in shape.members.items())
    elif shape.type_name == "list" and isinstance(value, Sequence) and not isinstance(value, str):
        parts = ((shape.member, item, where) for item in value)
    else:
        allowed = getattr(shape, "enum", None)
        if allowed and str(value) not in allowed:
            return (
                f"1 validation error detected: Value '{value}' at '{where}' failed to satisfy constraint: "
                f"Member must satisfy enum value set: [{', '.join(allowed)}]"
            )
        return None
    return next((fault for part in parts if (fault := enum_fault(*part)) is not None), None)


def subnets(state: EksState, subnet_ids: Iterable[str], vpc_id: str | None = None) -> list[Any]:
    """The subnets of those ids; raises InvalidParameterException where one is missing or in another VPC."""
    backend: Any = ec2_backends[state.account_id][state.region]
    known = {subnet.id: subnet for zone in backend.subnets.values() for subnet in zone.values()}
    found: list[Any] = []
    for subnet_id in subnet_ids:
        if subnet_id not in known:
            raise invalid_parameter(
                f"The subnet ID '{subnet_id}' does not exist (Service: AmazonEC2; Status Code: 400; "
                "Error Code: InvalidSubnetID.NotFound)"
            )
        if vpc_id is not None and known[subnet_id].vpc_id != vpc_id:
            raise invalid_parameter(f"Subnet {subnet_id} does not belong to the cluster's VPC {vpc_id}")
        found.append(known[subnet_id])
    if not found:
        raise invalid_parameter("Subnets are required")
    return found


def security_groups(state: EksState, group_ids: Iterable[str]) -> None:
    """Raises InvalidParameterException where a security group does not exist."""
    backend: Any = ec2_backends[state.account_id][state.region]
    for group_id in group_ids:
        if backend.get_security_group_from_id(group_id) is None:
            raise invalid_parameter(
                f"The security group '{group_id}' does not exist (Service: AmazonEC2; Status Code: 400; "
                "Error Code: InvalidGroup.NotFound)"
            )


def role(state: EksState, arn: str, trusted_service: str | None = None) -> None:
    """Raises InvalidParameterException unless the role exists and trusts `trusted_service`.

    - `trusted_service`: such as `eks.amazonaws.com`; None asks for existence alone.
    """
    roles: Any = iam_backends[state.account_id][state.partition].roles
    found = next((one for one in roles.values() if one.arn == arn), None)
    if found is None or (trusted_service and trusted_service not in str(found.assume_role_policy_document)):
        raise invalid_parameter(
            f"Role with arn: {arn}, could not be assumed because it does not exist or the trusted entity is not correct"
        )


def version(value: str | None) -> str:
    """A control plane version, by default the newest; raises InvalidParameterException for others."""
    if value is None:
        return DEFAULT_VERSION
    if value not in SUPPORTED_VERSIONS:
        raise invalid_parameter(f"unsupported Kubernetes version {value}; supported: {', '.join(SUPPORTED_VERSIONS)}")
    return value


def node_version(value: str | None, cluster_version: str) -> str:
    """A node group's version, by default the cluster's; raises InvalidParameterException for newer or too old ones."""
    if value is None:
        return cluster_version
    try:
        lag = int(cluster_version.split(".")[1]) - int(value.split(".")[1])
    except (IndexError, ValueError):
        raise invalid_parameter(f"Requested Nodegroup version {value} is not a Kubernetes version") from None
    if not 0 <= lag <= OLDEST_NODE_LAG:
        raise invalid_parameter(
            f"Requested Nodegroup version {value} is invalid. Allowed: up to {OLDEST_NODE_LAG} minor versions older "
            f"than the cluster's {cluster_version}"
        )
    return value


def template(state: EksState, given: Mapping[str, Any] | None) -> Template | None:
    """The launch template version that a request names; raises InvalidRequestException where it does not exist."""
    if not given:
        return None
    backend: Any = ec2_backends[state.account_id][state.region]
    wanted = given.get("id") or given.get("name")
    found = next((one for one in backend.launch_templates.values() if wanted in (one.id, one.name)), None)
    if found is None:
        raise invalid_request(f"Launch template {wanted} could not be found.")
    number = str(given.get("version") or "$Default")
    try:
        chosen = found.get_version(number)
    except (EC2ClientError, ValueError):
        raise invalid_request(f"You specified an invalid version {number} for launch template {found.id}") from None
    return Template(found.id, found.name, str(chosen.number), chosen.data)


def template_fits(chosen: Template, capacity_type: str, request: Mapping[str, Any]) -> None:
    """Raises InvalidRequestException where the template holds what EKS forbids for such a node group."""
    data = chosen.data
    forbidden = [name for name in _FORBIDDEN_TEMPLATE_FIELDS if data.get(name)]
    interfaces: Sequence[Mapping[str, Any]] = data.get("NetworkInterfaces") or []
    if any(interface.get("SubnetId") for interface in interfaces):
        forbidden.append("NetworkInterfaces.SubnetId")
    if forbidden:
        raise invalid_request(f"The launch template must not set {', '.join(forbidden)}")
    if interfaces and data.get("SecurityGroupIds"):
        raise invalid_request("Network interfaces and an instance-level security groups may not be specified together")
    if data.get("InstanceType") and request.get("instanceTypes"):
        raise invalid_request("Instance types can't be specified both in the launch template and the request")
    if request.get("diskSize"):
        raise invalid_request("Disk size must be specified within the launch template.")
    if request.get("remoteAccess"):
        raise invalid_request("Remote access configuration cannot be specified with a launch template.")
    if data.get("ImageId") and request.get("amiType") not in (None, "CUSTOM"):
        raise invalid_request(
            "You cannot specify an AMI Type other than CUSTOM, when specifying an image id in your launch template."
        )
    market = chosen.market_type
    if capacity_type != "CAPACITY_BLOCK" and market is not None:
        raise invalid_request(
            f"A node group of capacity type {capacity_type} cannot use a launch template with instance market option "
            f"{market}"
        )


def capacity_block(chosen: Template | None) -> None:
    """Raises InvalidRequestException unless the template can launch into a Capacity Block."""
    if chosen is None or chosen.market_type != "capacity-block":
        raise invalid_request(
            "Capacity type CAPACITY_BLOCK needs a launch template with instance market option capacity-block"
        )
    if not chosen.reservation_id:
        raise invalid_request("Capacity type CAPACITY_BLOCK needs a launch template with a capacity reservation target")
    if not chosen.data.get("InstanceType"):
        raise invalid_request("Capacity type CAPACITY_BLOCK needs the instance type in the launch template")


def scaling(numbers: Mapping[str, int]) -> None:
    """Raises InvalidParameterException unless 0 ≤ minSize ≤ desiredSize ≤ maxSize and maxSize ≥ 1."""
    least, desired, most = numbers["minSize"], numbers["desiredSize"], numbers["maxSize"]
    fault: EksError | None = None
    if most < 1:
        fault = invalid_parameter(f"maxSize {most} must be at least 1")
    elif least < 0 or least > most:
        fault = invalid_parameter(f"Minimum capacity {least} can't be greater than maximum size {most} or below 0")
    elif desired > most:
        fault = invalid_parameter(f"desired capacity {desired} can't be greater than max size {most}")
    elif desired < least:
        fault = invalid_parameter(f"desired capacity {desired} can't be less than min size {least}")
    if fault is not None:
        raise fault


def labels(given: Mapping[str, str]) -> None:
    """Raises InvalidParameterException for a label with a prefix that Kubernetes or EKS keeps for itself."""
    if any(key.startswith(_RESERVED_LABEL_PREFIXES) for key in given):
        raise invalid_parameter(f"Label cannot contain reserved prefixes [{', '.join(_RESERVED_LABEL_PREFIXES)}]")


def update_config(given: Mapping[str, Any]) -> None:
    """Raises InvalidParameterException where both limits of unavailable nodes are given."""
    if given.get("maxUnavailable") and given.get("maxUnavailablePercentage"):
        raise invalid_parameter("maxUnavailable and maxUnavailablePercentage cannot both be specified")
