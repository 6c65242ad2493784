from datetime import timedelta
from typing import Any

import pytest

from infra.sandbox.cloud import CapacityRule
from tests.sandbox.cloud.conftest import Refuses
from tests.sandbox.cloud.world import START, World

_BLOCK: dict[str, Any] = {
    "InstanceType": "p5e.48xlarge",
    "InstanceMarketOptions": {"MarketType": "capacity-block"},
    "CapacityReservationSpecification": {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}},
}


def test_scaling_makes_and_ends_an_instance(world: World) -> None:
    world.cluster()
    template = world.template("gpu", InstanceType="p5e.48xlarge", MetadataOptions={"HttpTokens": "required"})
    group = world.node_group(
        zone="us-east-2c",
        launchTemplate={"id": template},
        capacityType="SPOT",
        amiType="AL2023_x86_64_NVIDIA",
        labels={"dormouse.dev/slot": "spot"},
        taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
        updateConfig={"maxUnavailable": 1, "updateStrategy": "MINIMAL"},
        nodeRepairConfig={"enabled": True},
        tags={"owner": "team"},
    )
    assert group["status"] == "ACTIVE"
    assert group["launchTemplate"] == {"id": template, "name": "gpu", "version": "1"}
    assert "instanceTypes" not in group
    assert group["updateConfig"] == {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}
    assert group["nodeRepairConfig"] == {"enabled": True}
    assert world.running() == []

    asked_at = world.clock.now()
    update = world.scale(1)
    assert update["params"] == [{"type": "DesiredSize", "value": "1"}]
    assert world.describe()["status"] == "UPDATING"
    world.wait(5)
    assert world.describe()["status"] == "ACTIVE"
    [instance] = world.running()
    assert instance["InstanceType"] == "p5e.48xlarge"
    assert instance["InstanceLifecycle"] == "spot"
    assert instance["Placement"]["AvailabilityZone"] == "us-east-2c"
    assert instance["LaunchTime"] == asked_at
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert "Platform" not in instance
    assert [one["DeviceName"] for one in instance["BlockDeviceMappings"]] == ["/dev/xvda"]
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert (tags["eks:cluster-name"], tags["eks:nodegroup-name"]) == ("dev", "gpu")
    # EKS does not pass a node group's tags on to its instances.
    assert "owner" not in tags
    assert world.activities()[0]["StatusCode"] == "Successful"

    world.scale(0)
    assert world.running() == []
    assert world.activities()[0]["Description"] == f"Terminating EC2 instance: {instance['InstanceId']}"


def test_an_instance_ended_by_hand_is_replaced_and_its_volume_comes_free(world: World) -> None:
    world.cluster()
    world.node_group()
    world.scale(1)
    [first] = world.running()
    volume_id = world.ec2.create_volume(AvailabilityZone="us-east-2a", Size=2000, VolumeType="gp3")["VolumeId"]
    world.ec2.attach_volume(VolumeId=volume_id, InstanceId=first["InstanceId"], Device="/dev/xvdf")
    world.ec2.terminate_instances(InstanceIds=[first["InstanceId"]])
    assert world.running() == []
    assert world.ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]["State"] == "available"
    world.wait(29)
    assert world.running() == []
    world.wait(1)
    [second] = world.running()
    assert second["InstanceId"] != first["InstanceId"]
    assert second["LaunchTime"] == world.clock.now()


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"capacityType": "NONSENSE"}, "InvalidParameterException", "Member must satisfy enum value set"),
        ({"subnets": ["subnet-0"]}, "InvalidParameterException", "'subnet-0' does not exist"),
        (
            {"nodeRole": "arn:aws:iam::123456789012:role/no"},
            "InvalidParameterException",
            "does not exist or the trusted",
        ),
        ({"launchTemplate": {"id": "lt-0"}}, "InvalidRequestException", "lt-0 could not be found"),
        (
            {"scalingConfig": {"minSize": 2, "desiredSize": 1, "maxSize": 1}},
            "InvalidParameterException",
            "Minimum capacity 2 can't be greater than maximum size 1",
        ),
        (
            {"scalingConfig": {"minSize": 0, "desiredSize": 2, "maxSize": 1}},
            "InvalidParameterException",
            "desired capacity 2 can't be greater than max size 1",
        ),
        ({"labels": {"eks.amazonaws.com/x": "y"}}, "InvalidParameterException", "reserved prefixes"),
        ({"version": "1.36"}, "InvalidParameterException", "Requested Nodegroup version 1.36 is invalid"),
        ({"capacityType": "CAPACITY_BLOCK"}, "InvalidRequestException", "instance market option capacity-block"),
    ],
)
def test_wrong_settings_are_refused(
    world: World, refuses: Refuses, settings: dict[str, Any], code: str, words: str
) -> None:
    world.cluster()
    assert words in refuses(code, world.node_group, **settings)
    assert world.eks.list_nodegroups(clusterName="dev")["nodegroups"] == []


@pytest.mark.parametrize(
    ("data", "settings", "words"),
    [
        ({"InstanceType": "p5e.48xlarge"}, {"instanceTypes": ["p5e.48xlarge"]}, "both in the launch template"),
        ({**_BLOCK, "InstanceMarketOptions": {"MarketType": "spot"}}, {"capacityType": "SPOT"}, "market option spot"),
        (_BLOCK, {"capacityType": "ON_DEMAND"}, "market option capacity-block"),
        (
            {key: value for key, value in _BLOCK.items() if key != "CapacityReservationSpecification"},
            {"capacityType": "CAPACITY_BLOCK"},
            "capacity reservation target",
        ),
        (
            {"NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": "subnet-1"}], "InstanceType": "p5e.48xlarge"},
            {},
            "NetworkInterfaces.SubnetId",
        ),
        ({"ImageId": "ami-1", "InstanceType": "p5e.48xlarge"}, {"amiType": "AL2023_x86_64_NVIDIA"}, "CUSTOM"),
    ],
)
def test_templates_that_eks_does_not_take(
    world: World, refuses: Refuses, data: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    world.cluster()
    template = world.template("gpu", **data)
    message = refuses("InvalidRequestException", world.node_group, launchTemplate={"id": template}, **settings)
    assert words in message


def test_no_change_while_another_is_under_way(world: World, refuses: Refuses) -> None:
    world.cluster()
    world.node_group(wait=False)
    assert "not in Active State" in refuses("ResourceInUseException", world.scale, desired=1)
    world.wait(60)
    world.scale(1)
    refuses("ResourceInUseException", world.scale, desired=0)


def test_labels_and_taints_change_one_by_one(world: World) -> None:
    world.cluster()
    world.node_group(labels={"a": "1", "b": "2"}, taints=[{"key": "k", "value": "v", "effect": "NO_SCHEDULE"}])
    world.eks.update_nodegroup_config(
        clusterName="dev",
        nodegroupName="gpu",
        labels={"addOrUpdateLabels": {"a": "3"}, "removeLabels": ["b"]},
        taints={
            "addOrUpdateTaints": [{"key": "n", "effect": "NO_EXECUTE"}],
            "removeTaints": [{"key": "k", "value": "v", "effect": "NO_SCHEDULE"}],
        },
        nodeRepairConfig={"enabled": True},
    )
    group = world.describe()
    assert group["labels"] == {"a": "3"}
    assert group["taints"] == [{"key": "n", "effect": "NO_EXECUTE"}]
    assert group["nodeRepairConfig"] == {"enabled": True}


def test_another_template_version_replaces_what_runs(world: World, refuses: Refuses) -> None:
    world.cluster()
    template = world.template("gpu", InstanceType="p5e.48xlarge")
    world.node_group(launchTemplate={"id": template})
    world.scale(1)
    world.wait(5)
    [before] = world.running()
    world.ec2.create_launch_template_version(
        LaunchTemplateId=template, LaunchTemplateData={"InstanceType": "p5en.48xlarge"}
    )
    update = world.eks.update_nodegroup_version
    wanted = {"id": template, "version": "2"}
    world_update = update(clusterName="dev", nodegroupName="gpu", launchTemplate=wanted)["update"]
    assert world_update["type"] == "VersionUpdate"
    world.wait(60)
    assert world.describe()["launchTemplate"]["version"] == "2"
    [after] = world.running()
    assert (before["InstanceType"], after["InstanceType"]) == ("p5e.48xlarge", "p5en.48xlarge")
    other = {"id": world.template("other", InstanceType="p5e.48xlarge")}
    refuses("InvalidRequestException", update, clusterName="dev", nodegroupName="gpu", launchTemplate=other)
    missing = {"id": template, "version": "9"}
    refuses("InvalidRequestException", update, clusterName="dev", nodegroupName="gpu", launchTemplate=missing)


def test_a_group_above_zero_is_active_when_its_nodes_have_joined(world: World) -> None:
    world.cluster()
    world.node_group(
        "system", instanceTypes=["m7g.large"], scalingConfig={"minSize": 2, "desiredSize": 2, "maxSize": 2}
    )
    assert world.describe("system")["status"] == "CREATING"
    world.wait(180)
    assert world.describe("system")["status"] == "ACTIVE"
    assert [one["Architecture"] for one in world.running()] == ["arm64", "arm64"]


def test_a_group_that_gets_no_nodes_fails_after_its_time(world: World) -> None:
    world.cluster()
    world.server.admin.add_capacity_rule(CapacityRule(kind="never-joins"))
    world.node_group(scalingConfig={"minSize": 0, "desiredSize": 1, "maxSize": 1})
    world.wait(1499 - 60)
    assert world.describe()["status"] == "CREATING"
    world.wait(1)
    group = world.describe()
    assert group["status"] == "CREATE_FAILED"
    [issue] = group["health"]["issues"]
    assert issue["code"] == "NodeCreationFailure"
    assert issue["resourceIds"] == [world.running()[0]["InstanceId"]]


def test_deleting_leaves_nothing(world: World, refuses: Refuses) -> None:
    world.cluster()
    world.node_group()
    world.scale(1)
    world.wait(5)
    world.eks.delete_nodegroup(clusterName="dev", nodegroupName="gpu")
    assert world.describe()["status"] == "DELETING"
    assert world.running() == []
    world.wait(120)
    describe = world.eks.describe_nodegroup
    refuses("ResourceNotFoundException", describe, clusterName="dev", nodegroupName="gpu")
    assert world.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"] == []
    assert world.ec2.describe_launch_templates()["LaunchTemplates"] == []
    assert world.ec2.describe_volumes()["Volumes"] == []


def test_the_groups_numbers_are_the_auto_scaling_groups(world: World) -> None:
    world.cluster()
    name = world.node_group()["resources"]["autoScalingGroups"][0]["name"]
    autoscaling = world.client("autoscaling")
    autoscaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=1)
    assert world.describe()["scalingConfig"] == {"minSize": 0, "desiredSize": 1, "maxSize": 1}
    assert len(world.running()) == 1
    [group] = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
    assert group["Instances"][0]["LifecycleState"] == "InService"


def test_times_are_the_simulated_clocks(world: World) -> None:
    cluster = world.cluster()
    assert cluster["createdAt"] == START
    volume = world.ec2.create_volume(AvailabilityZone="us-east-2a", Size=100, VolumeType="gp3")
    assert volume["CreateTime"] == START + timedelta(seconds=540)


def test_a_running_group_follows_a_new_version_of_a_template_with_user_data(world: World) -> None:
    world.cluster()
    template = world.template("gpu", UserData="Zmlyc3Q=")
    world.node_group(instanceTypes=["p5en.48xlarge"], launchTemplate={"id": template, "version": "1"})
    world.scale(1)
    world.wait(60)
    (first,) = world.running()
    world.wait(300)
    world.ec2.create_launch_template_version(LaunchTemplateId=template, LaunchTemplateData={"UserData": "c2Vjb25k"})
    world.eks.update_nodegroup_version(
        clusterName="dev", nodegroupName="gpu", launchTemplate={"id": template, "version": "2"}
    )
    world.wait(120)
    assert world.describe()["status"] == "ACTIVE"
    (second,) = world.running()
    assert second["InstanceId"] != first["InstanceId"]
