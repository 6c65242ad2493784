"""Fixtures of the engine tier: Pulumi's own engine, a real Kubernetes control plane, simulated AWS.

All tests in this folder carry the marker `engine`, so `-m "not engine"` leaves them out. They are skipped where the
engine is not built (`python3 engine/build.py`), and fail instead where DORMOUSE_REQUIRE_ENGINE is set.

For a session:
- `engine_bin`: the folder of binaries.
- `cloud`: simulated AWS in a process of its own: `.endpoint_url`, `.admin` (a CloudAdmin: capacity rules, capacity
  blocks, the Kubernetes endpoint), `.clock` (its ScaledClock), `.client("eks")` (a boto3 client).
- `control_plane`: the API server and its companions (ControlPlane). It asks the cloud about EKS tokens, and the
  cloud's DescribeCluster answers its URL and authority for every cluster.
- `kubernetes_client`: an administrator's client for the `kubernetes` package's API classes.
- `node_bridge`: keeps Kubernetes nodes equal to the cloud's running instances; `wait_for_round()` after a change.

For a test:
- `make_stack(project, **options)`: a PulumiStack on the cloud and the control plane; it is destroyed at the end, its
  protected resources too. `project` is a folder with Pulumi.yaml, such as the repository's own (REPOSITORY).

`waiting.wait_until(condition, what)` polls; `pulumi_events.Run` is what previews and the like return, and
`pulumi_cli.PulumiCommandError` what they raise, with the same facts in `.run`.

All stacks of a session share one control plane, whatever cluster they make, and the token webhook can tell the cluster
only while there is one: at most one EKS cluster at a time.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiClient

from .cloud_process import CloudProcess
from .control_plane import ControlPlane
from .node_bridge import NodeBridge
from .pulumi_cli import REPOSITORY, PulumiStack

_FOLDER = Path(__file__).resolve().parent
# A cluster that takes nine minutes in AWS takes under a second here.
CLOUD_SPEED = 600.0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, so that none can be forgotten."""
    for item in items:
        if item.path.is_relative_to(_FOLDER):
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="session", autouse=True)
def engine_bin() -> Path:
    """The binaries; skips, or fails where DORMOUSE_REQUIRE_ENGINE is set, when any is missing."""
    answer = subprocess.run(
        [sys.executable, str(REPOSITORY / "engine" / "build.py"), "--print-path", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode == 0:
        return Path(json.loads(answer.stdout)["bin"])
    reason = answer.stderr.strip() or "engine/build.py gave no reason"
    if os.environ.get("DORMOUSE_REQUIRE_ENGINE"):
        pytest.fail(f"DORMOUSE_REQUIRE_ENGINE is set, but: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def cloud(engine_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudProcess]:
    """Simulated AWS."""
    with CloudProcess(tmp_path_factory.mktemp("cloud"), speed=CLOUD_SPEED) as process:
        yield process


@pytest.fixture(scope="session")
def control_plane(
    engine_bin: Path, cloud: CloudProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """The control plane that every simulated EKS cluster answers with."""
    workdir = tmp_path_factory.mktemp("control-plane")
    with ControlPlane(engine_bin, workdir, cloud.token_webhook_url) as plane:
        cloud.admin.set_kubernetes(plane.url, plane.ca_data_base64)
        yield plane
        plane.require_alive()


@pytest.fixture(scope="session")
def kubernetes_client(control_plane: ControlPlane) -> ApiClient:
    """An administrator's client."""
    return control_plane.api_client()


@pytest.fixture(scope="session")
def node_bridge(control_plane: ControlPlane, cloud: CloudProcess) -> Iterator[NodeBridge]:
    """Kubernetes nodes for the cloud's instances."""
    with NodeBridge(control_plane.api_client(), cloud.nodes) as bridge:
        yield bridge


MakeStack = Callable[..., PulumiStack]


@pytest.fixture
def make_stack(
    engine_bin: Path, cloud: CloudProcess, control_plane: ControlPlane, tmp_path: Path
) -> Iterator[MakeStack]:
    """A factory of stacks that are gone when the test ends."""
    made: list[PulumiStack] = []

    def make(project: Path, **options: Any) -> PulumiStack:
        options.setdefault("aws_endpoint_url", cloud.endpoint_url)
        stack = PulumiStack(project, tmp_path / f"stack-{len(made)}", engine_bin, **options)
        made.append(stack)
        return stack

    yield make
    for stack in reversed(made):
        stack.remove_everything()
