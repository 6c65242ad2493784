"""Several replicas as lanes of one stack, and a replica that takes two machines, in the simulated world."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from infra.jobs.hibernate import HibernateRequest, hibernate
from infra.jobs.lane_state import lane_states, stack_state
from infra.jobs.move import MoveRequest, move
from infra.jobs.observe import observe
from infra.jobs.state import StateKind
from infra.jobs.wake import WakeRequest, wake
from infra.outputs import StackOutputs
from serving.errors import CapacityError, ConfigurationError
from tests.jobs import world as worlds
from tests.jobs.world import World


def two_lanes(world: World) -> StackOutputs:
    """Zone a's candidates are the first replica's, zone b's the second's."""
    slots = tuple(replace(slot, replica=int(slot.zone.endswith("b"))) for slot in world.outputs.slots)
    return replace(world.outputs, slots=slots, replicas=2)


def states(world: World, outputs: StackOutputs) -> dict[int, StateKind]:
    seen = observe(outputs, world.clients, world.clock)
    return {lane: state.kind for lane, state in lane_states(seen).items()}


@pytest.mark.sandbox
def test_replicas_wake_one_by_one_and_sleep_down_to_as_many_as_wanted(world: World) -> None:
    outputs = two_lanes(world)
    wake(outputs, world.clients, world.clock, request=WakeRequest(replicas=1))
    assert states(world, outputs) == {0: StateKind.AWAKE, 1: StateKind.ASLEEP}
    report = wake(outputs, world.clients, world.clock)
    assert states(world, outputs) == {0: StateKind.AWAKE, 1: StateKind.AWAKE}
    assert report.sentence.startswith("replica 0 already awake: ")
    assert "replica 1 awake on ondemand-b" in report.sentence
    whole = stack_state(observe(outputs, world.clients, world.clock))
    assert whole.kind is StateKind.AWAKE
    assert whole.why.startswith("2 of 2 replicas awake; replica 0 awake: pod ")
    assert len(world.live_instances()) == 2

    other = [view.paid for view in observe(outputs, world.clients, world.clock).slots][2]
    moved = move(outputs, world.clients, world.clock, request=MoveRequest(to="ondemand-a"))
    assert moved.slot == "ondemand-a"
    views = observe(outputs, world.clients, world.clock).slots
    assert [len(view.paid) for view in views] == [0, 1, 1]
    assert views[2].paid == other
    assert states(world, outputs) == {0: StateKind.AWAKE, 1: StateKind.AWAKE}

    planned = hibernate(outputs, world.clients, world.clock, request=HibernateRequest(dry_run=True, replicas=1))
    assert [step.text for step in planned.steps if "node group" in step.text] == [
        "set node group gpu-ondemand-b to 0, which saves $63.30 an hour"
    ]
    hibernate(outputs, world.clients, world.clock, request=HibernateRequest(replicas=1))
    assert states(world, outputs) == {0: StateKind.AWAKE, 1: StateKind.ASLEEP}
    hibernate(outputs, world.clients, world.clock)
    assert states(world, outputs) == {0: StateKind.ASLEEP, 1: StateKind.ASLEEP}
    assert world.live_instances() == []


def test_a_replica_without_capacity_leaves_the_others_awake(world: World) -> None:
    outputs = two_lanes(world)
    world.refuse(zone="us-east-2b")
    with pytest.raises(CapacityError) as caught:
        wake(outputs, world.clients, world.clock)
    assert "1 of 2 replicas could not be brought there:\nreplica 0: awake on spot-a" in str(caught.value)
    assert "replica 1: no candidate could give a GPU node" in str(caught.value)
    assert states(world, outputs) == {0: StateKind.AWAKE, 1: StateKind.ASLEEP}
    hibernate(outputs, world.clients, world.clock)


def test_more_replicas_than_there_are_is_wrong_usage(world: World) -> None:
    with pytest.raises(ConfigurationError, match="--replicas: got 3; accepted: 1 to 2, as many as the stack has"):
        wake(two_lanes(world), world.clients, world.clock, request=WakeRequest(replicas=3))
    with pytest.raises(ConfigurationError, match="--replicas: got 2; accepted: 0 to 1, how many are left awake"):
        hibernate(two_lanes(world), world.clients, world.clock, request=HibernateRequest(replicas=2))


@pytest.fixture
def joined(world: World) -> Iterator[StackOutputs]:
    """The candidate ondemand-a takes two machines; the second has a Deployment and a volume of its own."""
    volume = world.ec2.create_volume(AvailabilityZone="us-east-2a", Size=700, VolumeType="gp3")["VolumeId"]
    labels = {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/instance": "kimi"}
    made: list[str] = []
    for collection, body in worlds._manifests("a-node1", "us-east-2a", volume, labels):
        apart: Any = json.loads(json.dumps(body).replace("dormouse.dev/zone", "dormouse.dev/place"))
        world.clients.kubernetes.create(collection, apart)
        made.append(f"{collection}/{apart['metadata']['name']}")
    group = {"clusterName": worlds.CLUSTER, "nodegroupName": "gpu-ondemand-a"}
    world.eks.update_nodegroup_config(**group, scalingConfig={"maxSize": 2})
    world.wait("node group is idle", lambda: world.status("ondemand-a") == "ACTIVE")
    slot = next(slot for slot in world.outputs.slots if slot.name == "ondemand-a")
    slot = replace(slot, nodes=2, worker_deployment_names=("vllm-a-node1",), worker_volume_ids=(volume,))
    yield replace(world.outputs, slots=(slot,))
    for path in reversed(made):
        world.clients.kubernetes.delete(path)


@pytest.mark.sandbox
def test_two_machines_of_a_replica_come_and_go_together(world: World, joined: StackOutputs) -> None:
    wake(joined, world.clients, world.clock)
    seen = observe(joined, world.clients, world.clock)
    assert (seen.slots[0].desired, len(seen.slots[0].paid)) == (2, 2)
    assert {one.node_ready for one in seen.slots[0].paid} == {True}
    scale = f"/apis/apps/v1/namespaces/{worlds.NAMESPACE}/deployments/vllm-a-node1"
    assert world.clients.kubernetes.get(scale)["spec"]["replicas"] == 1
    assert {one.state for one in seen.volumes} == {"in-use"}
    hibernate(joined, world.clients, world.clock)
    assert world.clients.kubernetes.get(scale)["spec"]["replicas"] == 0
    assert world.live_instances() == []
    assert {one.state for one in observe(joined, world.clients, world.clock).volumes} == {"available"}
