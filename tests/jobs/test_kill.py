"""Wake and hibernate killed before and after every change they make, then run again: same end, never two nodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from infra.jobs.clients import Clients
from infra.jobs.hibernate import hibernate
from infra.jobs.kubernetes_api import KubernetesApi
from infra.jobs.state import StateKind, state_of
from infra.jobs.wake import wake
from tests.jobs.world import World


class Killed(BaseException):
    """The process ends here."""


class Killer:
    """Counts the changes that pass, and kills before or after one of them."""

    def __init__(self, at: int, after: bool, *, for_good: bool = False) -> None:
        self.at, self.after, self.for_good = at, after, for_good
        self.changes = 0
        self.dead = False

    @contextmanager
    def change(self) -> Iterator[None]:
        self.check()
        self.changes += 1
        if self.changes == self.at and not self.after:
            self.kill()
        yield
        if self.changes == self.at and self.after:
            self.kill()

    def check(self) -> None:
        """A process that was killed for good sends nothing more, not even the lock's release."""
        if self.dead:
            raise Killed

    def kill(self) -> None:
        self.dead = self.for_good
        raise Killed


def fragile(world: World, killer: Killer) -> Clients:
    """Clients whose changes of AWS and Kubernetes pass through `killer`; the lock itself is not counted."""
    clients = world.connect()
    api: KubernetesApi = clients.kubernetes
    send, update = api._send, clients.eks.update_nodegroup_config

    def fragile_send(method: str, path: str, *rest: Any) -> bytes:
        killer.check()
        if method == "GET" or "/leases" in path:
            return send(method, path, *rest)
        with killer.change():
            return send(method, path, *rest)

    def fragile_update(**arguments: Any) -> Any:
        with killer.change():
            return update(**arguments)

    api._send = fragile_send
    clients.eks.update_nodegroup_config = fragile_update
    return clients


def assert_awake(world: World, launched_before: int) -> None:
    assert state_of(world.observe()).kind is StateKind.AWAKE
    assert len(world.live_instances()) == 1
    assert world.launched_ever() - launched_before == 1
    assert sum(world.desired().values()) == 1
    assert world.replicas() == {"vllm-a": 1, "vllm-b": 0}
    assert world.annotation("vllm-a") == "awake"
    assert world.ready_pod()["metadata"]["labels"]["dormouse.dev/accepting"] == "true"


def assert_asleep(world: World) -> None:
    assert state_of(world.observe()).kind is StateKind.ASLEEP
    assert world.live_instances() == []
    assert set(world.replicas().values()) == {0}
    assert world.annotation("vllm-a") == "asleep"


# A wake makes five changes (annotate, raise, annotate, scale, annotate); a hibernation of an awake stack seven
# (annotate, relabel, annotate, scale, lower, annotate both).
# Being killed after one change is being killed before the next, so the last one alone is tried both ways.
# Two of the places are enough for every change; the rest belongs to whole days on the simulated cloud.
@pytest.mark.parametrize(
    ("at", "after"),
    [
        pytest.param(at, after, marks=() if at in (2, 5) else pytest.mark.sandbox)
        for at, after in [*((at, False) for at in range(1, 8)), (7, True)]
    ],
)
def test_killed_and_run_again(world: World, at: int, after: bool) -> None:
    launched_before = world.launched_ever()
    killer = Killer(at, after)
    clients = fragile(world, killer)
    if at <= 5:
        with pytest.raises(Killed):
            wake(world.outputs, clients, world.clock)
        assert len(world.live_instances()) <= 1
    wake(world.outputs, world.clients, world.clock)
    assert_awake(world, launched_before)

    killer = Killer(at, after)
    with pytest.raises(Killed):
        hibernate(world.outputs, fragile(world, killer), world.clock)
    hibernate(world.outputs, world.clients, world.clock)
    assert_asleep(world)


@pytest.mark.sandbox
def test_there_are_no_more_changes_than_the_test_kills_at(world: World) -> None:
    counter = Killer(0, False)
    wake(world.outputs, fragile(world, counter), world.clock)
    assert counter.changes == 5
    counter = Killer(0, False)
    hibernate(world.outputs, fragile(world, counter), world.clock)
    assert counter.changes == 7


def test_a_drain_that_was_killed_is_taken_back_by_a_wake(world: World) -> None:
    wake(world.outputs, world.clients, world.clock)
    with pytest.raises(Killed):
        hibernate(world.outputs, fragile(world, Killer(2, True)), world.clock)
    assert state_of(world.observe()).kind is StateKind.DRAINING
    report = wake(world.outputs, world.clients, world.clock)
    assert (report.changed, report.sentence.startswith("awake again")) == (True, True)
    assert state_of(world.observe()).kind is StateKind.AWAKE


@pytest.mark.sandbox
def test_a_refusing_candidate_that_was_being_left_is_left_on_the_next_run(world: World) -> None:
    world.refuse(purchase="spot", code="MaxSpotInstanceCountExceeded")
    with pytest.raises(Killed):
        # annotate, raise, and then the lowering.
        wake(world.outputs, fragile(world, Killer(3, False)), world.clock)
    assert world.desired()["spot-a"] == 1
    report = wake(world.outputs, world.clients, world.clock)
    assert report.slot == "ondemand-a"
    assert world.desired() == {"spot-a": 0, "ondemand-a": 1, "ondemand-b": 0}
    assert len(world.live_instances()) == 1


def test_the_lock_of_a_dead_process_is_taken_over(world: World) -> None:
    with pytest.raises(Killed):
        wake(world.outputs, fragile(world, Killer(2, True, for_good=True)), world.clock)
    assert world.observe().operation is not None
    report = wake(world.outputs, world.clients, world.clock)
    assert report.state == "awake"
    assert any("which gave no sign of life" in note for note in report.notes)
    assert world.observe().operation is None
    assert len(world.live_instances()) == 1
