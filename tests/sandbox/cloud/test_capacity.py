from datetime import timedelta
from typing import Any

import pytest

from infra.sandbox.cloud import CapacityBlock, CapacityRule
from serving.errors import DormouseError
from tests.sandbox.cloud.conftest import Refuses
from tests.sandbox.cloud.world import START, World

_ON_DEMAND = (
    "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have sufficient "
    "p5e.48xlarge capacity in the Availability Zone you requested (us-east-2a). Our system will be working on "
    "provisioning additional capacity. Launching EC2 instance failed."
)


def test_refused_capacity_shows_in_the_activities_and_comes_back(world: World) -> None:
    world.cluster()
    world.node_group()
    world.capacity.add(CapacityRule(instance_type="p5e.48xlarge", zone="us-east-2a", attempts=2))
    world.scale(1)
    world.wait(5)
    group = world.describe()
    assert group["status"] == "ACTIVE"
    assert group["health"]["issues"][0]["code"] == "AsgInstanceLaunchFailures"
    assert world.running() == []
    [activity] = world.activities()
    assert activity["StatusCode"] == "Failed"
    assert activity["StatusMessage"] == _ON_DEMAND
    assert activity["Description"] == f"Launching a new EC2 instance.  Status Reason: {_ON_DEMAND}"
    started_at = activity["StartTime"]

    world.wait(120)
    codes = [one["StatusCode"] for one in world.activities()]
    assert codes == ["Successful", "Failed", "Failed"]
    [instance] = world.running()
    # Nobody asked between the attempts; the launch still has the time at which it fell due.
    assert instance["LaunchTime"] == (started_at + timedelta(seconds=120)).replace(microsecond=0)
    assert world.describe()["health"]["issues"] == []


def test_lowering_desired_ends_the_asking(world: World) -> None:
    world.cluster()
    world.node_group()
    world.capacity.add(CapacityRule())
    world.scale(1)
    world.wait(65)
    assert len(world.activities()) == 2
    world.scale(0)
    world.wait(600)
    assert len(world.activities()) == 2
    world.capacity.rules.clear()
    world.wait(600)
    assert world.running() == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity"),
        ("InsufficientInstanceCapacity", "InsufficientInstanceCapacity - There is no Spot capacity available"),
        ("MaxSpotInstanceCountExceeded", "MaxSpotInstanceCountExceeded - Max spot instance count exceeded"),
    ],
)
def test_spot_is_refused_in_its_own_words(world: World, code: str | None, words: str) -> None:
    world.cluster()
    world.node_group(capacityType="SPOT")
    world.capacity.add(CapacityRule(purchase="spot", code=code))
    world.scale(1)
    assert words in world.activities()[0]["StatusMessage"]


def test_a_rule_concerns_only_what_it_names(world: World) -> None:
    world.cluster()
    world.node_group()
    for rule in (
        CapacityRule(purchase="spot"),
        CapacityRule(zone="us-east-2b"),
        CapacityRule(instance_type="p5en.48xlarge"),
        CapacityRule(until=START + timedelta(seconds=30)),
    ):
        world.capacity.add(rule)
    world.scale(1)
    assert len(world.running()) == 1


def test_until_ends_a_rule(world: World) -> None:
    world.cluster()
    world.node_group()
    world.capacity.add(CapacityRule(until=world.clock.now() + timedelta(seconds=90)))
    world.scale(1)
    world.wait(600)
    assert [one["StatusCode"] for one in world.activities()] == ["Successful", "Failed", "Failed"]


def test_a_group_with_several_zones_takes_the_one_that_has_capacity(world: World) -> None:
    world.cluster()
    world.node_group(subnets=list(world.subnet_ids.values()))
    world.capacity.add(CapacityRule(zone="us-east-2a"))
    world.scale(1)
    [instance] = world.running()
    assert instance["Placement"]["AvailabilityZone"] == "us-east-2b"
    assert [one["StatusCode"] for one in world.activities()] == ["Successful", "Failed"]


def test_a_type_that_the_zone_does_not_offer(world: World) -> None:
    world.cluster()
    world.node_group(instanceTypes=["p3dn.24xlarge"])
    world.scale(1)
    message = world.activities()[0]["StatusMessage"]
    assert "(p3dn.24xlarge) is not supported in your requested Availability Zone (us-east-2a)" in message


def _block_group(world: World, reservation_id: str = "cr-1") -> None:
    world.cluster()
    template = world.template(
        "block",
        InstanceType="p5e.48xlarge",
        InstanceMarketOptions={"MarketType": "capacity-block"},
        CapacityReservationSpecification={"CapacityReservationTarget": {"CapacityReservationId": reservation_id}},
    )
    world.node_group(launchTemplate={"id": template}, capacityType="CAPACITY_BLOCK")


def _block(world: World, **values: Any) -> CapacityBlock:
    now = world.clock.now()
    block = CapacityBlock("cr-1", "p5e.48xlarge", "us-east-2a", now, now + timedelta(hours=24))
    for name, value in values.items():
        setattr(block, name, value)
    world.server.admin.add_capacity_block(block)
    return block


def test_a_capacity_block_gives_its_instance_while_it_is_active(world: World, refuses: Refuses) -> None:
    _block_group(world)
    world.scale(1)
    missing = "InvalidCapacityReservationId.NotFound - The capacity reservation ID 'cr-1' does not exist"
    assert missing in world.activities()[0]["StatusMessage"]
    start = world.clock.now() + timedelta(seconds=100)
    block = _block(world, start=start)
    [shown] = world.ec2.describe_capacity_reservations()["CapacityReservations"]
    assert (shown["State"], shown["AvailableInstanceCount"], shown["AvailabilityZoneId"]) == (
        "scheduled",
        0,
        "use2-az1",
    )
    assert (shown["StartDate"], shown["EndDate"], shown["ReservationType"]) == (start, block.end, "capacity-block")
    world.wait(60)
    assert "not in the active state (it is scheduled)" in world.activities()[0]["StatusMessage"]
    world.wait(60)
    [instance] = world.running()
    assert instance["InstanceLifecycle"] == "capacity-block"
    assert instance["CapacityReservationId"] == "cr-1"
    [shown] = world.ec2.describe_capacity_reservations(CapacityReservationIds=["cr-1"])["CapacityReservations"]
    assert (shown["State"], shown["TotalInstanceCount"], shown["AvailableInstanceCount"]) == ("active", 1, 0)
    refuses(
        "InvalidCapacityReservationId.NotFound",
        world.ec2.describe_capacity_reservations,
        CapacityReservationIds=["cr-2"],
    )


def test_a_full_or_foreign_block_is_refused(world: World) -> None:
    _block_group(world)
    _block(world, zone="us-east-2b")
    world.scale(1)
    words = "ReservationCapacityExceeded - The requested reservation cr-1 does not have sufficient compatible"
    assert words in world.activities()[0]["StatusMessage"]


def test_a_block_takes_its_instance_back(world: World) -> None:
    _block_group(world)
    block = _block(world)
    world.scale(1)
    world.wait(5)
    assert len(world.running()) == 1
    left = (block.end - world.clock.now()).total_seconds()
    world.wait(left - 41 * 60)
    assert len(world.running()) == 1
    # EKS lowers the group 40 minutes before the end.
    world.wait(60)
    assert world.running() == []
    assert world.describe()["scalingConfig"]["desiredSize"] == 0
    # Who raises it again loses the instance 30 minutes before the end, when EC2 takes it.
    world.scale(1)
    assert len(world.running()) == 1
    world.wait(10 * 60)
    assert world.running() == []
    world.wait(60)
    assert "not in the active state" in world.activities()[0]["StatusMessage"]


def test_the_controls_over_http(world: World) -> None:
    admin = world.server.admin
    until = START + timedelta(hours=1)
    rule = admin.add_capacity_rule(CapacityRule(zone="us-east-2a", purchase="spot", attempts=3, until=until))
    assert rule.rule_id == "rule-1"
    assert admin.capacity_rules() == [rule]
    assert world.capacity.rules["rule-1"].until == until
    admin.remove_capacity_rule("rule-1")
    assert admin.capacity_rules() == []
    with pytest.raises(DormouseError, match="no such object: rule-1"):
        admin.remove_capacity_rule("rule-1")
    block = _block(world)
    assert admin.capacity_blocks() == [block]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"kind": "explode"}, "kind 'explode'; accepted: refuse, never-joins"),
        ({"purchase": "reserved"}, "purchase 'reserved'; accepted: on-demand, spot, capacity-block"),
        ({"attempts": 0}, "attempts 0; accepted: a whole number above 0, or null"),
        ({"region": "us-east-2"}, "unknown keys region"),
    ],
)
def test_wrong_rules_say_what_would_do(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        CapacityRule.from_mapping(values)
