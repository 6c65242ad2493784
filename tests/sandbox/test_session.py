"""The sandbox as its user meets it: the real program and the real commands on the simulated cloud."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.sandbox.state import read_state
from infra.sandbox.world import simulated_client

ROOT = Path(__file__).parents[2]
SPEED = "1200"
pytestmark = pytest.mark.sandbox


class Sandbox:
    """Runs `dormouse` as a user's shell does, with a state folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "DORMOUSE_SANDBOX_DIR": str(folder), "PYTHONPATH": str(ROOT)}
        self.environment.pop("DORMOUSE_OUTPUTS", None)

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "infra.cli.main", *arguments],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", code=code).stdout)

    def client(self, service: str) -> Any:
        state = read_state(self.folder)
        assert state is not None
        return simulated_client(service, state["awsEndpointUrl"])


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    box = Sandbox(tmp_path_factory.mktemp("sandbox"))
    box.run("sandbox", "up", "--speed", SPEED)
    yield box
    box.run("sandbox", "down")


def test_up_runs_the_real_program_and_is_asleep(sandbox: Sandbox) -> None:
    status = sandbox.json("sandbox", "status")
    assert status["environment"] == "dev"
    assert status["speed"] == float(SPEED)
    assert sandbox.json("status", "--sandbox")["state"] == "asleep"
    volumes = sandbox.json("weights", "status", "--sandbox")["volumes"]
    assert {one["verified"] for one in volumes} == {"verified:simulated:000000000000"}
    (name,) = sandbox.client("eks").list_clusters()["clusters"]
    groups = sandbox.client("eks").list_nodegroups(clusterName=name)["nodegroups"]
    # Three GPU slots, the system nodes, and a downloading machine for each zone.
    assert len(groups) == 6


def test_a_second_one_is_refused(sandbox: Sandbox) -> None:
    assert "a sandbox runs already" in sandbox.run("sandbox", "up", code=1).stderr


def test_it_says_that_the_cloud_is_simulated(sandbox: Sandbox) -> None:
    assert "simulated cloud: nothing here runs on AWS" in sandbox.run("status", "--sandbox").stderr


def test_wake_falls_back_and_hibernate_waits_for_answers(sandbox: Sandbox) -> None:
    assert "no spot capacity" in sandbox.run("sandbox", "refuse", "spot").stdout
    woken = sandbox.json("wake", "--sandbox")
    assert woken["slot"] == "on-demand-use2-az1"
    assert [refusal["slot"] for refusal in woken["refusals"]] == ["spot-use2-az1"]
    assert sandbox.json("status", "--sandbox")["state"] == "awake"

    sandbox.run("sandbox", "requests", "3", "--seconds", "9000")
    slept = sandbox.json("hibernate", "--sandbox", "--drain-timeout", "30000")
    assert slept["state"] == "asleep"
    assert "3 requests still running" in json.dumps(slept["steps"])
    assert "all capacity" not in sandbox.run("sandbox", "refuse", "none").stdout
    assert sandbox.json("status", "--sandbox")["state"] == "asleep"


def test_every_candidate_refuses(sandbox: Sandbox) -> None:
    sandbox.run("sandbox", "refuse", "all")
    try:
        failed = sandbox.run("wake", "--sandbox", code=1)
    finally:
        sandbox.run("sandbox", "refuse", "none")
    for slot in ("spot-use2-az1", "on-demand-use2-az1", "on-demand-use2-az2"):
        assert slot in failed.stderr
    assert sandbox.json("status", "--sandbox")["state"] == "asleep"


def test_without_the_driver_s_tag_the_volume_is_not_attached(sandbox: Sandbox) -> None:
    ec2 = sandbox.client("ec2")
    volumes = ec2.describe_volumes(Filters=[{"Name": "tag:dormouse.dev/model", "Values": ["kimi-k2.5"]}])["Volumes"]
    ids = [volume["VolumeId"] for volume in volumes]
    tag = {"Key": "ebs.csi.aws.com/cluster", "Value": "true"}
    ec2.delete_tags(Resources=ids, Tags=[tag])
    failed = sandbox.run("wake", "--sandbox", "--timeout", "9000", code=1)
    ec2.create_tags(Resources=ids, Tags=[tag])
    assert "ebs.csi.aws.com/cluster" in failed.stderr + failed.stdout
    sandbox.run("hibernate", "--sandbox", "--force")


def test_all_three_ways_to_buy(tmp_path: Path) -> None:
    box = Sandbox(tmp_path / "state")
    document = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8"))
    document["config"]["dormouse:capacity"] = [
        {"purchase": "capacity-block", "zone": "use2-az3", "reservationId": "cr-0123456789abcdef0"},
        {"purchase": "spot", "zone": "us-east-2a"},
        {"purchase": "on-demand", "zone": "us-east-2b"},
    ]
    path = tmp_path / "Pulumi.blocks.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    box.run("sandbox", "up", "--file", str(path), "--speed", SPEED)
    try:
        slots = ("capacity-block-use2-az3-bcdef0", "spot-use2-az1", "on-demand-use2-az2")
        for slot, lifecycle in zip(slots, ("capacity-block", "spot", None), strict=True):
            assert box.json("wake", "--sandbox", "--slot", slot)["slot"] == slot
            running = [{"Name": "instance-type", "Values": ["p5en.48xlarge"]}]
            running.append({"Name": "instance-state-name", "Values": ["running"]})
            (reservation,) = box.client("ec2").describe_instances(Filters=running)["Reservations"]
            (instance,) = reservation["Instances"]
            assert instance.get("InstanceLifecycle") == lifecycle
            if lifecycle == "capacity-block":
                # It is paid for whether it runs or not, so sleeping has to be meant.
                assert "prepaid" in box.run("hibernate", "--sandbox", code=1).stderr
            assert box.json("hibernate", "--sandbox", "--prepaid")["state"] == "asleep"
    finally:
        box.run("sandbox", "down")


def test_a_wrong_stack_file_ends_in_words_and_leaves_nothing(tmp_path: Path) -> None:
    box = Sandbox(tmp_path / "state")
    document = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8"))
    document["config"]["dormouse:instanceType"] = "p5.48xlarge"
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    assert "each GPU lacks 19.4 GiB" in box.run("sandbox", "up", "--file", str(path), code=1).stderr
    assert read_state(box.folder) is None


def test_without_a_sandbox_the_commands_say_how_to_start_one(tmp_path: Path) -> None:
    box = Sandbox(tmp_path)
    for command in ("status", "wake", "hibernate"):
        assert "`dormouse sandbox up` starts one" in box.run(command, "--sandbox", code=1).stderr
    assert "no sandbox ran" in box.run("sandbox", "down").stdout


def test_the_tour(tmp_path: Path) -> None:
    box = Sandbox(tmp_path)
    shown = box.run("sandbox", "try", "--speed", SPEED).stdout
    for said in (
        "AWS is a simulation",
        "Kimi K2.5 (595.1 GB) fits on one p5en.48xlarge",
        "GPU node groups stand at 0",
        "asleep  dev in us-east-2",
        "awake on on-demand-use2-az1",
        "awake  dev in us-east-2",
        "no request is running any more",
        "What you saw",
    ):
        assert said in shown, said
    assert read_state(tmp_path) is None
