"""Connections to one simulated AWS account and region."""

import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from infra.clock import Clock, SystemClock
from infra.sandbox.aws_resources.errors import AwsResourceError

# Any key opens the simulation.
_KEY = "simulated"
_FIRST_POLL_S = 0.02
_LONGEST_POLL_S = 0.5


class AwsClients:
    """boto3 clients for every service, made once and shared between threads.

    - `endpoint_url`: where the simulated AWS listens. It must be this machine: the table's credentials are made up,
      and its waits and shortcuts are not meant for an account that bills.
    - `wait_limit_s`: how long in real seconds a resource may take to become active or to go.
    - `clock`: the simulated AWS's clock, by which a one-time schedule is in the past or not.

    Raises AwsResourceError for an endpoint that is not on this machine.
    """

    def __init__(self, region: str, endpoint_url: str, wait_limit_s: float = 900.0, clock: Clock | None = None) -> None:
        """Prepare; nothing is called yet."""
        host = urlsplit(endpoint_url).hostname
        if host not in ("127.0.0.1", "localhost", "::1"):
            raise AwsResourceError(
                f"the simulated AWS must listen on this machine, not at {endpoint_url!r}; "
                "accepted: AWS_ENDPOINT_URL=http://127.0.0.1:<port>"
            )
        self.region = region
        self.endpoint_url = endpoint_url
        self.wait_limit_s = wait_limit_s
        self.clock: Clock = clock or SystemClock()
        self.partition = "aws"
        self.cancelled = threading.Event()
        """Once set, every wait gives up at its next look."""
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        """The boto3 client of `service`, as boto3 names it."""
        # Making a client is slow and not safe in several threads at once; using one is.
        with self._lock:
            if service not in self._made:
                session = boto3.Session(aws_access_key_id=_KEY, aws_secret_access_key=_KEY, region_name=self.region)
                self._made[service] = session.client(
                    service,
                    endpoint_url=self.endpoint_url,
                    # An unimplemented call of the simulation answers 500: retrying it for long helps nobody.
                    config=Config(retries={"total_max_attempts": 2}, read_timeout=60),
                )
            return self._made[service]

    @cached_property
    def account_id(self) -> str:
        """The account, from STS."""
        return str(self.client("sts").get_caller_identity()["Account"])

    def arn(self, service: str, resource: str, *, regional: bool = True) -> str:
        """The ARN of `resource` (`volume/vol-1`) in this account."""
        return f"arn:{self.partition}:{service}:{self.region if regional else ''}:{self.account_id}:{resource}"

    def wait(self, what: str, done: Callable[[], bool], limit_s: float | None = None) -> None:
        """Call `done` until it is true, with pauses that grow to half a second.

        Raises AwsResourceError naming `what` after `limit_s` (by default `wait_limit_s`) real seconds.
        """
        limit_s = self.wait_limit_s if limit_s is None else limit_s
        deadline_s = time.monotonic() + limit_s
        pause_s = _FIRST_POLL_S
        while not done():
            if self.cancelled.is_set():
                raise AwsResourceError(f"cancelled while waiting for {what}")
            if time.monotonic() > deadline_s:
                raise AwsResourceError(f"gave up waiting for {what} after {limit_s:.0f} s in {self.region}")
            self.cancelled.wait(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_POLL_S)
