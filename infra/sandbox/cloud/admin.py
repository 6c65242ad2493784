"""The simulated cloud's own controls over HTTP, and the client for them. AWS has nothing like it.

- GET `/kubernetes`: `{"endpoint": …, "certificate_authority_data": …}`; POST the same to set it.
- GET `/capacity`: `{"rules": […]}`; POST a rule to add it; DELETE `/capacity/<rule_id>`.
- GET `/capacity-blocks`: `{"blocks": […]}`; POST a block to own it.
- POST `/spot-interruptions`: `{"zone": …}`; every live spot instance there gets EC2's notice.
- POST `/token-review?cluster=<name>&region=<region>`: a TokenReview of authentication.k8s.io/v1.
- GET `/clock`: the three numbers of the clock, for other processes.
"""

import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self, cast
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from infra.clock import ScaledClock
from infra.sandbox.cloud.capacity import CapacityBlock, CapacityRule
from infra.sandbox.cloud.simulation import KubernetesEndpoint, Simulation
from serving.errors import DormouseError

Json = dict[str, Any]
_CLIENT_TIMEOUT_S = 30.0


class CloudAdmin:
    """A client for the controls of a running CloudServer; every call raises DormouseError where it is refused."""

    def __init__(self, url: str) -> None:
        """Take the server's `admin_url`; raises DormouseError unless it is an HTTP URL."""
        if not url.startswith("http://"):
            raise DormouseError(f"{url!r} is no address of a simulated cloud's controls; they start with http://")
        self.url = url.rstrip("/")

    def kubernetes(self) -> KubernetesEndpoint:
        """Where DescribeCluster says that Kubernetes answers."""
        return KubernetesEndpoint(**self._request("GET", "/kubernetes"))

    def set_kubernetes(self, endpoint: str | None, certificate_authority_data: str | None = None) -> None:
        """Have DescribeCluster answer this URL, and this CA as base64 of PEM; None is EKS's usual, unreachable one."""
        body = {"endpoint": endpoint, "certificate_authority_data": certificate_authority_data}
        self._request("POST", "/kubernetes", body)

    def capacity_rules(self) -> list[CapacityRule]:
        """The rules in force."""
        return [CapacityRule.from_mapping(rule) for rule in self._request("GET", "/capacity")["rules"]]

    def add_capacity_rule(self, rule: CapacityRule) -> CapacityRule:
        """Add a rule and return it with its `rule_id`."""
        return CapacityRule.from_mapping(self._request("POST", "/capacity", rule.to_mapping()))

    def remove_capacity_rule(self, rule_id: str) -> None:
        """Drop a rule."""
        self._request("DELETE", f"/capacity/{quote(rule_id, safe='')}")

    def capacity_blocks(self) -> list[CapacityBlock]:
        """The Capacity Blocks that the account owns."""
        return [CapacityBlock.from_mapping(block) for block in self._request("GET", "/capacity-blocks")["blocks"]]

    def add_capacity_block(self, block: CapacityBlock) -> None:
        """Own a Capacity Block; one of the same id is replaced."""
        self._request("POST", "/capacity-blocks", block.to_mapping())

    def interrupt_spot(self, zone: str | None) -> list[str]:
        """Have EC2 take every live spot instance of the zone (a name; None is any) back in two minutes; their ids."""
        return [str(one) for one in self._request("POST", "/spot-interruptions", {"zone": zone})["instances"]]

    def clock(self) -> ScaledClock:
        """The cloud's clock."""
        return ScaledClock(**self._request("GET", "/clock"))

    def review_token(self, token: str, cluster_name: str, region: str) -> tuple[str, list[str]] | None:
        """The Kubernetes user name and groups of a bearer token, or None where the cluster does not let it in."""
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        where = urlencode({"cluster": cluster_name, "region": region})
        status = self._request("POST", f"/token-review?{where}", review)["status"]
        if not status.get("authenticated"):
            return None
        return str(status["user"]["username"]), [str(group) for group in status["user"]["groups"]]

    def _request(self, method: str, path: str, body: Json | None = None) -> Json:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        # The constructor took no scheme but http.
        request = Request(self.url + path, data=data, method=method, headers=headers)  # noqa: S310
        try:
            with urlopen(request, timeout=_CLIENT_TIMEOUT_S) as response:  # noqa: S310
                return cast("Json", json.load(response))
        except HTTPError as error:
            reason = cast("Json", json.loads(error.read() or b"{}")).get("error", error.reason)
            raise DormouseError(f"the simulated cloud refused {method} {path}: {reason}") from None
        except URLError as error:
            raise DormouseError(f"no simulated cloud answers at {self.url}: {error.reason}; start one first") from None


class AdminServer:
    """The controls of `simulation` on a port of 127.0.0.1, from entering to leaving."""

    def __init__(self, simulation: Simulation, default_region: str, port: int = 0) -> None:
        """Bind the port; 0 lets the system choose.

        - `default_region`: of clusters in token reviews that name none.
        """
        handler = type("Handler", (_Handler,), {"simulation": simulation, "default_region": default_region})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        """Start answering."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop answering and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    simulation: Simulation
    default_region: str

    def do_GET(self) -> None:
        self._answer({"/kubernetes": self._kubernetes, "/capacity": self._rules, "/capacity-blocks": self._blocks,
                      "/clock": self._clock})  # fmt: skip

    def do_POST(self) -> None:
        self._answer({"/kubernetes": self._set_kubernetes, "/capacity": self._add_rule,
                      "/capacity-blocks": self._add_block, "/token-review": self._token_review,
                      "/spot-interruptions": self._interrupt})  # fmt: skip

    def do_DELETE(self) -> None:
        self._answer({"/capacity": self._remove_rule})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, the base class calls it so
        """Say nothing: the sandbox's output belongs to its user."""

    def _answer(self, routes: Mapping[str, Callable[[Json], Json]]) -> None:
        path = "/" + urlsplit(self.path).path.strip("/").split("/")[0]
        try:
            body = self._body()
            route = routes.get(path)
            if route is None:
                status, answer = 404, {"error": f"no {self.command} {path}; there are {', '.join(sorted(routes))}"}
            else:
                with self.simulation.lock:
                    status, answer = 200, route(body)
        except KeyError as error:
            status, answer = 404, {"error": f"no such object: {error.args[0]}"}
        except (TypeError, ValueError) as error:
            status, answer = 400, {"error": str(error)}
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> Json:
        length = int(self.headers.get("Content-Length") or 0)
        body: object = json.loads(self.rfile.read(length) or b"{}")
        if not isinstance(body, dict):
            raise TypeError("the body is not a JSON object")
        return cast("Json", body)

    def _kubernetes(self, _: Json) -> Json:
        held = self.simulation.kubernetes
        return {"endpoint": held.endpoint, "certificate_authority_data": held.certificate_authority_data}

    def _set_kubernetes(self, body: Json) -> Json:
        self.simulation.kubernetes = KubernetesEndpoint(**body)
        return self._kubernetes(body)

    def _rules(self, _: Json) -> Json:
        return {"rules": [rule.to_mapping() for rule in self.simulation.capacity.rules.values()]}

    def _add_rule(self, body: Json) -> Json:
        return self.simulation.capacity.add(CapacityRule.from_mapping(body)).to_mapping()

    def _remove_rule(self, _: Json) -> Json:
        rule_id = urlsplit(self.path).path.strip("/").split("/")[-1]
        if not self.simulation.capacity.remove(rule_id):
            raise KeyError(rule_id)
        return {}

    def _blocks(self, _: Json) -> Json:
        return {"blocks": [block.to_mapping() for block in self.simulation.capacity.blocks.values()]}

    def _add_block(self, body: Json) -> Json:
        block = CapacityBlock.from_mapping(body)
        self.simulation.capacity.blocks[block.reservation_id] = block
        return block.to_mapping()

    def _clock(self, _: Json) -> Json:
        clock = self.simulation.clock
        if not isinstance(clock, ScaledClock):
            raise TypeError("the cloud's clock is no ScaledClock, so it cannot be followed from another process")
        return {
            "origin_unix_s": clock.origin_unix_s,
            "origin_simulated_unix_s": clock.origin_simulated_unix_s,
            "speed": clock.speed,
        }

    def _interrupt(self, body: Json) -> Json:
        # Imports moto's backends, which a client of this module does not need.
        from infra.sandbox.cloud.spot_interruptions import interrupt

        return {"instances": interrupt(body.get("zone"))}

    def _token_review(self, body: Json) -> Json:
        # Imports moto's backends, which a client of this module does not need.
        from infra.sandbox.cloud.token_review import review

        query = parse_qs(urlsplit(self.path).query)
        cluster_name = (query.get("cluster") or [None])[0]
        return review(body, cluster_name, (query.get("region") or [self.default_region])[0])
