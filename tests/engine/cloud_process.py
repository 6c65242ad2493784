"""Simulated AWS as a process of its own, as the engine, its providers and the jobs meet it: over HTTP only."""

import json
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import boto3

from infra.clock import ScaledClock
from infra.sandbox.cloud.admin import CloudAdmin
from infra.sandbox.cloud.durations import Durations
from infra.sandbox.cloud.nodes import nodes_from_cloud

from .processes import LoggedProcess

START_TIMEOUT_S = 60
# A pair that the simulated STS knows, so that tokens signed with it are checked in full.
ACCESS_KEY = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


class CloudProcess:
    """Simulated AWS between `with` and its end.

    - `workdir`: a folder for its log.
    - `speed`: simulated seconds in one real second.
    - `region`: where its clusters stand.

    Attributes inside the `with`: `endpoint_url` (for AWS_ENDPOINT_URL), `admin` (capacity rules, capacity blocks, the
    Kubernetes endpoint), `clock` (the cloud's time), `token_webhook_url` (a TokenReview webhook).
    """

    def __init__(self, workdir: Path, speed: float, region: str = "us-east-2") -> None:
        self._workdir = workdir
        self._speed = speed
        self.region = region
        self._clients: dict[str, Any] = {}

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "infra.sandbox.cloud.server", f"--speed={self._speed}"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        self.process = LoggedProcess(
            "cloud", [*command, f"--region={self.region}"], self._workdir, {**environment, **ACCESS_KEY}
        )
        try:
            self.process.wait_until(lambda: "\n" in self._log(), START_TIMEOUT_S, "its first line")
            facts = json.loads(self._log().splitlines()[0])
        except BaseException:
            self.process.stop()
            raise
        self.endpoint_url = str(facts["endpoint_url"])
        self.admin = CloudAdmin(str(facts["admin_url"]))
        self.clock = ScaledClock(facts["origin_unix_s"], facts["origin_simulated_unix_s"], facts["speed"])
        self.token_webhook_url = f"{self.admin.url}/token-review"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.stop()

    def client(self, service: str) -> Any:
        """A boto3 client of the simulated cloud, such as `client("eks")`."""
        if service not in self._clients:
            session = boto3.Session(
                aws_access_key_id=ACCESS_KEY["AWS_ACCESS_KEY_ID"],
                aws_secret_access_key=ACCESS_KEY["AWS_SECRET_ACCESS_KEY"],
                region_name=self.region,
            )
            self._clients[service] = session.client(service, endpoint_url=self.endpoint_url)
        return self._clients[service]

    def nodes(self) -> list[dict[str, Any]]:
        """The Kubernetes nodes that the instances of all clusters should be by now."""
        ec2, eks = self.client("ec2"), self.client("eks")
        return [
            node
            for name in eks.list_clusters()["clusters"]
            for node in nodes_from_cloud(ec2, eks, name, self.clock.now(), Durations().instance_join_s)
        ]

    def _log(self) -> str:
        return self.process.log_path.read_text()
