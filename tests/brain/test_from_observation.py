"""The jobs' observation, as the brain sees it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from infra.brain.from_observation import situation_from, slots_from
from infra.brain.situation import SlotState
from infra.jobs.observation import (
    LOADING,
    PENDING,
    READY,
    TERMINATING,
    DeploymentView,
    InstanceView,
    Observation,
    PodView,
    Requests,
    SlotView,
)
from infra.outputs import Slot
from tests.brain.worlds import NOW

SPOT = Slot("spot", "spot", "p5en.48xlarge", "us-east-2a", "use2-az1", "ng-spot", "vllm-a", "vol-1", 600, None, 26.5)
MACHINE = InstanceView("i-1", "running", "spot", "us-east-2a", NOW - timedelta(hours=1), "node-1", True)
UP = SlotView(SPOT, "ACTIVE", 1, (MACHINE,))
DOWN = SlotView(SPOT, "ACTIVE", 0)


def seen(view: SlotView, *pods: PodView, replicas: int | None = 1, readable: bool = True) -> Observation:
    return Observation(
        NOW, (view,), (DeploymentView("vllm-a", "us-east-2a", replicas, pods if readable else None),), ()
    )


def pod(phase: str, **fields) -> PodView:
    return PodView("vllm-a-0", phase, node_name="node-1", since=NOW - timedelta(minutes=7), **fields)


@pytest.mark.parametrize(
    ("observation", "state"),
    [
        (seen(DOWN, replicas=0), SlotState.ASLEEP),
        (seen(UP), SlotState.WAKING),
        (seen(UP, replace(pod(PENDING), node_name=None)), SlotState.WAKING),
        (seen(UP, pod(LOADING)), SlotState.LOADING),
        (seen(UP, pod(READY, requests=Requests(2, 1))), SlotState.AWAKE),
        (seen(UP, pod(READY, accepting=False, requests=Requests(2, 1))), SlotState.DRAINING),
        (seen(UP, pod(TERMINATING), replicas=0), SlotState.STOPPING),
        (seen(replace(DOWN, instances=(replace(MACHINE, state="shutting-down"),)), replicas=0), SlotState.STOPPING),
        (seen(UP, replicas=0), SlotState.UNKNOWN),
        (seen(UP, readable=False), SlotState.UNKNOWN),
        (seen(replace(DOWN, desired=None), replicas=0), SlotState.UNKNOWN),
    ],
)
def test_each_state(observation, state) -> None:
    assert slots_from(observation)[0].state is state


def test_requests_that_could_not_be_read_stay_unknown() -> None:
    told = slots_from(seen(UP, pod(READY, requests_unknown="connection refused")))[0]
    assert (told.requests, told.unknown_reason) == (None, "connection refused")
    assert slots_from(seen(UP, pod(READY, requests=Requests(2, 1))))[0].requests == 3


def test_the_rest_comes_with_it() -> None:
    noticed = replace(UP, instances=(replace(MACHINE, notice="marked-for-termination"),))
    it = situation_from(seen(noticed, pod(READY)), last_activity=None, wake_requests=2, wake_s=900, drain_s=60,
                        refused_until={"spot": NOW})  # fmt: skip
    assert (it.now, it.wake_requests, it.wake_s) == (NOW, 2, 900)
    assert (it.slots[0].interruption_at, it.slots[0].usd_per_hour, it.slots[0].refused_until) == (NOW, 26.5, NOW)
