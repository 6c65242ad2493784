"""One request to the simulated EKS, as its operations receive it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from infra.sandbox.cloud.durations import Durations
from infra.sandbox.cloud.eks.errors import invalid_parameter
from infra.sandbox.cloud.eks.state import Cluster, EksState
from infra.sandbox.cloud.simulation import Simulation, utc


@dataclass(frozen=True)
class Call:
    """A request.

    - `parameters`: with boto3's keys, parsed by botocore's model of EKS.
    - `caller_arn`: who signed it, as STS names them.
    """

    simulation: Simulation
    state: EksState
    parameters: dict[str, Any]
    caller_arn: str
    now_s: float

    @property
    def durations(self) -> Durations:
        """The simulation's waiting times."""
        return self.simulation.durations

    @property
    def now(self) -> datetime:
        """The simulated time, aware."""
        return utc(self.now_s)

    def text(self, key: str) -> str:
        """A parameter that must be there; raises InvalidParameterException where it is not."""
        value = self.parameters.get(key)
        if value is None or value == "":
            raise invalid_parameter(f"Parameter validation failed: missing required parameter {key}")
        return str(value)

    def optional(self, key: str) -> str | None:
        """A text that may be absent."""
        value = self.parameters.get(key)
        return None if value is None else str(value)

    def mapping(self, key: str) -> dict[str, Any]:
        """A structure or map; empty where absent."""
        return dict(cast("dict[str, Any]", self.parameters.get(key) or {}))

    def texts(self, key: str) -> list[str]:
        """A list of texts; empty where absent."""
        return [str(item) for item in cast("list[Any]", self.parameters.get(key) or [])]

    def mappings(self, key: str) -> list[dict[str, Any]]:
        """A list of structures; empty where absent."""
        return [dict(item) for item in cast("list[dict[str, Any]]", self.parameters.get(key) or [])]

    def cluster(self, key: str = "clusterName") -> Cluster:
        """The cluster that the request names; raises ResourceNotFoundException."""
        return self.state.cluster(self.text(key))

    def page(self, key: str, names: list[str]) -> dict[str, Any]:
        """One page of a list operation: `maxResults` names from `nextToken` on, under `key`."""
        try:
            start = int(self.optional("nextToken") or 0)
        except ValueError:
            raise invalid_parameter("Invalid nextToken") from None
        size = int(self.parameters.get("maxResults") or 100)
        page: dict[str, Any] = {key: names[start : start + size]}
        if start + size < len(names):
            page["nextToken"] = str(start + size)
        return page
