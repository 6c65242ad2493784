"""VPC, subnets and endpoints of AWS services."""

from collections.abc import Mapping
from typing import Any, ClassVar

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import Ec2Type, first
from infra.sandbox.aws_resources.properties import Properties, Shape, changed, listed, picked


class Vpc(Ec2Type):
    """A network of its own."""

    token = "aws:ec2/vpc:Vpc"
    label = "EC2 VPC"
    kind = "vpc"
    inputs: ClassVar[Shape] = dict.fromkeys(
        ("cidrBlock", "enableDnsHostnames", "enableDnsSupport", "instanceTenancy", "tags")
    )
    required = ("cidrBlock",)
    defaults: ClassVar[Mapping[str, Any]] = {"enableDnsSupport": True, "instanceTenancy": "default"}
    computed = (
        "arn",
        "ownerId",
        "tagsAll",
        "defaultSecurityGroupId",
        "defaultNetworkAclId",
        "mainRouteTableId",
        "defaultRouteTableId",
        "dhcpOptionsId",
    )
    replace_on = frozenset({"cidrBlock", "instanceTenancy"})

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        ec2 = clients.client("ec2")
        names = picked(inputs, cidrBlock="CidrBlock", instanceTenancy="InstanceTenancy")
        resource_id = str(ec2.create_vpc(**names, **self._tags_at_creation(inputs))["Vpc"]["VpcId"])
        self._update(clients, resource_id, {}, inputs)
        return resource_id

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        for ours, theirs in (("enableDnsSupport", "EnableDnsSupport"), ("enableDnsHostnames", "EnableDnsHostnames")):
            if changed(old, new, ours):
                value = bool(new.get(ours, False))
                clients.client("ec2").modify_vpc_attribute(VpcId=resource_id, **{theirs: {"Value": value}})

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        ec2 = clients.client("ec2")
        found = first(ec2.describe_vpcs(VpcIds=[resource_id]), "Vpcs")
        if found is None:
            return None

        def attribute(name: str) -> bool:
            answer = ec2.describe_vpc_attribute(VpcId=resource_id, Attribute=name)
            return bool(answer[name[:1].upper() + name[1:]]["Value"])

        of_vpc = [{"Name": "vpc-id", "Values": [resource_id]}]
        group = first(
            ec2.describe_security_groups(Filters=[*of_vpc, _filter("group-name", "default")]), "SecurityGroups"
        )
        table = first(ec2.describe_route_tables(Filters=[*of_vpc, _filter("association.main", "true")]), "RouteTables")
        acl = first(ec2.describe_network_acls(Filters=[*of_vpc, _filter("default", "true")]), "NetworkAcls")
        main_table = table["RouteTableId"] if table else None
        return {
            **self._common(clients, resource_id, found),
            "cidrBlock": found["CidrBlock"],
            "instanceTenancy": found.get("InstanceTenancy") or "default",
            "enableDnsSupport": attribute("enableDnsSupport"),
            "enableDnsHostnames": attribute("enableDnsHostnames"),
            "defaultSecurityGroupId": group["GroupId"] if group else None,
            "mainRouteTableId": main_table,
            "defaultRouteTableId": main_table,
            "defaultNetworkAclId": acl["NetworkAclId"] if acl else None,
            "dhcpOptionsId": found.get("DhcpOptionsId"),
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("ec2").delete_vpc(VpcId=resource_id)


class Subnet(Ec2Type):
    """A part of a VPC in one zone."""

    token = "aws:ec2/subnet:Subnet"
    label = "EC2 Subnet"
    kind = "subnet"
    inputs: ClassVar[Shape] = dict.fromkeys(
        ("vpcId", "cidrBlock", "availabilityZone", "availabilityZoneId", "mapPublicIpOnLaunch", "tags")
    )
    required = ("vpcId", "cidrBlock")
    computed = ("arn", "ownerId", "tagsAll", "availabilityZone", "availabilityZoneId")
    replace_on = frozenset({"vpcId", "cidrBlock", "availabilityZone", "availabilityZoneId"})

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        names = picked(
            inputs,
            vpcId="VpcId",
            cidrBlock="CidrBlock",
            availabilityZone="AvailabilityZone",
            availabilityZoneId="AvailabilityZoneId",
        )
        made = clients.client("ec2").create_subnet(**names, **self._tags_at_creation(inputs))["Subnet"]
        resource_id = str(made["SubnetId"])
        if inputs.get("mapPublicIpOnLaunch"):
            self._update(clients, resource_id, {}, inputs)
        return resource_id

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        value = bool(new.get("mapPublicIpOnLaunch", False))
        clients.client("ec2").modify_subnet_attribute(SubnetId=resource_id, MapPublicIpOnLaunch={"Value": value})

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = first(clients.client("ec2").describe_subnets(SubnetIds=[resource_id]), "Subnets")
        if found is None:
            return None
        return {
            **self._common(clients, resource_id, found),
            "vpcId": found["VpcId"],
            "cidrBlock": found["CidrBlock"],
            "availabilityZone": found["AvailabilityZone"],
            "availabilityZoneId": found["AvailabilityZoneId"],
            "mapPublicIpOnLaunch": bool(found.get("MapPublicIpOnLaunch")),
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("ec2").delete_subnet(SubnetId=resource_id)


class VpcEndpoint(Ec2Type):
    """A way to an AWS service that stays inside the VPC."""

    token = "aws:ec2/vpcEndpoint:VpcEndpoint"
    label = "EC2 VPC Endpoint"
    kind = "vpc-endpoint"
    inputs: ClassVar[Shape] = dict.fromkeys(
        (
            "vpcId",
            "serviceName",
            "vpcEndpointType",
            "routeTableIds",
            "subnetIds",
            "securityGroupIds",
            "privateDnsEnabled",
            "policy",
            "tags",
        )
    )
    required = ("vpcId", "serviceName")
    defaults: ClassVar[Mapping[str, Any]] = {"vpcEndpointType": "Gateway"}
    computed = ("arn", "ownerId", "tagsAll", "state", "networkInterfaceIds", "prefixListId")
    replace_on = frozenset({"vpcId", "serviceName", "vpcEndpointType"})

    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        names = picked(
            inputs,
            vpcId="VpcId",
            serviceName="ServiceName",
            vpcEndpointType="VpcEndpointType",
            routeTableIds="RouteTableIds",
            subnetIds="SubnetIds",
            securityGroupIds="SecurityGroupIds",
            privateDnsEnabled="PrivateDnsEnabled",
            policy="PolicyDocument",
        )
        answer = clients.client("ec2").create_vpc_endpoint(**names, **self._tags_at_creation(inputs))
        return str(answer["VpcEndpoint"]["VpcEndpointId"])

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        request: dict[str, Any] = {}
        for ours, theirs in (
            ("routeTableIds", "RouteTableIds"),
            ("subnetIds", "SubnetIds"),
            ("securityGroupIds", "SecurityGroupIds"),
        ):
            before, after = set(listed(old, ours)), set(listed(new, ours))
            if after - before:
                request[f"Add{theirs}"] = sorted(after - before)
            if before - after:
                request[f"Remove{theirs}"] = sorted(before - after)
        if changed(old, new, "policy"):
            request |= {"PolicyDocument": new["policy"]} if new.get("policy") else {"ResetPolicy": True}
        if changed(old, new, "privateDnsEnabled"):
            request["PrivateDnsEnabled"] = bool(new.get("privateDnsEnabled", False))
        if request:
            clients.client("ec2").modify_vpc_endpoint(VpcEndpointId=resource_id, **request)

    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        found = first(clients.client("ec2").describe_vpc_endpoints(VpcEndpointIds=[resource_id]), "VpcEndpoints")
        if found is None or str(found.get("State", "")).lower() == "deleted":
            return None
        return {
            **self._common(clients, resource_id, found),
            "vpcId": found["VpcId"],
            "serviceName": found["ServiceName"],
            "vpcEndpointType": found.get("VpcEndpointType") or "Gateway",
            "routeTableIds": listed(found, "RouteTableIds"),
            "subnetIds": listed(found, "SubnetIds"),
            "securityGroupIds": [group["GroupId"] for group in listed(found, "Groups")],
            "privateDnsEnabled": bool(found.get("PrivateDnsEnabled")),
            "state": found.get("State", "available"),
            "networkInterfaceIds": listed(found, "NetworkInterfaceIds"),
            **({"policy": found["PolicyDocument"]} if found.get("PolicyDocument") else {}),
        }

    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        clients.client("ec2").delete_vpc_endpoints(VpcEndpointIds=[resource_id])


def _filter(name: str, value: str) -> dict[str, Any]:
    return {"Name": name, "Values": [value]}
