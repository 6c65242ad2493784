"""The components as Pulumi's own component host sees them: schema, and construction from plain dictionaries."""

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pulumi
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pulumi.provider.experimental.component import ComponentProvider

import components
from components.cidr import ZONE_LETTERS, zone_subnets
from tests.components.test_model_server import arguments
from tests.support.recording import record

COMPONENTS = [
    value
    for value in vars(components).values()
    if inspect.isclass(value) and issubclass(value, pulumi.ComponentResource)
]


def schema() -> dict:
    return json.loads(ComponentProvider(COMPONENTS, "dormouse", version="0.1.0").schema)


def test_every_component_can_be_hosted_under_its_own_token() -> None:
    resources = schema()["resources"]
    assert set(resources) == {f"dormouse:index:{component.__name__}" for component in COMPONENTS}
    for component in COMPONENTS:
        source = inspect.getsource(component)
        assert f'super().__init__("dormouse:index:{component.__name__}"' in source


def test_every_input_and_output_is_described() -> None:
    for token, resource in schema()["resources"].items():
        for kind in ("inputProperties", "properties"):
            for name, described in resource[kind].items():
                assert described.get("description"), f"{token} {kind} {name}"


def test_whole_numbers_enums_and_nested_objects_are_plain() -> None:
    """The host cannot read them out of an Output."""
    for token, resource in schema()["resources"].items():
        for name, described in resource["inputProperties"].items():
            if described.get("type") == "integer" or "$ref" in described:
                assert described.get("plain"), f"{token} {name}"


def test_the_plugin_hosts_every_component() -> None:
    folder = Path(components.__file__).parent
    assert yaml.safe_load((folder / "PulumiPlugin.yaml").read_text(encoding="utf-8")) == {"runtime": "python"}
    entry = importlib.import_module("components.__main__")
    for component in COMPONENTS:
        assert getattr(entry, component.__name__) is component


@given(prefix=st.integers(16, 20), letters=st.sets(st.sampled_from(ZONE_LETTERS), min_size=1))
def test_subnets_lie_inside_the_vpc_apart_and_where_their_letter_says(prefix: int, letters: set[str]) -> None:
    import ipaddress

    vpc = ipaddress.IPv4Network(f"10.32.0.0/{prefix}")
    alone = {letter: zone_subnets(str(vpc), f"us-east-2{letter}") for letter in sorted(letters)}
    every = [
        ipaddress.IPv4Network(block)
        for subnets in alone.values()
        for block in (subnets.private, subnets.public, subnets.control_plane)
    ]
    assert all(block.subnet_of(vpc) for block in every)
    assert all(not a.overlaps(b) for i, a in enumerate(every) for b in every[i + 1 :])
    assert all(block.prefixlen <= 28 for block in every)


def test_a_hosted_server_from_another_language_registers_what_an_imported_one_does() -> None:
    """The host hands over camelCase names, whole numbers as floats and enums by value."""

    def hosted(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: hosted(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [hosted(inner) for inner in value]
        return (
            float(value) if isinstance(value, int) and not isinstance(value, bool) else getattr(value, "value", value)
        )

    def camel(name: str) -> str:
        head, *rest = name.split("_")
        return head + "".join(word.capitalize() for word in rest)

    def construct() -> None:
        given: dict[str, Any] = {camel(key): hosted(value) for key, value in arguments(api_key="k" * 32).items()}
        given["candidates"] = [{camel(key): value for key, value in one.items()} for one in given["candidates"]]
        provider = ComponentProvider(COMPONENTS, "dormouse", version="0.1.0")
        provider.construct("server", "dormouse:index:ModelServer", given)

    imported = record(lambda: components.ModelServer("server", arguments(api_key="k" * 32)) and None)
    made = {
        (one.type, one.name): (one.inputs, one.protect, one.ignore_changes) for one in record(construct).registrations
    }
    assert made == {
        (one.type, one.name): (one.inputs, one.protect, one.ignore_changes) for one in imported.registrations
    }
