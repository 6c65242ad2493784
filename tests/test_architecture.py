"""The structure's own rules: imports go one way, effects sit at the edge, one definition of every key."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from infra.environment import KEYS

ROOT = Path(__file__).parents[1]
PACKAGES = ("serving", "components", "infra")
MAY_IMPORT = {"serving": {"serving"}, "components": {"serving", "components"}, "infra": set(PACKAGES)}
EFFECTS = {
    "boto3",
    "botocore",
    "kubernetes",
    "pulumi",
    "pulumi_aws",
    "pulumi_kubernetes",
    "moto",
    "subprocess",
    "socket",
}
FORBIDDEN = {"serving": EFFECTS, "components": {"boto3", "botocore", "kubernetes", "moto", "subprocess", "socket"}}
# Programs run in pods: they do open sockets, and have nothing but the standard library and what is bundled with them.
PROGRAMS = Path("components/programs")
LONGEST_FILE = 320


def sources(package: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports do not work below `main: infra`"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package: str) -> None:
    for path, tree in sources(package):
        tops = {name.split(".")[0] for name in imported(tree)}
        assert tops & (set(PACKAGES) - MAY_IMPORT[package]) == set(), path
        if PROGRAMS not in path.parents:
            assert tops & FORBIDDEN.get(package, set()) == set(), path
        assert "tests" not in tops, path


def test_programs_need_nothing_that_is_not_bundled_with_them() -> None:
    programs = [one for one in sources(PROGRAMS.as_posix()) if one[0].parent != PROGRAMS]
    assert programs
    for path, tree in programs:
        for name in imported(tree):
            bundled = name.startswith(("components.programs", "serving.weights", "serving.errors"))
            assert bundled or name.split(".")[0] in sys.stdlib_module_names, f"{path} imports {name}"


def test_jobs_and_commands_know_the_sandbox_only_when_they_are_asked_for_it() -> None:
    """A scheduled job runs where the sandbox is not installed."""
    for path, tree in sources("infra/jobs"):
        top_level = {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)} | {
            alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names
        }
        assert not any(name.startswith("infra.sandbox") for name in top_level), path


def test_only_the_environment_reads_configuration() -> None:
    for package in PACKAGES:
        for path, tree in sources(package):
            if path.as_posix() in ("infra/program.py", "infra/environment.py", "infra/configuration.py"):
                continue
            reads = [
                node
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute)
                and node.attr == "Config"
                and isinstance(node.value, ast.Name)
                and node.value.id == "pulumi"
            ]
            assert reads == [], path


@pytest.mark.parametrize("package", PACKAGES)
def test_files_are_read_in_one_sitting(package: str) -> None:
    for path, _ in sources(package):
        lines = len((ROOT / path).read_text(encoding="utf-8").splitlines())
        assert lines <= LONGEST_FILE, f"{path} has {lines} lines"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_says_what_it_is(package: str) -> None:
    for path, tree in sources(package):
        assert ast.get_docstring(tree), path


def test_no_module_below_the_program_shadows_the_standard_library() -> None:
    """`main: infra` puts infra/ first on the import path."""
    import sys

    for path in (ROOT / "infra").iterdir():
        assert path.stem not in sys.stdlib_module_names, path


def test_components_need_real_annotations() -> None:
    for path, tree in sources("components"):
        assert "__future__" not in imported(tree), path


def test_pulumi_yaml_names_the_keys_that_are_read_each_with_type_and_description() -> None:
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
    assert (project["name"], project["main"], project["runtime"]["name"]) == ("dormouse", "infra", "python")
    declared = project["config"]
    assert {key.removeprefix("dormouse:") for key in declared} == set(KEYS)
    for key, described in declared.items():
        assert described["type"] in ("string", "integer", "boolean", "array"), key
        assert len(described["description"]) > 20, key
    assert declared["dormouse:apiKeySecret"]["secret"] is True


def test_no_secret_stands_in_a_stack_file() -> None:
    for path in ROOT.glob("Pulumi.*.yaml"):
        config = yaml.safe_load(path.read_text(encoding="utf-8"))["config"]
        assert "dormouse:apiKeySecret" not in config or "secure" in config["dormouse:apiKeySecret"], path


def test_the_lock_has_hashes_and_no_addresses() -> None:
    for name in ("requirements.lock", "requirements-uv.lock"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "://" not in text
        assert "--index" not in text
        pins = [line for line in text.splitlines() if "==" in line and not line.lstrip().startswith("#")]
        assert pins
        assert all(line.endswith("\\") for line in pins), "every pin is followed by its hashes"
