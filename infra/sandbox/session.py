"""Starting, looking at and ending the one sandbox of this machine."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from infra.configuration import NAMESPACE
from infra.environment import Environment, load
from infra.jobs.weights.places import VERIFIED_TAG, verified_tag
from infra.outputs import StackOutputs
from infra.plan import read_stack_file, stack_name
from infra.program import run
from infra.sandbox.cloud.admin import CloudAdmin
from infra.sandbox.cloud.capacity import CapacityBlock
from infra.sandbox.deploy import ResourceEvent, deploy
from infra.sandbox.deployment import Deployment
from infra.sandbox.state import SandboxState, clock_of, default_folder, read_state, remove_state, write_state
from infra.sandbox.weight_copy import fill_simulated_copy
from infra.sandbox.world import ACCESS_KEY, sandbox_token, simulated_client
from infra.weights_settings import TOKEN_KEY
from serving.errors import DormouseError

DEFAULT_SPEED = 120.0
LARGEST_SPEED = 3600.0
_START_S = 60.0
_STOP_S = 20.0
_LOG_FILE = "world.log"
_BLOCK_LENGTH = timedelta(days=14)


class SandboxError(DormouseError):
    """The sandbox could not be started or ended."""


@dataclass(frozen=True)
class SandboxUp:
    """A sandbox that has just come up: its state, and what the program made in it."""

    state: SandboxState
    deployment: Deployment


def up(
    stack_file: Path, speed: float, on_resource: Callable[[ResourceEvent], None], *, empty_volumes: bool = False
) -> SandboxUp:
    """Start the simulated cloud and run the real program for `stack_file` in it.

    - `empty_volumes`: leave the weight volumes as they were made; else they count as hydrated, and are tagged so.

    Raises SandboxError where one runs already or cannot start, and what the program raises for a wrong stack file.
    """
    if read_state() is not None:
        raise SandboxError(
            "a sandbox runs already; `dormouse sandbox status` shows it, `dormouse sandbox down` ends it"
        )
    if not 1 <= speed <= LARGEST_SPEED:
        raise SandboxError(f"speed {speed:g}; accepted: 1 to {LARGEST_SPEED:g} simulated seconds in a real one")
    values = read_stack_file(stack_file)
    # The simulated callers' key; it never leaves this machine.
    values.setdefault("apiKeySecret", secrets.token_hex(24))
    stack = stack_name(stack_file)
    environment = load(stack, values, datetime.now(UTC).date(), str(stack_file))
    started = _start_world(speed, empty_volumes=empty_volumes)
    try:
        _own_the_blocks(environment, started)
        deployment = deploy(
            run,
            {f"{NAMESPACE}:{key}": _config_text(value) for key, value in values.items()}
            | {"aws:region": str(values.get("region", "us-east-2"))},
            secret_keys=[f"{NAMESPACE}:apiKeySecret", f"{NAMESPACE}:{TOKEN_KEY}"],
            aws_endpoint_url=started["awsEndpointUrl"],
            kubernetes_url=started["kubernetesUrl"],
            kubernetes_token=sandbox_token(f"dormouse-{stack}", str(values.get("region", "us-east-2"))),
            stack=stack,
            on_resource=on_resource,
            clock=clock_of(started),
        )
        outputs = StackOutputs.from_mapping(deployment.outputs)
        if not empty_volumes:
            _tag_as_hydrated(outputs, started)
            fill_simulated_copy(outputs, started["awsEndpointUrl"], clock_of(started).now())
        write_state({**started, "outputs": outputs.to_mapping(), "stackFile": str(stack_file.resolve())})
        return SandboxUp(SandboxState.load(), deployment)
    except BaseException:
        # A world without a stack is of no use to anybody.
        down()
        raise


def down() -> bool:
    """End the sandbox; True where one ran. Running it again does nothing."""
    state = read_state()
    if state is None:
        remove_state()
        return False
    pid = int(state["pid"])
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_S
    while read_state() is not None:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.05)
    remove_state()
    return True


def _start_world(speed: float, *, empty_volumes: bool) -> dict[str, Any]:
    folder = default_folder()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / _LOG_FILE
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "infra.sandbox.world", "--folder", str(folder), "--speed", str(speed)]
            + (["--empty-volumes"] if empty_volumes else []),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, **_no_credentials()},
        )
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        state = read_state()
        if state is not None and state["pid"] == process.pid:
            return state
        if process.poll() is not None:
            break
        time.sleep(0.05)
    process.kill()
    said = log.read_text(encoding="utf-8").strip().splitlines()
    raise SandboxError(f"the simulated cloud did not start ({log}): {said[-1] if said else 'it said nothing'}")


def _tag_as_hydrated(outputs: StackOutputs, started: Mapping[str, Any]) -> None:
    """Give the volumes the tag that `dormouse weights hydrate` leaves; it says itself that it is simulated."""
    volumes = {one for slot in outputs.slots for one in (slot.volume_id, *slot.worker_volume_ids) if one}
    if volumes:
        simulated_client("ec2", started["awsEndpointUrl"], outputs.region).create_tags(
            Resources=sorted(volumes), Tags=[{"Key": VERIFIED_TAG, "Value": verified_tag("simulated", "0" * 64)}]
        )


def _own_the_blocks(environment: Environment, started: Mapping[str, Any]) -> None:
    """Let the simulated account own every Capacity Block that the configuration names, active for two weeks."""
    zones = simulated_client("ec2", started["awsEndpointUrl"], environment.region).describe_availability_zones()
    names = {zone["ZoneId"]: zone["ZoneName"] for zone in zones["AvailabilityZones"]}
    now = clock_of(started).now()
    for candidate in environment.candidates:
        if candidate.reservation_id is not None:
            CloudAdmin(started["adminUrl"]).add_capacity_block(
                CapacityBlock(
                    reservation_id=candidate.reservation_id,
                    instance_type=environment.shape.name,
                    zone=names.get(candidate.zone, candidate.zone),
                    start=now,
                    end=now + _BLOCK_LENGTH,
                )
            )


def _no_credentials() -> Mapping[str, str]:
    """An environment in which boto3 finds the simulated keys and nothing of the user's."""
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def _config_text(value: object) -> str:
    """A configuration value as Pulumi's engine hands it over: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)
