"""The README is true: what it shows is what the product prints, and its code runs."""

import re
import shlex
from pathlib import Path

import pulumi
import pulumi_aws as aws
import pytest
import yaml

from infra.cli.main import build_parser
from infra.environment import load
from infra.plan import plan_file
from tests.infra.test_environment import TODAY
from tests.support.recording import record

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return [content for tag, content in fenced if tag == language]


def test_the_plan_it_shows_is_the_plan_of_the_dev_stack() -> None:
    (shown,) = blocks("")
    made = plan_file(ROOT / "Pulumi.dev.yaml").lines()
    for line in shown.splitlines():
        assert line in made or line.strip() == "…", line


def commands() -> list[str]:
    lines = [line.split("  #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("dormouse ")]


@pytest.mark.parametrize("command", commands())
def test_every_dormouse_command_exists(command: str) -> None:
    arguments = shlex.split(command)[1:]
    parsed = build_parser(arguments).parse_args(arguments)
    assert parsed.command == arguments[0]


def test_every_make_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^make ([a-z-]+)", "\n".join(blocks("sh")), re.MULTILINE))
    assert {"try", "test", "test-sandbox", "test-engine"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_its_configuration_is_accepted() -> None:
    (block,) = blocks("yaml")
    values = {key.removeprefix("dormouse:"): value for key, value in yaml.safe_load(block)["config"].items()}
    assert load("dev", {**values, "apiKeySecret": "x"}, TODAY).shape.name == "p5en.48xlarge"


def test_its_python_registers_a_node_group() -> None:
    (block,) = blocks("python")

    def program() -> None:
        cluster = aws.eks.Cluster("c", role_arn="arn", vpc_config={"subnet_ids": ["s"]})
        node_role = aws.iam.Role("r", assume_role_policy="{}")
        private_subnet = aws.ec2.Subnet("s", vpc_id="v")
        exec(block, {"cluster": cluster, "node_role": node_role, "private_subnet": private_subnet, "pulumi": pulumi})

    group = record(program).one("NodeGroup", "gpu")
    assert group.inputs["capacityType"] == "SPOT"
    assert group.inputs["labels"]["dormouse.dev/pool"] == "research"


def test_files_that_it_names_exist() -> None:
    for path in re.findall(r"`((?:infra|components|serving|docs)/[\w./-]+)`", TEXT) + re.findall(
        r"\]\((docs/[^)]+)\)", TEXT
    ):
        assert (ROOT / path).exists(), path
