import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client

from infra.sandbox.kubernetes.controllers.pod_lifecycle import Durations
from infra.sandbox.kubernetes.server import KubernetesServer
from tests.sandbox.kubernetes.builders import ManualClock, Object

StartCluster = Callable[..., "Cluster"]


class Cluster:
    """A running stand-in, the official client's APIs on it, its clock, and the nodes that it is told of."""

    def __init__(self, nodes: list[Object], token: str = "any", **settings: Any) -> None:
        self.clock = ManualClock()
        self.nodes = nodes
        settings.setdefault("durations", Durations.instant())
        self.server = KubernetesServer(self.clock, lambda: [dict(node) for node in self.nodes], **settings)
        configuration = client.Configuration(host=self.server.url)
        self.client = client.ApiClient(configuration, "Authorization", f"Bearer {token}")
        self.core = client.CoreV1Api(self.client)
        self.apps = client.AppsV1Api(self.client)

    def deploy(self, body: Object, namespace: str = "kimi") -> Any:
        return self.apps.create_namespaced_deployment(namespace, body)

    def pods(self, namespace: str = "kimi") -> list[Any]:
        return self.core.list_namespaced_pod(namespace).items

    def pod(self, namespace: str = "kimi") -> Any:
        """The only pod, waiting until there is one."""
        end = time.monotonic() + 30
        while len(found := self.pods(namespace)) != 1:
            assert time.monotonic() < end, f"{len(found)} pods"
            time.sleep(0.01)
        return found[0]

    def condition(self, kind: str) -> Any:
        """A condition of the only pod, or None."""
        return next((one for one in self.pod().status.conditions or [] if one.type == kind), None)

    def ready(self) -> bool:
        found = self.condition("Ready")
        return found is not None and found.status == "True"

    def event(self, reason: str, words: str = "") -> str:
        """The message of an event of a reason that has these words in it, or nothing."""
        events = self.core.list_namespaced_event("kimi").items
        return next((one.message for one in events if one.reason == reason and words in one.message), "")


@pytest.fixture
def start_cluster() -> Iterator[StartCluster]:
    started: list[Cluster] = []

    def start(nodes: list[Object] | None = None, **settings: Any) -> Cluster:
        cluster = Cluster(nodes or [], **settings)
        cluster.server.__enter__()
        started.append(cluster)
        cluster.core.create_namespace({"metadata": {"name": "kimi"}})
        return cluster

    yield start
    for cluster in started:
        cluster.server.__exit__(None, None, None)
        cluster.client.close()
        assert list(cluster.server.faults) == []
