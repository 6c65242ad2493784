"""Volumes made fast for a wake and cheap again for sleep, over real sockets; nothing of it ever fails a job."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from infra.jobs.hibernate import hibernate
from infra.jobs.operation import Operation
from infra.jobs.progress import Journal, Step, silent
from infra.jobs.volume_speed import lower_volumes, raise_volumes
from infra.jobs.wake import WakeRequest, wake
from infra.jobs.weights.throughput import CHANGES_TAG
from infra.outputs import StackOutputs
from serving.errors import CapacityError
from tests.jobs.world import World


@pytest.fixture
def lowered(world: World) -> Iterator[StackOutputs]:
    """The stack with volumes that sleep at 125 MiB/s, both changed by nobody yet."""
    ids = list(world.volumes.values())
    for volume_id in ids:
        world.ec2.modify_volume(VolumeId=volume_id, Throughput=125, Iops=3000)
    world.ec2.delete_tags(Resources=ids, Tags=[{"Key": CHANGES_TAG}])
    forget_changes(world)
    yield replace(world.outputs, volume_mib_per_s=1000, volume_iops=5000, volume_asleep_mib_per_s=125)
    for volume_id in ids:
        world.ec2.modify_volume(VolumeId=volume_id, Throughput=1000, Iops=4000)
    world.ec2.delete_tags(Resources=ids, Tags=[{"Key": CHANGES_TAG}])


def forget_changes(world: World) -> None:
    """Have the preparation count as done long ago."""
    from moto.backends import get_backend

    backend: Any = get_backend("ec2")["123456789012"]["us-east-2"]
    for volume in backend.volumes.values():
        for change in volume.modifications:
            change.start_time -= timedelta(days=2)


def speeds(world: World) -> list[tuple[int, int]]:
    found = world.ec2.describe_volumes(VolumeIds=list(world.volumes.values()))["Volumes"]
    by_id = {one["VolumeId"]: (one["Throughput"], one["Iops"]) for one in found}
    return [by_id[one] for one in world.volumes.values()]


def operation(world: World, outputs: StackOutputs) -> Operation:
    return Operation(outputs, world.clients, world.clock, Journal(world.clock, silent), None)


def test_a_wake_raises_the_volume_it_reads_once_there_is_a_machine_and_hibernate_lowers_it(
    world: World, lowered: StackOutputs
) -> None:
    told: list[Step] = []
    report = wake(lowered, world.clients, world.clock, told.append, WakeRequest(slot="ondemand-a"))
    assert report.state == "awake"
    assert speeds(world) == [(1000, 5000), (125, 3000)]
    stages = [step.stage for step in told]
    (raised,) = [step for step in told if "MiB/s" in step.text]
    assert raised.text == f"{world.volumes['a']} goes from 125 to 1000 MiB/s; 3 changes are left in 24 hours"
    assert stages.index("volume") < stages.index("scheduling"), "before the pod reads it"
    assert report.notes == ()
    report = hibernate(lowered, world.clients, world.clock)
    assert (report.state, report.notes) == ("asleep", ())
    assert speeds(world) == [(125, 3000), (125, 3000)]


def test_a_wake_that_ebs_s_limit_or_aws_slows_down_is_still_a_wake(world: World, lowered: StackOutputs) -> None:
    now = world.clock.now()
    stamps = ";".join(f"{now - timedelta(hours=hours):%Y%m%dT%H%M%SZ}" for hours in (5, 4, 3))
    world.ec2.create_tags(Resources=[world.volumes["a"]], Tags=[{"Key": CHANGES_TAG, "Value": stamps}])
    told = operation(world, lowered)
    raise_volumes(told, lowered.slots[0])
    (note,) = told.journal.notes
    assert "was changed 3 times in 24 hours, and EBS allows 4, 1 kept for lowering it again; the next from" in note
    assert note.endswith("it stays as it is, and the load takes longer")
    assert speeds(world)[0] == (125, 3000)

    gone = replace(lowered, slots=(replace(lowered.slots[0], volume_id="vol-0123456789abcdef0"),))
    told = operation(world, gone)
    lower_volumes(told)
    assert told.journal.notes[0].startswith("the speed of vol-0123456789abcdef0 stays as it is, so it costs its awake")


def test_a_slower_volume_than_configured_is_told_where_nothing_raises_it(world: World, lowered: StackOutputs) -> None:
    same = replace(lowered, volume_asleep_mib_per_s=1000)
    told = operation(world, same)
    raise_volumes(told, same.slots[0])
    (note,) = told.journal.notes
    assert note == (
        f"{world.volumes['a']} has 125 MiB/s where the configuration says 1000, so the load takes longer: "
        "`dormouse weights speed up 1000` raises it"
    )
    told = operation(world, world.outputs)
    raise_volumes(told, world.outputs.slots[0])
    assert told.journal.notes == [], "outputs of an older stack say nothing of the speed"


@pytest.mark.sandbox
def test_a_wake_that_fails_leaves_nothing_raised(world: World, lowered: StackOutputs) -> None:
    def take_back(step: Step) -> None:
        if "to 1000 MiB/s" in step.text:
            # The machine is there, and goes again before its node joins.
            world.refuse(zone="us-east-2a")
            world.ec2.terminate_instances(InstanceIds=world.live_instances())

    world.refuse(zone="us-east-2b")
    with pytest.raises(CapacityError):
        wake(lowered, world.clients, world.clock, take_back)
    assert speeds(world) == [(125, 3000), (125, 3000)]
