"""docs/start-time.md is true: its table is computed anew, its commands exist, and the recipe is whole."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from infra.cli.main import main
from infra.environment import KEYS
from infra.loading_plan import LoadingPlan, plan_loading
from serving.image_recipe import KINDS, image_recipe
from serving.runtime import pinned_runtime
from tests.infra.test_environment import environment

PAGE = Path(__file__).parents[2] / "docs" / "start-time.md"
TEXT = PAGE.read_text(encoding="utf-8")


def table(plan: LoadingPlan) -> str:
    rows = ["| path | minutes | a wake | idle a month | a month | limited by |", "|---|---|---|---|---|---|"]
    for one in plan.estimates:
        minutes = "unknown"
        if one.likely_s is not None and one.fast_s is not None and one.slow_s is not None:
            minutes = f"{one.likely_s / 60:.1f} ({one.fast_s / 60:.0f}–{one.slow_s / 60:.0f})"
        money = [one.usd_per_wake, one.usd_idle_per_month, one.usd_per_month(plan.wakes_per_month)]
        wake, idle, month = ("unknown" if usd is None else f"${usd:,.2f}" for usd in money)
        rows.append(f"| {one.path} | {minutes} | {wake} | {idle} | {month} | {one.limited_by} |")
    return "\n".join(rows)


def test_the_table_is_what_the_product_computes() -> None:
    assert table(plan_loading(environment(wakesPerMonth="22"))) in TEXT


def test_commands_and_keys_of_the_page_exist(capsys: pytest.CaptureFixture[str]) -> None:
    commands = re.findall(r"^dormouse (.+?)(?:\s+[#|].*)?$", TEXT, flags=re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        assert main(command.split()) == 0, command
    capsys.readouterr()
    keys = set(re.findall(r"`(?:dormouse:)?(image\w+|loadingPath|weightsThroughputMibps)\b", TEXT))
    assert {"loadingPath", "imagePull", "imageCache", "imageCacheSecretArn", "weightsThroughputMibps"} == keys
    assert keys <= set(KEYS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_recipe_bakes_the_pinned_image_and_its_scripts_parse(kind: str) -> None:
    recipe = image_recipe(kind, "us-east-2", "us-east-2b", "1.36")
    scripts = [step.text for step in recipe.steps if step.where != "the template"]
    assert any(pinned_runtime().vllm_image in script for script in scripts)
    for script in scripts:
        parsed = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
        assert parsed.returncode == 0, parsed.stderr
    assert "imagePull to standard" in " ".join(recipe.caveats)


def test_the_recipe_as_json_and_every_fault_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "recipe", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [len(printed["steps"]), printed["kind"]] == [5, "data-volume"]
    assert main(["image", "recipe", "--region", "us-east-2", "--zone", "eu-west-1a", "--kubernetes-version", "2"]) == 2
    complaint = capsys.readouterr().err
    assert "a zone of us-east-2 by name, such as us-east-2a" in complaint
    assert "--kubernetes-version: got 2" in complaint
