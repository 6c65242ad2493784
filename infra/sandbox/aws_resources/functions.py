"""The provider functions ("invokes") that programs call: look-ups that change nothing."""

from collections.abc import Callable, Mapping
from typing import Any

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.ec2_type import tag_map
from infra.sandbox.aws_resources.errors import AwsResourceError, refusals_as
from infra.sandbox.aws_resources.network import Subnet, Vpc
from infra.sandbox.aws_resources.properties import Properties, listed, nested, whole_numbers

Function = Callable[[AwsClients, Mapping[str, Any]], Properties]


def _filters(arguments: Mapping[str, Any], **named: str) -> list[dict[str, Any]]:
    """Pulumi's filters, tags and named arguments as EC2's filters."""
    filters = [{"Name": one["name"], "Values": list(one["values"])} for one in listed(arguments, "filters")]
    filters += [{"Name": f"tag:{key}", "Values": [value]} for key, value in nested(arguments, "tags").items()]
    filters += [{"Name": theirs, "Values": [arguments[ours]]} for ours, theirs in named.items() if arguments.get(ours)]
    return filters


def _caller_identity(clients: AwsClients, arguments: Mapping[str, Any]) -> Properties:
    found = clients.client("sts").get_caller_identity()
    return {"id": found["Account"], "accountId": found["Account"], "arn": found["Arn"], "userId": found["UserId"]}


def _availability_zones(clients: AwsClients, arguments: Mapping[str, Any]) -> Properties:
    request: dict[str, Any] = {"Filters": _filters(arguments, state="state")}
    if arguments.get("allAvailabilityZones"):
        request["AllAvailabilityZones"] = True
    found = clients.client("ec2").describe_availability_zones(**request)["AvailabilityZones"]
    left_out = {*(listed(arguments, "excludeNames")), *(listed(arguments, "excludeZoneIds"))}
    zones = [one for one in found if one["ZoneName"] not in left_out and one["ZoneId"] not in left_out]
    return {
        **arguments,
        "id": clients.region,
        "names": [one["ZoneName"] for one in zones],
        "zoneIds": [one["ZoneId"] for one in zones],
        "groupNames": sorted({one.get("GroupName") or clients.region for one in zones}),
        "region": clients.region,
    }


def _partition(clients: AwsClients, arguments: Mapping[str, Any]) -> Properties:
    return {
        "id": clients.partition,
        "partition": clients.partition,
        "dnsSuffix": "amazonaws.com",
        "reverseDnsPrefix": "com.amazonaws",
    }


def _region(clients: AwsClients, arguments: Mapping[str, Any]) -> Properties:
    name = clients.region
    return {
        "id": name,
        "name": name,
        "region": name,
        "endpoint": f"ec2.{name}.amazonaws.com",
        "description": f"{name} (simulated)",
    }


def _parameter(clients: AwsClients, arguments: Mapping[str, Any]) -> Properties:
    decrypted = bool(arguments.get("withDecryption", True))
    found = clients.client("ssm").get_parameter(Name=arguments["name"], WithDecryption=decrypted)["Parameter"]
    return {
        "id": found["Name"],
        "name": found["Name"],
        "arn": found["ARN"],
        "type": found["Type"],
        "value": found["Value"],
        "insecureValue": found["Value"] if found["Type"] != "SecureString" else "",
        "version": found["Version"],
        "withDecryption": decrypted,
        "region": clients.region,
    }


def _instance_type_offerings(clients: AwsClients, arguments: Mapping[str, Any]) -> Properties:
    request: dict[str, Any] = {"Filters": _filters(arguments)}
    if arguments.get("locationType"):
        request["LocationType"] = arguments["locationType"]
    offered: list[dict[str, str]] = []
    for page in clients.client("ec2").get_paginator("describe_instance_type_offerings").paginate(**request):
        offered += page["InstanceTypeOfferings"]
    return {
        **arguments,
        "id": clients.region,
        "instanceTypes": [one["InstanceType"] for one in offered],
        "locations": [one["Location"] for one in offered],
        "locationTypes": [one["LocationType"] for one in offered],
        "region": clients.region,
    }


def _only(found: list[dict[str, Any]], what: str) -> dict[str, Any]:
    if len(found) != 1:
        raise AwsResourceError(
            f"no matching {what} found" if not found else f"multiple {what}s matched; use additional constraints"
        )
    return found[0]


def _subnet(clients: AwsClients, arguments: Mapping[str, Any]) -> Properties:
    filters = _filters(
        arguments,
        vpcId="vpc-id",
        availabilityZone="availability-zone",
        availabilityZoneId="availability-zone-id",
        cidrBlock="cidr-block",
        id="subnet-id",
    )
    found = _only(clients.client("ec2").describe_subnets(Filters=filters)["Subnets"], "EC2 Subnet")
    outputs = Subnet().read(clients, found["SubnetId"], {}) or {}
    return {**outputs, "id": found["SubnetId"], "tags": tag_map(found.get("Tags")), "region": clients.region}


def _subnets(clients: AwsClients, arguments: Mapping[str, Any]) -> Properties:
    found = clients.client("ec2").describe_subnets(Filters=_filters(arguments))["Subnets"]
    ids = [one["SubnetId"] for one in found]
    return {
        **arguments,
        "id": clients.region,
        "ids": ids,
        "tags": nested(arguments, "tags"),
        "region": clients.region,
    }


def _vpc(clients: AwsClients, arguments: Mapping[str, Any]) -> Properties:
    filters = _filters(arguments, id="vpc-id", cidrBlock="cidr")
    if arguments.get("default"):
        filters.append({"Name": "is-default", "Values": ["true"]})
    found = _only(clients.client("ec2").describe_vpcs(Filters=filters)["Vpcs"], "EC2 VPC")
    outputs = Vpc().read(clients, found["VpcId"], {}) or {}
    return {
        **outputs,
        "id": found["VpcId"],
        "default": bool(found.get("IsDefault")),
        "state": found["State"],
        "tags": tag_map(found.get("Tags")),
        "mainRouteTableId": outputs.get("mainRouteTableId", ""),
        "region": clients.region,
    }


def _capacity_block_reservation(clients: AwsClients, arguments: Mapping[str, Any]) -> Properties:
    described = clients.client("ec2").describe_capacity_reservations(CapacityReservationIds=[arguments["id"]])
    blocks = [one for one in described["CapacityReservations"] if one.get("ReservationType") == "capacity-block"]
    found = _only(blocks, "EC2 Capacity Block Reservation")
    return {
        "id": found["CapacityReservationId"],
        "arn": found["CapacityReservationArn"],
        "availabilityZone": found["AvailabilityZone"],
        "availabilityZoneId": found["AvailabilityZoneId"],
        "availableInstanceCount": found["AvailableInstanceCount"],
        "instanceCount": found["TotalInstanceCount"],
        "instanceType": found["InstanceType"],
        "reservationType": found["ReservationType"],
        "state": found["State"],
        "startDate": found["StartDate"].isoformat(),
        "endDate": found["EndDate"].isoformat(),
        "createdDate": found["CreateDate"].isoformat(),
        "endDateType": found["EndDateType"],
        "tags": tag_map(found.get("Tags")),
        "region": clients.region,
    }


FUNCTIONS: dict[str, Function] = {
    "aws:index/getAvailabilityZones:getAvailabilityZones": _availability_zones,
    "aws:index/getCallerIdentity:getCallerIdentity": _caller_identity,
    "aws:index/getPartition:getPartition": _partition,
    "aws:index/getRegion:getRegion": _region,
    "aws:ec2/getCapacityBlockReservation:getCapacityBlockReservation": _capacity_block_reservation,
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": _instance_type_offerings,
    "aws:ec2/getSubnet:getSubnet": _subnet,
    "aws:ec2/getSubnets:getSubnets": _subnets,
    "aws:ec2/getVpc:getVpc": _vpc,
    "aws:ssm/getParameter:getParameter": _parameter,
}
"""Every covered function by its Pulumi token."""


def call_function(clients: AwsClients, token: str, arguments: Mapping[str, Any]) -> Properties:
    """The result of the function `token`.

    Raises AwsResourceError for a function the table doesn't cover, or with AWS's own text.
    """
    function = FUNCTIONS.get(token)
    if function is None:
        raise AwsResourceError(
            f"the simulated AWS provider has no function {token}; covered: {', '.join(sorted(FUNCTIONS))}"
        )
    with refusals_as(f"invoking {token}", "AWS"):
        return function(clients, whole_numbers(arguments))
