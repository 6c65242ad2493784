"""What EC2 refuses to delete because something still uses it, and moto deletes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# moto's classes are untyped.

from collections.abc import Iterator
from typing import Any

from moto.ec2.exceptions import DependencyViolationError, EC2ClientError
from moto.ec2.models.nat_gateways import NatGatewayBackend
from moto.ec2.responses import EC2Response


def install() -> None:
    """Patch moto's answers, not its models: those delete one another's parts through the same methods."""
    delete_subnet_anyway = EC2Response.delete_subnet
    delete_group_anyway = EC2Response.delete_security_group
    delete_vpc_anyway = EC2Response.delete_vpc
    delete_gateway = NatGatewayBackend.delete_nat_gateway

    def delete_subnet(self: Any) -> Any:
        subnet_id = str(self._get_param("SubnetId"))
        self.ec2_backend.get_subnet(subnet_id)
        if any(_subnet_id(interface) == subnet_id for interface in _interfaces_in_use(self.ec2_backend)):
            raise DependencyViolationError(f"The subnet '{subnet_id}' has dependencies and cannot be deleted.")
        return delete_subnet_anyway(self)

    def delete_security_group(self: Any) -> Any:
        backend, group_id = self.ec2_backend, self._get_param("GroupId")
        name = self._get_param("GroupName")
        group = backend.get_security_group_by_name_or_id(name) if name else backend.get_security_group_from_id(group_id)
        if group is not None:
            if group.name == "default":
                message = f'the specified group: "{group.id}" name: "default" cannot be deleted by a user'
                raise EC2ClientError("CannotDelete", message)
            if _group_is_used(backend, group.id):
                raise DependencyViolationError(f"resource {group.id} has a dependent object")
        return delete_group_anyway(self)

    def delete_vpc(self: Any) -> Any:
        backend, vpc_id = self.ec2_backend, str(self._get_param("VpcId"))
        backend.get_vpc(vpc_id)
        groups = [group for group in backend.groups[vpc_id].values() if group.name != "default"]
        gateways = [one for one in backend.internet_gateways.values() if one.vpc is not None and one.vpc.id == vpc_id]
        endpoints = [one for one in backend.vpc_end_points.values() if one.vpc_id == vpc_id and one.state != "deleted"]
        if groups or gateways or endpoints:
            raise DependencyViolationError(f"The vpc '{vpc_id}' has dependencies and cannot be deleted.")
        return delete_vpc_anyway(self)

    def delete_nat_gateway(self: Any, nat_gateway_id: str) -> Any:
        if nat_gateway_id not in self.nat_gateways:
            raise EC2ClientError("NatGatewayNotFound", f"NatGateway {nat_gateway_id} was not found")
        gateway = delete_gateway(self, nat_gateway_id)
        interface: Any = gateway.__dict__["_eni"]
        if interface.id in self.enis:
            # The gateway gives its address back and its interface goes with it.
            for address in self.address_by_ip([interface.public_ip], fail_if_not_found=False):
                self.disassociate_address(association_id=address.association_id)
            del self.enis[interface.id]
        return gateway

    response: Any = EC2Response
    response.delete_subnet = delete_subnet
    response.delete_security_group = delete_security_group
    response.delete_vpc = delete_vpc
    gateways: Any = NatGatewayBackend
    gateways.delete_nat_gateway = delete_nat_gateway


def _interfaces_in_use(backend: Any) -> Iterator[Any]:
    for interface in backend.enis.values():
        instance = interface.instance
        if instance is None or instance.state != "terminated":
            yield interface


def _subnet_id(interface: Any) -> str:
    # moto gives interface endpoints the subnet's id where others get the subnet.
    return interface.subnet if isinstance(interface.subnet, str) else interface.subnet.id


def _group_is_used(backend: Any, group_id: str) -> bool:
    for interface in _interfaces_in_use(backend):
        if any(group.id == group_id for group in interface.group_set):
            return True
    for endpoint in backend.vpc_end_points.values():
        if endpoint.state != "deleted" and group_id in (endpoint.security_group_ids or []):
            return True
    for groups in backend.groups.values():
        for other in groups.values():
            if other.id != group_id and any(
                rule.source_group.get("GroupId") == group_id for rule in (*other.ingress_rules, *other.egress_rules)
            ):
                return True
    return False
