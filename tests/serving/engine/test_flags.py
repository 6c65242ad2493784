"""The product's list of flags is vLLM's own, and what it says of other flags can be followed."""

import re

from serving.engine.flags import ValueCount, ValueKind, engine_flags, owned_flags, removed_flags, uncounted_flags
from serving.runtime import pinned_runtime
from tests.serving.engine.vllm_parser import facts


def test_the_list_is_of_the_version_that_is_deployed() -> None:
    assert engine_flags().version == pinned_runtime().vllm_version
    assert engine_flags().version in engine_flags().source


def test_every_flag_of_the_program_is_in_it_as_it_is_there() -> None:
    known = facts("vllm_0_32_flags.json")
    flags = engine_flags().flags
    assert set(flags) == set(known["flags"])
    assert {spelling: flag.name for spelling, flag in engine_flags().spellings.items()} | {"-h": "--help"} == known[
        "alias_to_flag"
    ]
    counts = {None: ValueCount.ONE, 0: ValueCount.NONE, "+": ValueCount.SOME, "?": ValueCount.OPTIONAL}
    for name, row in known["flags"].items():
        flag = flags[name]
        assert flag.count is counts[row["nargs"]], name
        assert (flag.kind is ValueKind.SWITCH) == (row["kind"] == "bool"), name
        assert (flag.kind is ValueKind.INTEGER) == (row["kind"] == "int"), name
        assert (flag.kind is ValueKind.NUMBER) == (row["kind"] == "float"), name
        if row["choices"]:
            assert flag.choices == tuple(str(choice) for choice in row["choices"] if choice is not None), name
    assert flags["--tool-call-parser"].choices == tuple(sorted(known["registries"]["tool_call_parsers"]))
    assert set(flags["--compilation-config"].config_fields) == set(known["json_config_fields"]["CompilationConfig"])


def test_removed_flags_are_gone_and_what_replaces_them_exists() -> None:
    assert "--swap-space" in removed_flags()
    for name, removed in removed_flags().items():
        assert name not in engine_flags().spellings, name
        for named in re.findall(r"--[a-z0-9-]+", removed.instead):
            assert named in engine_flags().spellings, (name, named)


def test_keys_named_for_a_replacement_exist() -> None:
    for removed in removed_flags().values():
        for name, key in re.findall(r"(--[a-z-]+)\.([a-z_]+)", removed.instead):
            assert key in engine_flags().flags[name].config_fields, removed.name


def test_owned_flags_exist_and_are_owned_once() -> None:
    assert set(owned_flags()) <= set(engine_flags().flags)
    assert uncounted_flags() <= set(engine_flags().flags)
    assert uncounted_flags().isdisjoint(owned_flags())
    assert {name for name, owned in owned_flags().items() if owned.secret} == {"--api-key", "--hf-token"}


def test_a_misspelt_flag_finds_the_right_one() -> None:
    assert engine_flags().nearest("--enforce-eger") == ("--enforce-eager",)
    assert engine_flags().nearest("--enable-log-req") == ("--enable-log-requests",)
    assert engine_flags().nearest("--") == ()
    assert engine_flags().nearest("--xyzzy") == ()
