"""The judgement of a state, from hand-made observations."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra.jobs.capacity import LaunchFailure
from infra.jobs.observation import (
    DeploymentView,
    InstanceView,
    Observation,
    OperationView,
    PodView,
    Requests,
    SlotView,
    Unknown,
    VolumeView,
)
from infra.jobs.state import StateKind, WakingStage, state_of
from infra.outputs import Slot

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SLOT = Slot("spot-a", "spot", "p5e.48xlarge", "us-east-2a", "use2-az1", "gpu-spot-a", "vllm-a", "vol-1", 600)
RUNNING = InstanceView("i-1", "running", "spot", "us-east-2a", NOW - timedelta(minutes=5), "node-1", node_ready=True)
READY = PodView("vllm-a-1", "ready", node_name="node-1", requests=Requests(2, 1))
LOADING = PodView("vllm-a-1", "loading", node_name="node-1", since=NOW - timedelta(minutes=4), planned_load_s=900.0)


def seen(
    desired: int | None = 0,
    instances: tuple[InstanceView, ...] = (),
    replicas: int | None = 0,
    pods: tuple[PodView, ...] | None = (),
    volume: VolumeView | None = None,
    **more: Any,
) -> Observation:
    return Observation(
        at=NOW,
        slots=(SlotView(SLOT, "ACTIVE", desired, instances, more.pop("failures", ())),),
        deployments=(DeploymentView("vllm-a", "us-east-2a", replicas, pods),),
        volumes=(volume or VolumeView("vol-1", "us-east-2a", "available"),),
        **more,
    )


@pytest.mark.parametrize(
    ("observation", "kind", "stage", "words"),
    [
        (seen(), StateKind.ASLEEP, None, "weights are kept on vol-1 in us-east-2a"),
        (seen(1, replicas=1), StateKind.WAKING, WakingStage.CAPACITY, "p5e.48xlarge (spot) is asked for in us-east-2a"),
        (
            seen(1, (replace(RUNNING, node_ready=None, node_name=None),), 1),
            StateKind.WAKING,
            WakingStage.NODE,
            "instance i-1 has run for 5 min; its node is not Ready yet",
        ),
        (
            seen(1, (RUNNING,), 1, (PodView("vllm-a-1", "pending", "ContainerCreating", planned_load_s=900.0),)),
            StateKind.WAKING,
            WakingStage.SCHEDULING,
            "pod vllm-a-1 is not started yet: ContainerCreating",
        ),
        (seen(1, (RUNNING,), 1, (LOADING,)), StateKind.WAKING, WakingStage.LOADING, "for 4 min of about 15 min"),
        (seen(1, (RUNNING,), 1, (READY,)), StateKind.AWAKE, None, "2 requests running, 1 waiting"),
        (
            seen(1, (RUNNING,), 1, (replace(READY, accepting=False),)),
            StateKind.DRAINING,
            None,
            "takes no new requests",
        ),
        (
            seen(1, (RUNNING,), 0, (replace(READY, phase="terminating"),)),
            StateKind.STOPPING,
            None,
            "pod vllm-a-1 is stopping and ends 3 requests",
        ),
        (
            seen(0, (replace(RUNNING, state="shutting-down"),)),
            StateKind.STOPPING,
            None,
            "i-1 of spot-a is shutting-down",
        ),
        (seen(1, (RUNNING,)), StateKind.INCONSISTENT, None, "the node of spot-a is paid for, but no pod is wanted"),
        (seen(0, replicas=1), StateKind.INCONSISTENT, None, "wants a pod, but no node is asked for"),
        (
            seen(0, replicas=1, pods=(replace(LOADING),)),
            StateKind.INCONSISTENT,
            None,
            "is wanted in us-east-2a, but its node is gone",
        ),
        (
            seen(volume=VolumeView("vol-1", "us-east-2a", "in-use", "i-9")),
            StateKind.INCONSISTENT,
            None,
            "vol-1 is still attached to i-9",
        ),
        (seen(volume=VolumeView("vol-1", "us-east-2a", "missing")), StateKind.INCONSISTENT, None, "does not exist"),
        (
            seen(0, replicas=None, pods=None, unknown=(Unknown("nodes", "403 Forbidden"),)),
            StateKind.UNKNOWN,
            None,
            "nodes: 403 Forbidden",
        ),
        (
            seen(None, unknown=(Unknown("node group gpu-spot-a", "AccessDenied"),)),
            StateKind.UNKNOWN,
            None,
            "node group gpu-spot-a: AccessDenied",
        ),
    ],
)
def test_state(observation: Observation, kind: StateKind, stage: WakingStage | None, words: str) -> None:
    state = state_of(observation)
    assert (state.kind, state.stage) == (kind, stage)
    assert words in state.why


def test_a_node_without_a_pod_is_waking_while_a_job_lives_and_inconsistent_after() -> None:
    for goal, age_s, kind in (
        ("wake", 5, StateKind.WAKING),
        ("wake --slot spot-a", 5, StateKind.WAKING),
        ("hibernate", 5, StateKind.STOPPING),
        ("wake", 600, StateKind.INCONSISTENT),
    ):
        operation = OperationView(goal, "ann@laptop", NOW - timedelta(seconds=age_s))
        assert state_of(seen(1, (RUNNING,), operation=operation)).kind is kind


def test_the_estimate_is_what_is_left_and_unknown_once_used_up() -> None:
    assert state_of(seen(1, (RUNNING,), 1, (LOADING,))).remaining_s == 660.0
    late = replace(LOADING, since=NOW - timedelta(minutes=16))
    assert state_of(seen(1, (RUNNING,), 1, (late,))).remaining_s is None


def test_unknown_requests_are_said_and_never_idle() -> None:
    pod = replace(READY, requests=None, requests_unknown="connection refused")
    state = state_of(seen(1, (RUNNING,), 1, (pod,)))
    assert "running requests unknown (connection refused)" in state.why


def test_a_refusal_is_part_of_the_sentence() -> None:
    failures = (LaunchFailure("1", NOW, "We currently do not have sufficient p5e.48xlarge capacity"),)
    state = state_of(seen(1, replicas=1, failures=failures))
    assert state.why.endswith("last refusal: We currently do not have sufficient p5e.48xlarge capacity")


def test_money_is_unknown_where_a_price_is() -> None:
    assert seen(1, (RUNNING,), 1).usd_per_hour is None
    assert seen().usd_per_hour == 0
    assert seen(None).usd_per_hour is None
