"""Everything that would stop a stack, asked of a simulated account and of stand-ins for hub and registries."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest

from components.gpu_node_group import Purchase
from infra.block_check import check_blocks
from infra.candidates import Candidate
from infra.environment import Environment, load
from infra.preflight.checks.account import clock_finding
from infra.preflight.checks.quotas import spot_quota_for
from infra.preflight.checks.sources import split_image
from infra.preflight.findings import Level, ok
from infra.preflight.question import Account, Question
from infra.preflight.run import Check, Preflight, preflight
from infra.sandbox.cloud import CapacityBlock
from infra.sandbox.cloud.server import CloudServer
from infra.sandbox.deploy import deploy
from serving.errors import ConfigurationError, DormouseError
from serving.runtime import pinned_runtime
from tests.sandbox.cloud.world import HandClock

BLOCK = "cr-0123456789abcdef0"
TOKEN = "hf_" + "x" * 20


@dataclass
class Stage:
    """A simulated account, and one server that plays the hub and every registry."""

    cloud: CloudServer
    clock: HandClock
    url: str
    account: Account
    gated: list[bool] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def question(self, **changed: object) -> Question:
        environment = replace(environment_of(), **changed)  # type: ignore[arg-type]
        registries = dict.fromkeys(("registry-1.docker.io", "nvcr.io"), self.url)
        return Question(environment, self.account, self.clock, self.url, None, registries)


def environment_of() -> Environment:
    values = {
        "region": "us-east-2",
        "owner": "team",
        "instanceType": "p5en.48xlarge",
        "apiKeySecret": {"secure": ""},
        "capacity": [{"purchase": "spot", "zone": "use2-az1"}, {"purchase": "on-demand", "zone": "use2-az1"}],
    }
    return load("dev", values, datetime(2026, 12, 1, tzinfo=UTC).date())


@pytest.fixture(scope="module")
def stage_once() -> Iterator[Stage]:
    clock = HandClock()
    held: list[Stage] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            stage = held[0]
            token = self.headers.get("Authorization")
            if self.path.startswith("/v2/"):
                if token != "Bearer pass":
                    self._say(401, {"WWW-Authenticate": f'Bearer realm="{stage.url}/token",service="r"'})
                else:
                    self._say(404 if any(one in self.path for one in stage.missing) else 200, {})
            elif stage.gated and token != f"Bearer {TOKEN}":
                self._say(401, {"X-Error-Code": "GatedRepo"})
            else:
                self._say(307, {"Location": "/elsewhere"})

        def do_GET(self) -> None:
            self._say(200, {}, b'{"token": "pass"}')

        def _say(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
            self.send_response(status)
            for key, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with CloudServer(clock) as cloud, ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        account = Account("us-east-2", cloud.endpoint_url, simulated=True)
        held.append(Stage(cloud, clock, f"http://127.0.0.1:{server.server_port}", account))
        yield held[0]
        server.shutdown()


@pytest.fixture
def stage(stage_once: Stage) -> Stage:
    stage_once.cloud.reset()
    stage_once.gated.clear()
    stage_once.missing.clear()
    return stage_once


def asked(question: Question) -> Preflight:
    # The limit is a person's patience, not this loaded machine's.
    return preflight(question, limit_s=60)


def levels(made: Preflight) -> dict[str, Level]:
    """The worst level of each check."""
    order = [Level.OK, Level.NOT_ASKED, Level.WARNING, Level.STOPS]
    worst: dict[str, Level] = {}
    for one in made.findings:
        worst[one.check] = max(one.level, worst.get(one.check, Level.OK), key=order.index)
    return worst


def test_a_fit_account_has_no_finding_but_good_ones(stage: Stage) -> None:
    made = asked(stage.question())

    assert {check: level for check, level in levels(made).items() if level is not Level.OK} == {}
    words = {one.check: one.words for one in made.findings}
    assert "384 vCPUs, 0 in use: room for 2 × p5en.48xlarge" in words["quota-on-demand"]
    assert "$26.57 an hour now" in words["spot"]
    assert "cheapest of 6" in words["blocks"]
    assert json.loads(json.dumps(made.to_mapping()))["stopped"] is False


def test_everything_that_is_wrong_is_found_in_one_run(stage: Stage) -> None:
    assert stage.cloud.simulation is not None
    book = stage.cloud.simulation.capacity
    book.quotas |= {"Running On-Demand P instances": 0, "All P5 Spot Instance Requests": 100, "VPCs per Region": 1}
    book.blocks[BLOCK] = CapacityBlock(
        BLOCK, "p5e.48xlarge", "us-east-2a", stage.clock.now(), stage.clock.now() + timedelta(days=7)
    )
    stage.gated.append(True)
    stage.missing.append(pinned_runtime().gateway_image.split(":")[0])
    candidates = (*environment_of().candidates, Candidate(Purchase.CAPACITY_BLOCK, "use2-az1", BLOCK))
    made = asked(stage.question(candidates=candidates, account_id="999999999999"))
    found = {one.check: one for one in made.findings if one.level is not Level.OK}

    assert made.stopped
    assert "dormouse:accountId is 999999999999" in found["credentials"].words
    assert "p5en.48xlarge that is wanted" in found["reservations"].words
    assert "--quota-code L-417A185B --desired-value 192" in found["quota-on-demand"].remedy
    assert "room for 0" in found["quota-spot"].words
    assert found["quota-vpcs"].level is Level.STOPS
    assert "is gated without a token" in found["weights"].words
    assert "HF_TOKEN" in found["weights"].remedy
    assert "does not exist" in found["images"].words


def test_without_any_quota_and_block_the_quotas_stop(stage: Stage) -> None:
    assert stage.cloud.simulation is not None
    stage.cloud.simulation.capacity.quotas |= {"Running On-Demand P instances": 0, "All P5 Spot Instance Requests": 0}

    made = asked(stage.question())

    assert levels(made)["quota-on-demand"] is levels(made)["quota-spot"] is Level.STOPS


def test_a_token_opens_a_gated_model(stage: Stage) -> None:
    stage.gated.append(True)

    assert levels(asked(replace(stage.question(), hub_token=TOKEN)))["weights"] is Level.OK


def test_a_machine_without_network_gets_findings(stage: Stage) -> None:
    nowhere = "http://127.0.0.1:9"
    account = Account("us-east-2", nowhere, simulated=True)
    made = asked(replace(stage.question(), account=account, hub_url=nowhere, registry_urls={}, simulated=False))

    assert levels(made)["credentials"] is Level.STOPS
    assert levels(made)["weights"] is Level.WARNING
    assert "fault in Dormouse" not in json.dumps(made.to_mapping())


def test_a_question_that_hangs_is_a_finding_when_the_time_is_up(stage: Stage) -> None:
    release = Event()

    def hang(_question: Question) -> list:
        release.wait(60)
        return []

    checks = (Check("slow", "ec2", hang), Check("quick", "ec2", lambda _question: [ok("quick", "yes")]))
    made = preflight(stage.question(), limit_s=1.0, checks=checks)
    release.set()

    assert (made.findings[0].check, made.findings[0].level) == ("slow", Level.WARNING)
    assert "no answer within 1 s" in made.findings[0].words


@pytest.mark.parametrize(("off_s", "level"), [(10, Level.OK), (-310, Level.STOPS), (310, Level.STOPS)])
def test_a_clock_that_is_five_minutes_off_stops(off_s: int, level: Level) -> None:
    now = datetime(2026, 12, 1, 12, tzinfo=UTC)

    assert clock_finding("Tue, 01 Dec 2026 12:00:00 GMT", now + timedelta(seconds=off_s)).level is level


@pytest.mark.parametrize(
    ("instance_type", "name"),
    [
        ("p5en.48xlarge", "All P5 Spot Instance Requests"),
        ("p4d.24xlarge", "All P4, P3 and P2 Spot Instance Requests"),
        ("p6-b200.48xlarge", None),
    ],
)
def test_the_spot_quota_is_found_by_the_family_in_its_name(instance_type: str, name: str | None) -> None:
    listed = ("All P4, P3 and P2 Spot Instance Requests", "All P5 Spot Instance Requests")

    assert spot_quota_for(instance_type, dict.fromkeys(listed)) == name


def test_images_are_split_as_docker_does() -> None:
    assert split_image("vllm/vllm-openai:v0.32.0") == ("registry-1.docker.io", "vllm/vllm-openai", "v0.32.0")
    assert split_image("nginx:1.28") == ("registry-1.docker.io", "library/nginx", "1.28")
    assert split_image("nvcr.io/nvidia/k8s-device-plugin:v0.19.3")[:2] == ("nvcr.io", "nvidia/k8s-device-plugin")


def test_preview_tells_wrong_reservation_ids_apart(stage: Stage) -> None:
    """Through Pulumi's own provider function, as the program asks."""
    assert stage.cloud.simulation is not None
    now, week = datetime.now(UTC), timedelta(days=7)
    kinds = {
        "cr-00000000000000001": ("p5e.48xlarge", "us-east-2a", now),
        "cr-00000000000000002": ("p5en.48xlarge", "us-east-2b", now),
        "cr-00000000000000003": ("p5en.48xlarge", "us-east-2a", now + week),
        "cr-00000000000000004": ("p5en.48xlarge", "us-east-2a", now - 2 * week),
    }
    stage.clock.time = now
    for block, (kind, zone, start) in kinds.items():
        stage.cloud.simulation.capacity.blocks[block] = CapacityBlock(block, kind, zone, start, start + week)

    def program(*blocks: str) -> Callable[[], None]:
        candidates = tuple(Candidate(Purchase.CAPACITY_BLOCK, "use2-az1", block) for block in blocks)
        environment = replace(environment_of(), candidates=candidates)
        return lambda: check_blocks(environment, {"use2-az1": "us-east-2a"})

    where = {"config": {"aws:region": "us-east-2"}, "aws_endpoint_url": stage.cloud.endpoint_url}
    with pytest.raises(ConfigurationError) as raised:
        deploy(program(*kinds), **where)  # type: ignore[arg-type]
    faults = [str(one) for one in raised.value.faults]

    assert len(faults) == 2
    assert "another type than the p5en.48xlarge" in faults[0]
    assert "another zone than the candidate's us-east-2a" in faults[1]
    with pytest.raises(DormouseError, match="'cr-00000000000000009' does not exist"):
        deploy(program("cr-00000000000000009"), **where)  # type: ignore[arg-type]
    # One that waits for its start, and one that has ended, do not keep the rest of the stack from changing.
    deploy(program("cr-00000000000000003", "cr-00000000000000004"), **where)  # type: ignore[arg-type]
