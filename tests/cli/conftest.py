"""A simulated stack and an outputs file that leads the command line to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.world import World


@pytest.fixture(scope="package")
def one_world() -> Iterator[World]:
    with World() as made:
        yield made


@pytest.fixture
def world(one_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The stack asleep, with the environment that a user on AWS would have."""
    one_world.reset()
    file = tmp_path / "outputs.json"
    file.write_text(one_world.outputs.to_json())
    monkeypatch.setenv("DORMOUSE_OUTPUTS", str(file))
    monkeypatch.setenv("AWS_ENDPOINT_URL", one_world.cloud.endpoint_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    # The command line's clock for a file is the machine's; these tests wake on the simulated one.
    monkeypatch.setattr("infra.jobs.discovery.SystemClock", lambda: one_world.clock)
    return one_world
