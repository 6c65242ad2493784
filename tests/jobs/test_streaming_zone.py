"""A zone without a weight volume: its slot wakes, is told apart, and sleeps with nothing to detach."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from botocore.exceptions import ClientError

from infra.jobs.clients import Clients
from infra.jobs.hibernate import HibernateRequest, hibernate
from infra.jobs.observe import observe
from infra.jobs.state import StateKind, state_of
from infra.jobs.wake import WakeRequest, wake
from infra.jobs.weights.copy import copy_problem
from infra.outputs import StackOutputs
from serving.errors import CapacityError
from tests.jobs.world import NAMESPACE, REGION, World

MARKER = "kimi-k2.5/.dormouse/verified.json"
PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/vllm-b"


@pytest.fixture
def outputs(world: World) -> Iterator[StackOutputs]:
    """The stack with zone b as one that streams; its pods mount nothing."""
    was = world.clients.kubernetes.get(PATH)["spec"]["template"]["spec"]["volumes"]
    world.clients.kubernetes.patch(
        PATH, {"spec": {"template": {"spec": {"volumes": [{"name": "weights", "emptyDir": {}}]}}}}
    )
    slots = tuple(
        replace(slot, volume_id="", loads_from_s3=True) if slot.name == "ondemand-b" else slot
        for slot in world.outputs.slots
    )
    world.clients.s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    yield replace(world.outputs, slots=slots, weights_copy_uri="s3://bucket/kimi-k2.5")
    world.clients.kubernetes.patch(PATH, {"spec": {"template": {"spec": {"volumes": was}}}})
    world.clients.s3.delete_object(Bucket="bucket", Key=MARKER)
    world.clients.s3.delete_bucket(Bucket="bucket")


@pytest.mark.parametrize("body", [None, b""])
def test_no_machine_is_paid_for_while_the_copy_is_not_whole(
    world: World, outputs: StackOutputs, body: bytes | None
) -> None:
    if body is not None:
        world.clients.s3.put_object(Bucket="bucket", Key=MARKER, Body=body)
    before = world.launched_ever()
    with pytest.raises(CapacityError) as refused:
        wake(outputs, world.clients, world.clock, request=WakeRequest(slot="ondemand-b"))
    assert world.launched_ever() == before
    said = "is not there" if body is None else "is being filled, or its filling was interrupted"
    assert str(refused.value).startswith("no candidate serves; every node group is back at 0")
    assert str(refused.value).endswith(
        "What can help: fill the copy in S3: `dormouse weights hydrate`, then wake again."
    )
    assert f"the copy of the weights at s3://bucket/kimi-k2.5 {said}: `dormouse weights hydrate` fills it" in str(
        refused.value
    )


def test_a_copy_that_cannot_be_looked_at_is_told_and_does_not_keep_the_model_asleep(outputs: StackOutputs) -> None:
    class Denied:
        def head_object(self, **_: str) -> None:
            raise ClientError({"Error": {"Code": "403", "Message": "Forbidden"}}, "HeadObject")

    clients = cast("Clients", SimpleNamespace(s3=Denied()))
    assert copy_problem(clients, outputs.weights_copy_uri) == ("", "403: Forbidden")


def test_it_wakes_and_sleeps_without_a_volume(world: World, outputs: StackOutputs) -> None:
    world.clients.s3.put_object(Bucket="bucket", Key=MARKER, Body=b"{}")
    report = wake(outputs, world.clients, world.clock, request=WakeRequest(slot="ondemand-b"))
    assert report.sentence.startswith("awake on ondemand-b after ")
    seen = observe(outputs, world.clients, world.clock)
    assert [(one.zone, one.attached_to) for one in seen.volumes] == [("us-east-2a", None)]
    assert world.ready_pod()["metadata"]["labels"]["dormouse.dev/zone"] == "us-east-2b"
    assert outputs.slots[2].volume_ids == ()
    assert StackOutputs.from_mapping(outputs.to_mapping()) == outputs

    report = hibernate(outputs, world.clients, world.clock, request=HibernateRequest(force=True))
    assert f"weights kept on {world.volumes['a']} (us-east-2a)" in report.sentence
    only = replace(outputs, slots=outputs.slots[2:])
    state = state_of(observe(only, world.clients, world.clock))
    assert state.kind is StateKind.ASLEEP
    assert state.why.endswith("weights are kept on the copy in S3")
