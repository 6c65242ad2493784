"""Runs a function under Pulumi's SDK and keeps every registration as the engine would see it; nothing is created."""

import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pulumi
from google.protobuf import json_format
from pulumi.runtime import mocks

from infra.sandbox.pulumi_values import from_wire


@dataclass(frozen=True)
class Registration:
    type: str
    name: str
    parent: str
    inputs: dict[str, Any]
    secret_inputs: frozenset[str]
    protect: bool
    retain_on_delete: bool
    ignore_changes: tuple[str, ...]
    dependencies: tuple[str, ...]
    timeouts: dict[str, str]


class _Canned(mocks.Mocks):
    """Ids and the few computed outputs that the components read."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        outputs = dict(args.inputs)
        outputs.setdefault("arn", f"arn:aws:mock:::{args.name}")
        if args.typ == "aws:eks/cluster:Cluster":
            outputs |= {"endpoint": "https://eks.test", "certificateAuthority": {"data": "Y2E="}}
        if args.typ == "aws:eks/nodeGroup:NodeGroup":
            outputs.setdefault("nodeGroupName", f"{args.name}-0000000")
        if args.typ == "aws:ec2/launchTemplate:LaunchTemplate":
            outputs["latestVersion"] = 1
        if args.typ == "aws:iam/role:Role":
            outputs.setdefault("name", f"{args.name}-0000000")
        return f"{args.name}-id", outputs

    def call(self, args: mocks.MockCallArgs) -> dict[str, Any]:
        if args.token == "aws:index/getCallerIdentity:getCallerIdentity":
            return {"accountId": "123456789012", "arn": "arn:aws:iam::123456789012:user/test", "userId": "u", "id": "1"}
        if args.token == "aws:index/getAvailabilityZones:getAvailabilityZones":
            letters = "abc"
            return {
                "names": [f"us-east-2{letter}" for letter in letters],
                "zoneIds": [f"use2-az{index + 1}" for index in range(len(letters))],
                "id": "us-east-2",
            }
        raise NotImplementedError(args.token)


class _Recorder(mocks.MockMonitor):
    def __init__(self) -> None:
        super().__init__(_Canned())
        self.made: list[Registration] = []
        self.component_outputs: dict[str, set[str]] = {}

    def RegisterResource(self, request: Any) -> Any:
        inputs, secret = from_wire(request.object)
        self.made.append(
            Registration(
                type=request.type,
                name=request.name,
                parent=request.parent.split("::")[-1],
                inputs=inputs,
                secret_inputs=frozenset(secret),
                protect=bool(request.protect),
                retain_on_delete=bool(request.retainOnDelete),
                ignore_changes=tuple(request.ignoreChanges),
                dependencies=tuple(urn.split("::")[-1] for urn in request.dependencies),
                timeouts=json_format.MessageToDict(request.customTimeouts),
            )
        )
        return super().RegisterResource(request)

    def RegisterResourceOutputs(self, request: Any) -> Any:
        kind = request.urn.split("::")[2].split("$")[-1]
        self.component_outputs[kind] = set(json_format.MessageToDict(request.outputs))
        return super().RegisterResourceOutputs(request)


@dataclass(frozen=True)
class Recording:
    registrations: tuple[Registration, ...]
    component_outputs: dict[str, set[str]]
    exports: dict[str, Any]

    def of(self, kind: str) -> list[Registration]:
        """Every registration whose type token ends in `kind`."""
        return [made for made in self.registrations if made.type.endswith(f":{kind}")]

    def one(self, kind: str, name: str | None = None) -> Registration:
        found = [made for made in self.of(kind) if name is None or made.name == name]
        assert len(found) == 1, f"{len(found)} of {kind} {name or ''}: {[made.name for made in self.of(kind)]}"
        return found[0]


def record(program: Callable[[], None], config: dict[str, str] | None = None, stack: str = "dev") -> Recording:
    """Run `program` to its end and return what it registered; its errors come through."""

    def run() -> Recording:
        recorder = _Recorder()
        mocks.set_mocks(_Canned(), project="dormouse", stack=stack, preview=False, monitor=recorder)
        pulumi.runtime.set_all_config(config or {}, ["dormouse:apiKeySecret"])
        exports: dict[str, Any] = {}
        original = pulumi.export

        def export(name: str, value: Any) -> None:
            pulumi.Output.from_input(value).apply(lambda known: exports.__setitem__(name, known))

        pulumi.export = export
        try:
            pulumi.runtime.test(program)()
        finally:
            pulumi.export = original
        return Recording(tuple(recorder.made), recorder.component_outputs, exports)

    return contextvars.copy_context().run(run)
