"""status, wake and hibernate as a user runs them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from infra.cli.main import main
from infra.sandbox.state import write_state
from tests.jobs.world import NAMESPACE, World


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(argv)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.sandbox
def test_a_whole_day(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "status")
    assert (code, err) == (0, "")
    assert out.startswith("asleep  dev in us-east-2, account 123456789012\n")
    assert "money  $0.00 an hour for GPU nodes now; asleep: $4.20 a day" in out
    assert "\x1b" not in out

    world.refuse(purchase="spot", code="MaxSpotInstanceCountExceeded")
    code, out, err = run(capsys, "wake")
    assert (code, err) == (0, "")
    assert out.startswith("awake on ondemand-a after ")
    assert "  refused: spot-a: Could not launch Spot Instances. MaxSpotInstanceCountExceeded" in out

    world.kubernetes.simulate_requests(NAMESPACE, 2, 5000.0)
    code, out, _ = run(capsys, "status", "--json")
    status: dict[str, Any] = json.loads(out)
    assert (code, status["state"], status["slot"]) == (0, "awake", "ondemand-a")
    assert status["usdPerHourNow"] == 63.3
    assert status["simulated"] is False
    assert status["operation"] is None
    assert status["unknown"] == []
    by_name = {slot["name"]: slot for slot in status["slots"]}
    assert by_name["ondemand-a"]["instances"][0]["id"] == world.live_instances()[0]
    assert by_name["ondemand-a"]["instances"][0]["nodeReady"] is True
    assert by_name["spot-a"]["lastRefusal"]["kind"] == "quota"
    pod = status["deployments"][0]["pods"][0]
    assert (pod["phase"], pod["requestsRunning"], pod["requestsWaiting"]) == ("ready", 2, 0)
    assert status["volumes"][0]["attachedTo"] == world.live_instances()[0]
    code, out, _ = run(capsys, "status")
    assert "2 running, 0 waiting" in out
    assert "last refusal of spot-a" in out

    code, out, err = run(capsys, "hibernate", "--drain-timeout", "60")
    assert (code, out) == (1, "")
    assert err.startswith("dormouse: 2 requests are still running after")
    assert "--force" in err
    assert "Traceback" not in err

    code, out, _ = run(capsys, "hibernate", "--dry-run", "--force")
    assert code == 0
    assert "  1. set Deployment vllm-a to 0 and wait until its pod is gone" in out
    assert "which saves $63.30 an hour" in out

    code, out, err = run(capsys, "hibernate", "--force", "--json")
    report = json.loads(out)
    assert (code, err) == (0, "")
    assert (report["goal"], report["state"], report["changed"]) == ("hibernate", "asleep", True)
    assert report["steps"][-1]["text"] == "asleep"


def test_all_candidates_refuse(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.refuse(code="VcpuLimitExceeded")
    code, out, err = run(capsys, "wake", "--json")
    assert (code, out) == (1, "")
    assert "dormouse: no candidate could give a GPU node" in err
    assert err.count("VcpuLimitExceeded") == 3
    assert "raise the quota that is named" in err


def test_an_inconsistent_state_fails_the_check(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.set_desired("ondemand-b", 1)
    world.wait("instance", world.live_instances)
    code, out, _ = run(capsys, "status")
    assert code == 1
    assert out.startswith("inconsistent")
    assert "but no pod is wanted and no job runs" in out


def test_a_slot_that_does_not_exist(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "wake", "--slot", "spot-z")
    assert code == 2
    assert "--slot: got 'spot-z'; accepted: spot-a, ondemand-a, ondemand-b" in err


def test_the_cloud_is_not_there(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("infra.jobs.clients._CONFIG", None)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    code, _, err = run(capsys, "status")
    assert code == 1
    assert err.startswith("dormouse: AWS could not be reached: Could not connect to the endpoint URL")
    assert world.live_instances() == []


def test_the_sandbox_says_that_it_is_simulated(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DORMOUSE_OUTPUTS", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("DORMOUSE_SANDBOX_DIR", str(tmp_path))
    code, out, err = run(capsys, "status", "--sandbox")
    assert (code, out) == (1, "")
    assert "no sandbox runs on this machine; `dormouse sandbox up` starts one" in err

    clock = world.clock
    write_state(
        {
            "pid": os.getpid(),
            "awsEndpointUrl": world.cloud.endpoint_url,
            "adminUrl": world.cloud.admin_url,
            "kubernetesUrl": world.kubernetes.url,
            "clock": {
                "originUnixS": clock.origin_unix_s,
                "originSimulatedUnixS": clock.origin_simulated_unix_s,
                "speed": clock.speed,
            },
            "outputs": world.outputs.to_mapping(),
        }
    )
    code, out, err = run(capsys, "status", "--sandbox", "--json")
    assert (code, err) == (0, "simulated cloud: nothing here runs on AWS or costs anything\n")
    assert json.loads(out)["simulated"] is True
