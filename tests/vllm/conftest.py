"""A real vLLM on CPU, started by our own arguments, for every test of this folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vllm.real_engine import RealEngine, start_engine
from tests.vllm.scripted_model import write_model
from vllm_cpu.place import environment_path, is_built

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    built = is_built(environment_path())
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            if not built and not os.environ.get("DORMOUSE_REQUIRE_VLLM"):
                item.add_marker(pytest.mark.skip(reason="vLLM for CPU is not built; `make test-vllm` builds it"))


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "scripted-kimi"
    write_model(folder)
    return folder


@pytest.fixture(scope="session")
def engine(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealEngine]:
    """One server for all tests that leave it as it is."""
    started = start_engine(model_folder, tmp_path_factory.mktemp("engine"))
    try:
        started.wait_until_ready()
        yield started
    finally:
        started.stop()
