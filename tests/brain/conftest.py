"""One simulated stack for the tests of the brain at work, put back to asleep before each."""

from collections.abc import Iterator

import pytest

from tests.jobs.world import World


@pytest.fixture(scope="package")
def one_world() -> Iterator[World]:
    with World() as made:
        yield made


@pytest.fixture
def world(one_world: World) -> World:
    one_world.reset()
    return one_world
