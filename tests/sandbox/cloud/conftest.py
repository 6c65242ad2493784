from collections.abc import Callable, Iterator

import pytest
from botocore.exceptions import ClientError

from infra.sandbox.cloud.server import CloudServer
from tests.sandbox.cloud.world import HandClock, World


@pytest.fixture(scope="module")
def shared_world() -> Iterator[World]:
    clock = HandClock()
    with CloudServer(clock) as server:
        yield World(server, clock)


@pytest.fixture
def world(shared_world: World) -> World:
    """An empty cloud whose clock the test moves; the server and its clients are the module's."""
    shared_world.begin_anew()
    return shared_world


Refuses = Callable[..., str]


@pytest.fixture
def refuses() -> Refuses:
    """`refuses(code, call, **arguments)`: the call is refused with that AWS error code; returns its message."""

    def check(code: str, call: Callable[..., object], **arguments: object) -> str:
        with pytest.raises(ClientError) as caught:
            call(**arguments)
        error = caught.value.response["Error"]
        assert error["Code"] == code, error
        return error["Message"]

    return check
