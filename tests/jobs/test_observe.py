"""What cannot be read is unknown, with its reason, and nothing is done on a guess."""

import dataclasses
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.jobs.clients import WrongAccountError, connect
from infra.jobs.hibernate import hibernate
from infra.jobs.observe import observe
from infra.jobs.state import StateKind, state_of
from infra.jobs.wake import wake
from serving.errors import JobError
from tests.jobs.world import World


def deny(client: Any, operation: str) -> None:
    """Have AWS deny one operation of this client."""

    def refuse(**_: Any) -> None:
        error = {"Error": {"Code": "AccessDeniedException", "Message": "User is not authorized"}}
        raise ClientError(error, operation)

    client.meta.events.register(f"before-call.*.{operation}", refuse)


def test_a_denied_call_is_an_unknown_part(world: World) -> None:
    clients = world.connect()
    deny(clients.autoscaling, "DescribeScalingActivities")
    deny(clients.ec2, "DescribeVolumes")
    seen = observe(world.outputs, clients, world.clock)
    reasons = {one.what: one.reason for one in seen.unknown}
    assert reasons["launches of spot-a"] == (
        "DescribeScalingActivities answered AccessDeniedException: User is not authorized"
    )
    assert f"volume {world.volumes['a']}" in reasons
    assert [volume.state for volume in seen.volumes] == [None, None]
    assert state_of(seen).kind is StateKind.ASLEEP


def test_blind_jobs_change_nothing(world: World) -> None:
    clients = world.connect()
    deny(clients.eks, "DescribeNodegroup")
    seen = observe(world.outputs, clients, world.clock)
    assert state_of(seen).kind is StateKind.UNKNOWN
    for job in (wake, hibernate):
        with pytest.raises(JobError, match="cannot be read, so nothing was changed") as raised:
            job(world.outputs, clients, world.clock)
        assert "node group gpu-ondemand-b: DescribeNodegroup answered AccessDeniedException" in str(raised.value)
    assert set(world.desired().values()) == {0}


def test_a_cluster_that_does_not_exist(world: World) -> None:
    outputs = dataclasses.replace(world.outputs, cluster_name="gone")
    clients = connect(outputs, endpoint_url=world.cloud.endpoint_url, simulated=True)
    state = state_of(observe(outputs, clients, world.clock))
    assert state.kind is StateKind.UNKNOWN
    assert "cluster gone does not exist in us-east-2" in state.why
    with pytest.raises(JobError, match="cluster gone does not exist in us-east-2"):
        wake(outputs, clients, world.clock)


def test_a_namespace_that_does_not_exist(world: World) -> None:
    outputs = dataclasses.replace(world.outputs, namespace="gone")
    with pytest.raises(JobError, match="namespace gone does not exist in the cluster"):
        wake(outputs, world.clients, world.clock)


def test_another_account_is_refused(world: World) -> None:
    outputs = dataclasses.replace(world.outputs, account_id="999999999999")
    with pytest.raises(WrongAccountError) as raised:
        connect(outputs, endpoint_url=world.cloud.endpoint_url, simulated=True)
    assert "belong to account 123456789012, but stack dev lives in account 999999999999" in str(raised.value)


def test_a_missing_volume_is_named(world: World) -> None:
    slots = tuple(dataclasses.replace(slot, volume_id="vol-0123456789abcdef0") for slot in world.outputs.slots)
    outputs = dataclasses.replace(world.outputs, slots=slots)
    seen = observe(outputs, world.clients, world.clock)
    assert [volume.state for volume in seen.volumes] == ["missing"]
    assert state_of(seen).why == "weight volume vol-0123456789abcdef0 in us-east-2b does not exist"


def test_an_anonymous_caller_of_kubernetes_is_unknown(world: World) -> None:
    clients = world.connect()
    clients.kubernetes._token = lambda: "k8s-aws-v1.nobody"
    seen = observe(world.outputs, clients, world.clock)
    state = state_of(seen)
    assert state.kind is StateKind.UNKNOWN
    assert "401 Unauthorized" in state.why
    assert json.dumps(state.why)
