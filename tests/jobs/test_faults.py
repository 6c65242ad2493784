"""What goes wrong on AWS's side while a job runs: it is told, waited for or freed, and nothing is lost."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from moto.sns.models import sns_backends

from infra.jobs.aws_errors import is_throttled
from infra.jobs.hibernate import hibernate
from infra.jobs.observe import observe
from infra.jobs.progress import Report
from infra.jobs.wake import wake
from infra.jobs.weight_volumes import holder_words
from infra.outputs import StackOutputs
from serving.errors import CapacityError
from tests.jobs.test_move import patient
from tests.jobs.world import REGION, World


@pytest.fixture
def told(world: World) -> Iterator[StackOutputs]:
    """The outputs with a topic."""
    sns = world._session.client("sns", endpoint_url=world.cloud.endpoint_url)
    arn = sns.create_topic(Name="dev")["TopicArn"]
    yield replace(patient(world), topic_arn=arn)
    sns.delete_topic(TopicArn=arn)


def events(outputs: StackOutputs) -> list[dict[str, Any]]:
    topic: Any = sns_backends["123456789012"][REGION].topics[outputs.topic_arn]
    return [json.loads(entry[1]) for entry in topic.sent_notifications]


def test_every_turn_is_told_on_the_topic(world: World, told: StackOutputs) -> None:
    world.refuse(purchase="spot", code="MaxSpotInstanceCountExceeded")
    wake(told, world.clients, world.clock)
    hibernate(told, world.clients, world.clock)
    heard = events(told)
    assert [(one["event"], one["slot"]) for one in heard] == [
        ("waking", None),
        ("refused", "spot-a"),
        ("awake", "ondemand-a"),
        ("asleep", None),
    ]
    assert "Max spot instance count exceeded" in heard[1]["sentence"]
    assert heard[2]["sentence"].startswith("awake on ondemand-a after")
    assert (heard[2]["purchase"], heard[2]["usdPerHour"], heard[2]["environment"]) == ("on-demand", 63.30, "dev")


def test_a_message_that_cannot_be_sent_fails_no_job(world: World) -> None:
    nowhere = replace(patient(world), topic_arn=f"arn:aws:sns:{REGION}:123456789012:gone")
    world.refuse(code="VcpuLimitExceeded")
    with pytest.raises(CapacityError):
        wake(nowhere, world.clients, world.clock)
    world.capacity.rules.clear()
    first = replace(nowhere, slots=nowhere.slots[:1])
    report: Report = wake(first, world.clients, world.clock)
    assert report.slot == "spot-a"
    assert any("the event `awake` could not be published on arn:aws:sns" in note for note in report.notes)


def test_a_volume_on_a_machine_that_is_gone_is_seen_and_freed(world: World) -> None:
    volume_id, zone = world.volumes["a"], f"{REGION}a"
    image = world.ec2.describe_images()["Images"][0]["ImageId"]
    dead = world.ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, SubnetId=world.subnets["a"])["Instances"][0]
    world.ec2.attach_volume(VolumeId=volume_id, InstanceId=dead["InstanceId"], Device="/dev/xvdba")
    view = next(one for one in world.observe().volumes if one.volume_id == volume_id)
    assert (view.attached_to, view.attachment, view.holder_state) == (dead["InstanceId"], "attached", None)
    assert not view.is_stuck
    assert holder_words(view, "i-own") == f"weight volume {volume_id} is still attached at {dead['InstanceId']}"
    stuck = replace(view, holder_state="terminated")
    assert stuck.is_stuck
    assert holder_words(stuck, "i-own").endswith("which is terminated")

    clients = world.connect()
    asked: list[dict[str, Any]] = []
    clients.ec2.meta.events.register(
        "provide-client-params.ec2.DetachVolume", lambda params, **_: asked.append(dict(params))
    )
    clients.ec2.meta.events.register("before-call.ec2.DescribeInstances", _Terminated(dead["InstanceId"]))
    gone = next(one for one in observe(world.outputs, clients, world.clock).volumes if one.volume_id == volume_id)
    assert (gone.holder_state, gone.is_stuck, gone.zone) == ("missing", True, zone)
    report = wake(patient(world), clients, world.clock)
    assert asked == [{"VolumeId": volume_id, "InstanceId": dead["InstanceId"], "Force": True}]
    assert any(f"still hangs on {dead['InstanceId']}, which is missing" in note for note in report.notes)
    world.ec2.terminate_instances(InstanceIds=[dead["InstanceId"]])


class _Terminated:
    """EC2 has forgotten one instance."""

    def __init__(self, instance_id: str) -> None:
        self._instance_id = instance_id

    def __call__(self, params: dict[str, Any], **_: Any) -> None:
        if self._instance_id in str(params.get("body")):
            error = {"Error": {"Code": "InvalidInstanceID.NotFound", "Message": "does not exist"}}
            raise ClientError(error, "DescribeInstances")


def test_a_throttled_call_is_made_again(world: World) -> None:
    clients = world.connect()
    sent: list[str] = []

    def throttle(request: Any, **_: Any) -> AWSResponse | None:
        sent.append(request.url)
        if len(sent) > 1:
            return None
        body = b"<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>"
        return AWSResponse(request.url, 503, {}, _Body(body))

    clients.ec2.meta.events.register("before-send.ec2.DescribeVolumes", throttle)
    seen = observe(world.outputs, clients, world.clock)
    assert seen.unknown == ()
    assert len(sent) == 1 + len(seen.volumes)


class _Body:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._data


def test_a_change_that_stays_throttled_is_waited_for(world: World) -> None:
    clients = world.connect()
    update, refused = clients.eks.update_nodegroup_config, 2

    def throttled(**arguments: Any) -> Any:
        nonlocal refused
        if refused:
            refused -= 1
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, "Update")
        return update(**arguments)

    clients.eks.update_nodegroup_config = throttled
    report = wake(patient(world), clients, world.clock)
    assert report.slot == "spot-a"
    assert "node group gpu-spot-a cannot be changed yet, AWS throttles this account's calls; waiting" in [
        step.text for step in report.steps
    ]
    assert not is_throttled(ValueError("no"))


def test_what_eks_says_of_a_sick_node_group_is_told(world: World) -> None:
    clients = world.connect()
    describe = clients.eks.describe_nodegroup

    def sick(**arguments: Any) -> Any:
        answer = describe(**arguments)
        if arguments["nodegroupName"] == "gpu-spot-a":
            issue = {"code": "NodeCreationFailure", "message": "Instances failed to join the kubernetes cluster"}
            answer["nodegroup"].update(status="CREATE_FAILED", health={"issues": [issue]})
        return answer

    clients.eks.describe_nodegroup = sick
    outputs = replace(world.outputs, slots=patient(world).slots[:1])
    with pytest.raises(CapacityError) as raised:
        wake(outputs, clients, world.clock)
    assert (
        "node group gpu-spot-a is CREATE_FAILED; EKS says NodeCreationFailure: Instances failed to join the kubernetes "
        "cluster" in str(raised.value)
    )
