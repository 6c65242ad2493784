"""Ways in and out of a VPC: Internet gateway, fixed address, NAT gateway."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import Ec2Type, first, unless_gone
from infra.sandbox.aws_resources.errors import AwsResourceError
from infra.sandbox.aws_resources.properties import Properties, Shape, listed, picked


class InternetGateway(Ec2Type):
    """The way from a VPC to the Internet."""

    token = "aws:ec2/internetGateway:InternetGateway"
    label = "EC2 Internet Gateway"
    kind = "internet-gateway"
    inputs: ClassVar[Shape] = dict.fromkeys(("vpcId", "tags"))
    computed = ("arn", "ownerId", "tagsAll")

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        made = clients.client("ec2").create_internet_gateway(**self._tags_at_creation(inputs))["InternetGateway"]
        resource_id = str(made["InternetGatewayId"])
        self._update(clients, resource_id, {}, inputs)
        return resource_id

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        ec2 = clients.client("ec2")
        if old.get("vpcId"):
            ec2.detach_internet_gateway(InternetGatewayId=resource_id, VpcId=old["vpcId"])
        if new.get("vpcId"):
            ec2.attach_internet_gateway(InternetGatewayId=resource_id, VpcId=new["vpcId"])

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        answer = clients.client("ec2").describe_internet_gateways(InternetGatewayIds=[resource_id])
        found = first(answer, "InternetGateways")
        if found is None:
            return None
        attachment = first(found, "Attachments")
        return {**self._common(clients, resource_id, found), "vpcId": attachment["VpcId"] if attachment else None}

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        ec2 = clients.client("ec2")
        found = first(ec2.describe_internet_gateways(InternetGatewayIds=[resource_id]), "InternetGateways")
        for attachment in listed(found or {}, "Attachments"):
            detach = partial(ec2.detach_internet_gateway, InternetGatewayId=resource_id, VpcId=attachment["VpcId"])
            unless_gone(detach)
        ec2.delete_internet_gateway(InternetGatewayId=resource_id)


class Eip(Ec2Type):
    """A fixed public IPv4 address."""

    token = "aws:ec2/eip:Eip"
    label = "EC2 EIP"
    kind = "elastic-ip"
    inputs: ClassVar[Shape] = dict.fromkeys(("domain", "tags"))
    defaults: ClassVar[Mapping[str, Any]] = {"domain": "vpc"}
    computed = ("arn", "tagsAll", "allocationId", "publicIp", "publicDns")
    replace_on = frozenset({"domain"})

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        made = clients.client("ec2").allocate_address(Domain=inputs["domain"], **self._tags_at_creation(inputs))
        return str(made["AllocationId"])

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = first(clients.client("ec2").describe_addresses(AllocationIds=[resource_id]), "Addresses")
        if found is None:
            return None
        address = str(found["PublicIp"])
        common = self._common(clients, resource_id, found)
        common.pop("ownerId")
        return {
            **common,
            "domain": found["Domain"],
            "allocationId": resource_id,
            "publicIp": address,
            "publicDns": f"ec2-{address.replace('.', '-')}.{clients.region}.compute.amazonaws.com",
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("ec2").release_address(AllocationId=resource_id)


class NatGateway(Ec2Type):
    """The way out for subnets without public addresses."""

    token = "aws:ec2/natGateway:NatGateway"
    label = "EC2 NAT Gateway"
    kind = "natgateway"
    inputs: ClassVar[Shape] = dict.fromkeys(("subnetId", "allocationId", "connectivityType", "tags"))
    required = ("subnetId",)
    defaults: ClassVar[Mapping[str, Any]] = {"connectivityType": "public"}
    computed = ("tagsAll", "publicIp", "privateIp", "networkInterfaceId", "associationId")
    replace_on = frozenset({"subnetId", "allocationId", "connectivityType"})

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        names = picked(inputs, subnetId="SubnetId", allocationId="AllocationId", connectivityType="ConnectivityType")
        made = clients.client("ec2").create_nat_gateway(**names, **self._tags_at_creation(inputs))["NatGateway"]
        return str(made["NatGatewayId"])

    def _found(self, clients: AwsClients, resource_id: str) -> Any:
        return first(clients.client("ec2").describe_nat_gateways(NatGatewayIds=[resource_id]), "NatGateways")

    def _settle(self, clients: AwsClients, resource_id: str, inputs: Properties) -> None:
        def available() -> bool:
            found = self._found(clients, resource_id)
            if found is not None and found["State"] == "failed":
                raise AwsResourceError(
                    f"EC2 NAT Gateway ({resource_id}) failed: {found.get('FailureMessage', 'no reason given')}"
                )
            return found is not None and found["State"] == "available"

        clients.wait(f"EC2 NAT Gateway ({resource_id}) to be available", available)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = self._found(clients, resource_id)
        if found is None or found["State"] == "deleted":
            return None
        address: Properties = first(found, "NatGatewayAddresses") or {}
        return {
            "tagsAll": self._common(clients, resource_id, found)["tagsAll"],
            "subnetId": found["SubnetId"],
            "connectivityType": found.get("ConnectivityType") or "public",
            "allocationId": address.get("AllocationId"),
            "publicIp": address.get("PublicIp"),
            "privateIp": address.get("PrivateIp"),
            "networkInterfaceId": address.get("NetworkInterfaceId"),
            "associationId": address.get("AssociationId"),
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("ec2").delete_nat_gateway(NatGatewayId=resource_id)
