from typing import Any

import pytest

from tests.sandbox.cloud.conftest import Refuses
from tests.sandbox.cloud.world import World


def _instance(world: World) -> str:
    world.cluster()
    world.node_group()
    world.scale(1)
    return world.running()[0]["InstanceId"]


def test_a_volume_is_attached_once_and_in_its_own_zone(world: World, refuses: Refuses) -> None:
    instance_id = _instance(world)
    here = world.ec2.create_volume(AvailabilityZone="us-east-2a", Size=100, VolumeType="gp3")["VolumeId"]
    there = world.ec2.create_volume(AvailabilityZone="us-east-2b", Size=100, VolumeType="gp3")["VolumeId"]
    attach = world.ec2.attach_volume
    wrong = {"VolumeId": there, "InstanceId": instance_id, "Device": "/dev/xvdf"}
    assert "not in the same availability zone" in refuses("InvalidVolume.ZoneMismatch", attach, **wrong)
    attach(VolumeId=here, InstanceId=instance_id, Device="/dev/xvdf")
    again = {"VolumeId": here, "InstanceId": instance_id, "Device": "/dev/xvdg"}
    assert refuses("VolumeInUse", attach, **again) == f"{here} is already attached to an instance"
    world.wait(5)
    world.scale(0)
    gone = {"VolumeId": here, "InstanceId": instance_id, "Device": "/dev/xvdf"}
    refuses("IncorrectState", attach, **gone)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"AvailabilityZone": "us-east-2z"}, "InvalidZone.NotFound"),
        ({"Throughput": 2001, "Iops": 80000}, "InvalidParameterValue"),
        ({"Iops": 80001}, "InvalidParameterValue"),
        ({"Throughput": 1000, "Iops": 3000}, "InvalidParameterCombination"),
        ({"Size": 10, "Iops": 16000}, "InvalidParameterCombination"),
        ({"Size": 70000}, "InvalidParameterValue"),
    ],
)
def test_volumes_that_ebs_does_not_make(world: World, refuses: Refuses, settings: dict[str, Any], code: str) -> None:
    usual = {"AvailabilityZone": "us-east-2a", "Size": 1000, "VolumeType": "gp3"}
    refuses(code, world.ec2.create_volume, **{**usual, **settings})
    assert world.ec2.describe_volumes()["Volumes"] == []


def test_the_fastest_gp3_volume(world: World, refuses: Refuses) -> None:
    settings: dict[str, Any] = {"AvailabilityZone": "us-east-2a", "Size": 1000, "VolumeType": "gp3"}
    volume = world.ec2.create_volume(**settings, Iops=8000, Throughput=2000)
    assert (volume["Iops"], volume["Throughput"]) == (8000, 2000)
    assert world.ec2.create_volume(**settings)["Throughput"] == 125
    change = {"VolumeId": volume["VolumeId"], "Iops": 3000}
    refuses("InvalidParameterCombination", world.ec2.modify_volume, **change)
    world.ec2.modify_volume(VolumeId=volume["VolumeId"], Size=2000, Iops=3000, Throughput=125)
    [changed] = world.ec2.describe_volumes(VolumeIds=[volume["VolumeId"]])["Volumes"]
    assert (changed["Size"], changed["Iops"], changed["Throughput"]) == (2000, 3000, 125)
    refuses("InvalidParameterValue", world.ec2.modify_volume, VolumeId=volume["VolumeId"], Size=100)


def test_what_is_used_is_not_deleted(world: World, refuses: Refuses) -> None:
    world.network()
    subnet_id = world.subnet_ids["us-east-2a"]
    allocation = world.ec2.allocate_address(Domain="vpc")["AllocationId"]
    gateway = world.ec2.create_nat_gateway(SubnetId=subnet_id, AllocationId=allocation)["NatGateway"]["NatGatewayId"]
    refuses("DependencyViolation", world.ec2.delete_subnet, SubnetId=subnet_id)
    world.ec2.delete_nat_gateway(NatGatewayId=gateway)
    world.ec2.release_address(AllocationId=allocation)

    create = world.ec2.create_security_group
    inner = create(GroupName="inner", Description="d", VpcId=world.vpc_id)["GroupId"]
    outer = create(GroupName="outer", Description="d", VpcId=world.vpc_id)["GroupId"]
    rule = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": inner}]}]
    world.ec2.authorize_security_group_ingress(GroupId=outer, IpPermissions=rule)
    world.ec2.authorize_security_group_ingress(GroupId=inner, IpPermissions=rule)
    refuses("DependencyViolation", world.ec2.delete_security_group, GroupId=inner)
    world.ec2.delete_security_group(GroupId=outer)
    for one in world.subnet_ids.values():
        world.ec2.delete_subnet(SubnetId=one)
    refuses("DependencyViolation", world.ec2.delete_vpc, VpcId=world.vpc_id)
    world.ec2.delete_security_group(GroupId=inner)
    world.ec2.delete_vpc(VpcId=world.vpc_id)


def test_an_interface_endpoint_holds_its_subnet_and_group(world: World, refuses: Refuses) -> None:
    world.network()
    subnet_id = world.subnet_ids["us-east-2a"]
    group = world.ec2.create_security_group(GroupName="g", Description="d", VpcId=world.vpc_id)["GroupId"]
    endpoint = world.ec2.create_vpc_endpoint(
        VpcId=world.vpc_id,
        ServiceName="com.amazonaws.us-east-2.sts",
        VpcEndpointType="Interface",
        SubnetIds=[subnet_id],
        SecurityGroupIds=[group],
    )["VpcEndpoint"]["VpcEndpointId"]
    refuses("DependencyViolation", world.ec2.delete_subnet, SubnetId=subnet_id)
    refuses("DependencyViolation", world.ec2.delete_security_group, GroupId=group)
    world.ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint])
    world.ec2.delete_subnet(SubnetId=subnet_id)
    world.ec2.delete_security_group(GroupId=group)


def test_an_ended_instance_holds_neither_subnet_nor_group(world: World) -> None:
    world.cluster()
    group = world.ec2.create_security_group(GroupName="g", Description="d", VpcId=world.vpc_id)["GroupId"]
    template = world.template("gpu", InstanceType="p5e.48xlarge", SecurityGroupIds=[group])
    extra = world.ec2.create_subnet(VpcId=world.vpc_id, CidrBlock="10.0.9.0/24", AvailabilityZone="us-east-2a")
    subnet_id = extra["Subnet"]["SubnetId"]
    world.node_group(launchTemplate={"id": template}, subnets=[subnet_id])
    world.scale(1)
    assert world.running()[0]["SecurityGroups"][0]["GroupId"] == group
    with pytest.raises(world.ec2.exceptions.ClientError, match="DependencyViolation"):
        world.ec2.delete_subnet(SubnetId=subnet_id)
    with pytest.raises(world.ec2.exceptions.ClientError, match="DependencyViolation"):
        world.ec2.delete_security_group(GroupId=group)
    world.wait(5)
    world.scale(0)
    world.ec2.delete_security_group(GroupId=group)
    world.ec2.delete_subnet(SubnetId=subnet_id)
