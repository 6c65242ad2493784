"""One simulated stack for all tests of the jobs, put back to asleep before each."""

from collections.abc import Iterator

import pytest

from infra.jobs import candidate
from tests.jobs.world import World


@pytest.fixture(scope="package")
def one_world() -> Iterator[World]:
    with World() as made:
        yield made


@pytest.fixture
def world(one_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    # On the fast clock a thread that stalls for a second must not pass for a node that never joins.
    monkeypatch.setattr(candidate, "NODE_JOIN_S", 20_000.0)
    one_world.reset()
    return one_world
