"""The plan that people read: fit and cost, every price with its date, unknown where nobody says."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.cli.main import main
from infra.cost_plan import plan_cost
from infra.environment import load, stack_file_values
from infra.naming import slot_names
from infra.pricing import find_price, machine_price, prices
from tests.infra.test_environment import DEV, TODAY

ROOT = Path(__file__).parents[2]


def cost(**changes: Any):
    made = load("dev", {**DEV, "apiKeySecret": "x", **changes}, TODAY)
    return made, plan_cost(made, slot_names(made.candidates, {}))


def test_every_price_has_a_date_a_source_and_is_above_zero() -> None:
    for price in prices():
        assert price.usd > 0
        assert price.source
        assert price.confidence in ("high", "medium", "low")
        assert price.as_of.year >= 2024


def test_an_unknown_price_is_never_another_s() -> None:
    assert machine_price("p5e.48xlarge", "on-demand", "us-east-2") is None
    assert machine_price("p5en.48xlarge", "on-demand", "ap-south-1") is None
    assert find_price("nat.gateway", "eu-north-1") is None


def test_asleep_is_the_sum_of_its_items() -> None:
    _, plan = cost()
    amounts = {item.name: item.usd_per_month for item in plan.asleep}
    assert amounts["EKS control plane"] == pytest.approx(73.0)
    assert amounts["weight volumes in 2 zones: 650 GiB"] == pytest.approx(2 * 650 * 0.08)
    assert amounts["weight volumes in 2 zones: 1000 MiB/s"] == pytest.approx(2 * 875 * 0.04)
    assert amounts["weight volumes in 2 zones: 4000 IOPS"] == pytest.approx(2 * 1000 * 0.005)
    assert plan.asleep_usd_per_month == pytest.approx(sum(amounts.values()))
    assert plan.asleep_usd_per_day == pytest.approx(plan.asleep_usd_per_month * 24 / 730)


def test_a_month_by_the_timetable() -> None:
    _, plan = cost()
    machine = plan.machines[1]
    assert machine.usd_per_hour == 63.296
    assert plan.awake_hours_per_month == pytest.approx(55 * 730 / 168)
    assert plan.month_usd(machine) == pytest.approx(plan.asleep_usd_per_month + 63.296 * 55 * 730 / 168)
    assert plan.always_on_usd(machine) == pytest.approx(plan.asleep_usd_per_month + 63.296 * 730)


def test_one_unknown_price_makes_the_sum_unknown_and_never_smaller() -> None:
    _, plan = cost(region="eu-north-1", capacity=[{"purchase": "on-demand", "zone": "eun1-az1"}])
    assert plan.asleep_usd_per_month is None
    assert plan.month_usd(plan.machines[0]) is None
    assert plan.machines[0].usd_per_hour == 67.73


def stack_file(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "Pulumi.test.yaml"
    config = {f"dormouse:{key}": value for key, value in {**DEV, **changes}.items()}
    path.write_text(yaml.safe_dump({"config": config}), encoding="utf-8")
    return path


def test_the_command_shows_fit_and_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(ROOT / "Pulumi.dev.yaml")]) == 0
    shown = capsys.readouterr()
    assert "Kimi K2.5 (595.1 GB) fits on one p5en.48xlarge (8 × H200)" in shown.out
    assert "weights                                     71.8 GiB, exact" in shown.out
    assert "activations                                 2.60 GiB (2.45 to 2.76)" in shown.out
    assert "about 816,928 tokens (802,352 to 820,400): 3.1 requests of the full 262,144 tokens" in shown.out
    assert "A memory utilisation of up to 0.94 is safe; it is set to 0.92." in shown.out
    assert "$63.30 an hour, $15,448 a month by the timetable (239 h), $46,527 always on" in shown.out
    assert "Asleep: $10.54 a day" in shown.out
    assert "2026-07-20, high: Karpenter price table" in shown.out
    assert "pulumi config set --secret dormouse:apiKeySecret" in shown.err


def test_the_command_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(ROOT / "Pulumi.dev.yaml"), "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["memory"]["weightsBytes"] == 595_148_192_736
    assert plan["memory"]["weightsBytesPerGpu"] == 77_124_881_376
    assert plan["cost"]["asleepUsdPerDay"] == 10.54
    assert plan["cost"]["candidates"][0]["slot"] == "spot-use2-az1"


def test_an_unknown_machine_price_is_said_to_be_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demand = [{"purchase": "on-demand", "zone": "use2-az1"}]
    path = stack_file(tmp_path, instanceType="p5e.48xlarge", capacity=demand)
    assert main(["plan", str(path)]) == 0
    assert "price unknown: none is published for ec2.p5e.48xlarge.on-demand in us-east-2" in capsys.readouterr().out
    assert main(["plan", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cost"]["candidates"][0]["usdPerHour"] is None


def test_a_prepaid_block_says_that_sleeping_saves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block = [{"purchase": "capacity-block", "zone": "use2-az1", "reservationId": "cr-0123456789abcdef0"}]
    assert main(["plan", str(stack_file(tmp_path, capacity=block))]) == 0
    assert "$41.61 an hour, prepaid for the whole block: sleeping saves nothing" in capsys.readouterr().out


WRONG = {
    "too small a machine": ({"instanceType": "p5.48xlarge"}, 1, "each GPU lacks 19.4 GiB"),
    "unknown model": ({"model": "kimi"}, 2, "dormouse:model: got kimi"),
    "misspelt key": ({"contextToken": 5}, 2, "did you mean contextTokens?"),
    "wrong zone": ({"capacity": [{"purchase": "spot", "zone": "euw1-az1"}]}, 2, "a zone of us-east-2"),
    "no capacity": ({"capacity": []}, 2, "dormouse:capacity: got nothing"),
    "unknown purchase": (
        {"capacity": [{"purchase": "free", "zone": "use2-az1"}]},
        2,
        "on-demand, spot, capacity-block",
    ),
    "public without TLS": ({"exposure": "public"}, 2, "a public endpoint speaks TLS only"),
    "expired": ({"expiresAt": "2020-01-01T00:00:00Z"}, 2, "an ISO time in the future"),
    "too many replicas": ({"replicas": 17}, 2, "a whole number from 1 to 16"),
    "context too long": ({"contextTokens": 1_000_000}, 2, "from 1,024 to 262,144 tokens"),
    "small volume": ({"weightsSizeGib": 100}, 2, "555 or more for kimi-k2.5"),
    "token in clear": (
        {"huggingFaceTokenSecret": "hf_seen"},
        2,
        "dormouse:huggingFaceTokenSecret: got a token in clear; accepted: a secret: pulumi config set --secret",
    ),
    "bad timetable": ({"timetable": ["always"]}, 2, "entries such as `mon-fri 08:00-19:00`"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_stack_files_are_refused_without_a_traceback(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, code, said = WRONG[name]
    assert main(["plan", str(stack_file(tmp_path, **changes))]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert "hf_seen" not in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("text", ["config: [", "", "just words"])
def test_files_that_are_none(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(text, encoding="utf-8")
    assert main(["plan", str(path)]) == 2
    assert "accepted:" in capsys.readouterr().err


def test_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(tmp_path / "Pulumi.none.yaml")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_stack_file_values_are_without_namespace() -> None:
    assert stack_file_values("config:\n  dormouse:model: a\n  aws:region: b\n", "x") == {"model": "a"}
