"""What is asked before a stack exists: the checked stack file, and connections to the account that it would live in."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from infra.clock import Clock, SystemClock
from infra.environment import Environment, load
from infra.plan import read_stack_file, stack_name
from serving.errors import ConfigurationError, Fault

_SANDBOX_KEY = "testing"
_CONNECT_S, _READ_S = 4, 12


class Account:
    """boto3 clients of one region, each made once; safe to use from several threads.

    - `endpoint_url`: where AWS is, or None for AWS itself.
    - `simulated`: it is the sandbox, so the user's own credentials stay unused.
    """

    def __init__(self, region: str, endpoint_url: str | None = None, *, simulated: bool = False) -> None:
        """Ask nothing yet."""
        keys = {"aws_access_key_id": _SANDBOX_KEY, "aws_secret_access_key": _SANDBOX_KEY} if simulated else {}
        self.region = region
        self.simulated = simulated
        self._session: Any = boto3.Session(region_name=region, **keys)
        self._endpoint_url = endpoint_url
        self._made: dict[tuple[str, bool], Any] = {}
        # A session makes one client at a time.
        self._lock = threading.Lock()

    def client(self, service: str, *, repeats: bool = True) -> Any:
        """The client of a service; with `repeats` False a call goes out once, whatever becomes of it."""
        with self._lock:
            if (service, repeats) not in self._made:
                config = Config(
                    connect_timeout=_CONNECT_S,
                    read_timeout=_READ_S if repeats else 60,
                    retries={"mode": "standard", "total_max_attempts": 4 if repeats else 1},
                    user_agent_extra="dormouse",
                )
                self._made[service, repeats] = self._session.client(
                    service, region_name=self.region, endpoint_url=self._endpoint_url, config=config
                )
            return self._made[service, repeats]


@dataclass(frozen=True)
class Question:
    """One environment that is to be, its account, the time, and where public services answer.

    - `clock`: the cloud's time, which is the sandbox's in the sandbox.
    - `hub_url`, `hub_token`: the Hugging Face hub or its mirror, and a token for it or None.
    - `registry_urls`: addresses that stand in for a registry's host name, for mirrors.
    - `simulated`: nothing outside this machine is to be asked.
    """

    environment: Environment
    account: Account
    clock: Clock
    hub_url: str = "https://huggingface.co"
    hub_token: str | None = None
    registry_urls: Mapping[str, str] = field(default_factory=dict[str, str])
    simulated: bool = False


def ask(
    file: str | None, stack: str | None, *, sandbox: bool, variables: Mapping[str, str], default: str = "dev"
) -> Question:
    """The question that the command line names: a stack file, `Pulumi.NAME.yaml`, or the sandbox's.

    - `variables`: the process's environment; HF_ENDPOINT and HF_TOKEN are read.

    Raises ConfigurationError with every fault of the file.
    """
    given = [word for word, value in (("FILE", file), ("--stack", stack), ("--sandbox", sandbox)) if value]
    if len(given) > 1:
        raise ConfigurationError([Fault(" and ".join(given), "together", "one of them")], "the command line")
    endpoint_url, clock = None, SystemClock()
    path = Path(file or f"Pulumi.{stack or default}.yaml")
    if sandbox:
        from infra.sandbox.state import SandboxState, read_state

        state = SandboxState.load()
        endpoint_url, clock = state.aws_endpoint_url, state.clock
        path = Path(str((read_state() or {}).get("stackFile", path)))
    values = read_stack_file(path)
    values.setdefault("apiKeySecret", {"secure": ""})
    environment = load(stack_name(path), values, datetime.now(UTC).date(), str(path))
    return Question(
        environment=environment,
        account=Account(environment.region, endpoint_url, simulated=sandbox),
        clock=clock,
        hub_url=(variables.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/"),
        hub_token=variables.get("HF_TOKEN") or None,
        simulated=sandbox,
    )
