"""Where a job learns of its stack: an outputs file, the running sandbox, or Pulumi's state."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from infra.clock import Clock, SystemClock
from infra.outputs import StackOutputs
from serving.errors import ConfigurationError, Fault

OUTPUTS_VARIABLE = "DORMOUSE_OUTPUTS"
_PULUMI_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Target:
    """The stack that a job works on.

    - `clock`: the machine's own, or the sandbox's.
    - `aws_endpoint_url`: where the simulated AWS listens; None for AWS, or what the environment says.
    - `simulated`: whether this is the sandbox.
    """

    outputs: StackOutputs
    clock: Clock
    aws_endpoint_url: str | None = None
    simulated: bool = False


def discover(
    *,
    outputs_file: str | None = None,
    stack: str | None = None,
    sandbox: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Target:
    """Find the stack: what the caller names, else the file in DORMOUSE_OUTPUTS.

    - `outputs_file`: a JSON file as `pulumi stack output --json` writes it; `-` is refused, name a file.
    - `stack`: a Pulumi stack of the project in this folder.
    - `sandbox`: the sandbox that runs on this machine.

    Raises ConfigurationError where nothing or too much is named, or the source cannot be read.
    """
    named = [word for word, given in (("--outputs", outputs_file), ("--stack", stack), ("--sandbox", sandbox)) if given]
    if len(named) > 1:
        raise ConfigurationError([Fault(" and ".join(named), "together", "one of them")], "the command line")
    if sandbox:
        return _from_sandbox()
    if stack:
        return Target(_from_pulumi(stack), SystemClock())
    if outputs_file:
        return Target(read_outputs_file(Path(outputs_file), "--outputs"), SystemClock())
    from_environment = environment.get(OUTPUTS_VARIABLE)
    if from_environment:
        return Target(read_outputs_file(Path(from_environment), OUTPUTS_VARIABLE), SystemClock())
    raise ConfigurationError(
        [
            Fault(
                "the stack",
                "nothing",
                f"--stack NAME, --outputs FILE, --sandbox, or a file named by {OUTPUTS_VARIABLE}; "
                "`pulumi stack output --json > outputs.json` writes such a file",
            )
        ],
        "the command line",
    )


def read_outputs_file(path: Path, key: str) -> StackOutputs:
    """Read a JSON file of outputs; raises ConfigurationError naming `key` or the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not readable as text"
        raise ConfigurationError(
            [Fault(key, f"{path} ({reason})", "a JSON file as `pulumi stack output --json` writes it")],
            "the command line",
        ) from error
    return _parse(text, str(path))


def _parse(text: str, where: str) -> StackOutputs:
    try:
        parsed: object = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(
            [Fault("the text", f"no JSON ({error})", "what `pulumi stack output --json` writes")], where
        ) from error
    if not isinstance(parsed, dict):
        raise ConfigurationError(
            [Fault("the JSON", f"a {type(parsed).__name__}", "an object of outputs such as clusterName and slots")],
            where,
        )
    outputs = cast("dict[str, Any]", parsed)
    # A stack may export everything below one key beside outputs of its own.
    nested = outputs.get("dormouse")
    if "clusterName" not in outputs and isinstance(nested, dict):
        outputs = cast("dict[str, Any]", nested)
    return StackOutputs.from_mapping(outputs, where)


def _from_pulumi(stack: str) -> StackOutputs:
    pulumi = shutil.which("pulumi")
    if pulumi is None:
        raise ConfigurationError(
            [
                Fault(
                    "--stack",
                    f"{stack}, but no `pulumi` is on PATH",
                    "an installed Pulumi CLI, or --outputs FILE written where there is one",
                )
            ],
            "the command line",
        )
    try:
        # Without --show-secrets Pulumi masks every secret, so none can reach a log.
        ran = subprocess.run(
            [pulumi, "stack", "output", "--json", "--non-interactive", "--stack", stack],
            capture_output=True,
            text=True,
            timeout=_PULUMI_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(
            [Fault("--stack", stack, f"a Pulumi backend that answers; it gave nothing within {_PULUMI_TIMEOUT_S:g} s")],
            "the command line",
        ) from error
    if ran.returncode != 0:
        said = " ".join(ran.stderr.split()) or f"exit status {ran.returncode}"
        raise ConfigurationError(
            [Fault("--stack", f"{stack} (Pulumi said: {said})", "a stack that `pulumi stack ls` lists in this folder")],
            "the command line",
        )
    if ran.stdout.strip() in ("", "{}"):
        raise ConfigurationError(
            [Fault("--stack", f"{stack}, which has no outputs", "a stack after `pulumi up`")], "the command line"
        )
    return _parse(ran.stdout, f"the outputs of stack {stack}")


def _from_sandbox() -> Target:
    # The sandbox is an optional part of the installation; a scheduled job on AWS goes without it.
    from infra.sandbox.state import SandboxState

    state = SandboxState.load()
    return Target(state.outputs, state.clock, state.aws_endpoint_url, simulated=True)
