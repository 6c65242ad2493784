from collections.abc import Iterator
from pathlib import Path

import pytest

from components.programs.bundle import bundle
from components.programs.hydrator import ENTRY, MODULES
from tests.programs.hub import Hub
from tests.programs.model import MadeUpModel, made_up_model


@pytest.fixture(scope="session")
def model() -> MadeUpModel:
    return made_up_model(shards=4, shard_mb=1.0)


@pytest.fixture
def hub(model: MadeUpModel) -> Iterator[Hub]:
    with Hub(model) as hub:
        yield hub


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "hydrator.pyz"
    path.write_bytes(bundle(ENTRY, MODULES))
    return path
