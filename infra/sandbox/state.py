"""Where the running sandbox says what it is: one JSON file that the command line and the sandbox's process share."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from infra.clock import ScaledClock
from infra.outputs import StackOutputs
from serving.errors import ConfigurationError, DormouseError, Fault

FOLDER_VARIABLE = "DORMOUSE_SANDBOX_DIR"
_FILE = "state.json"


class SandboxNotRunningError(DormouseError):
    """No sandbox runs on this machine."""


@dataclass(frozen=True)
class SandboxState:
    """The running sandbox.

    - `pid`: its process. `speed`: simulated seconds in one real second, part of `clock`.
    - `aws_endpoint_url`, `admin_url`, `kubernetes_url`: its servers, all on 127.0.0.1.
    - `outputs`: the stack's outputs.
    """

    pid: int
    aws_endpoint_url: str
    admin_url: str
    kubernetes_url: str
    clock: ScaledClock
    outputs: StackOutputs

    @classmethod
    def load(cls, folder: Path | None = None) -> "SandboxState":
        """Read the state of the running sandbox.

        Raises SandboxNotRunningError where none runs, ConfigurationError where the file is not what `save` wrote.
        """
        values = read_state(folder)
        if values is None or "outputs" not in values:
            raise SandboxNotRunningError("no sandbox runs on this machine; `dormouse sandbox up` starts one")
        return cls(
            pid=int(values["pid"]),
            aws_endpoint_url=values["awsEndpointUrl"],
            admin_url=values["adminUrl"],
            kubernetes_url=values["kubernetesUrl"],
            clock=clock_of(values),
            outputs=StackOutputs.from_mapping(values["outputs"], "the sandbox's outputs"),
        )


def default_folder() -> Path:
    """The folder of the sandbox's state: DORMOUSE_SANDBOX_DIR, else one below the user's state folder."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dormouse" / "sandbox"


def read_state(folder: Path | None = None) -> dict[str, Any] | None:
    """What the state file says, or None where there is none or its process has gone."""
    path = (folder or default_folder()) / _FILE
    try:
        parsed: object = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            [Fault(str(path), str(error), "what `dormouse sandbox up` writes; `dormouse sandbox down` clears it")],
            "the sandbox's state",
        ) from error
    values = cast("dict[str, Any]", parsed)
    return values if _alive(int(values.get("pid", 0))) else None


def write_state(values: Mapping[str, Any], folder: Path | None = None) -> None:
    """Write the state file whole or not at all."""
    target = folder or default_folder()
    target.mkdir(parents=True, exist_ok=True)
    new = target / f"{_FILE}.new"
    new.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    new.replace(target / _FILE)


def remove_state(folder: Path | None = None) -> None:
    """Remove the state file, if there is one."""
    ((folder or default_folder()) / _FILE).unlink(missing_ok=True)


def clock_of(values: Mapping[str, Any]) -> ScaledClock:
    """The sandbox's clock out of its state."""
    clock = cast("Mapping[str, float]", values["clock"])
    return ScaledClock(clock["originUnixS"], clock["originSimulatedUnixS"], clock["speed"])


def _alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A child of ours that ended and was not waited for still has its id.
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return True
    return status != "Z"
