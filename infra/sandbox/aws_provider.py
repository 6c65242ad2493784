# ruff: noqa: ARG002, since the protocol passes a request and a context to every call
"""The resource provider `aws`, in the terms of Pulumi's provider protocol, over the table of AWS resources."""

import json
import os
from collections.abc import Mapping
from typing import Any, cast

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from infra.sandbox.aws_resources import (
    FUNCTIONS,
    RESOURCES,
    AwsClients,
    AwsResourceError,
    ResourceType,
    call_function,
    resource_type,
)
from infra.sandbox.aws_resources.properties import holds_unknown, is_unknown, listed, nested
from infra.sandbox.provider_protocol import answer_call, resource_name, setting_value, top_property, type_token
from infra.sandbox.pulumi_values import from_wire, to_wire

VERSION = "7.51.1"
"""The version of Pulumi's AWS provider in whose place it stands."""

_ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL"
_KINDS = {
    "add": provider_pb2.PropertyDiff.ADD,
    "delete": provider_pb2.PropertyDiff.DELETE,
    "update": provider_pb2.PropertyDiff.UPDATE,
}
_REPLACING = {
    "add": provider_pb2.PropertyDiff.ADD_REPLACE,
    "delete": provider_pb2.PropertyDiff.DELETE_REPLACE,
    "update": provider_pb2.PropertyDiff.UPDATE_REPLACE,
}
_REPLACING_SETTINGS = frozenset({"region", "allowedAccountIds", "forbiddenAccountIds"})


class AwsProvider(provider_pb2_grpc.ResourceProviderServicer):
    """The service that Pulumi's engine calls, in the terms of its protocol.

    - `endpoint_url`: the simulated AWS; None reads AWS_ENDPOINT_URL when the engine configures the provider.
    """

    def __init__(self, endpoint_url: str | None = None) -> None:
        """Wait to be configured."""
        self._endpoint_url = endpoint_url
        self._configured: AwsClients | None = None
        self._default_tags: dict[str, str] = {}

    # ------------------------------------------------------------------ about the plugin

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Say which parts of the protocol are spoken: the engine keeps secrets, resources and outputs to itself."""
        return provider_pb2.ProviderHandshakeResponse(supports_autonaming_configuration=True)

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        """The version."""
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetSchema(self, request: Any, context: grpc.ServicerContext) -> Any:
        """The covered types and functions; every property takes any value here."""
        anything = {"$ref": "pulumi.json#/Any"}
        resources = {
            token: {
                "inputProperties": dict.fromkeys(kind.inputs, anything),
                "requiredInputs": list(kind.required),
                "properties": dict.fromkeys((*kind.inputs, *kind.computed, *kind.volatile), anything),
            }
            for token, kind in RESOURCES.items()
        }
        schema: dict[str, Any] = {
            "name": "aws",
            "version": VERSION,
            "description": "Simulated AWS: the part of Pulumi's AWS provider that Dormouse uses.",
            "provider": {"inputProperties": dict.fromkeys(("region", "defaultTags", "allowedAccountIds"), anything)},
            "resources": resources,
            "functions": {token: {} for token in FUNCTIONS},
        }
        return provider_pb2.GetSchemaResponse(schema=json.dumps(schema))

    # ------------------------------------------------------------------ configuring

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Take the provider's settings; without a region AWS can't be called."""
        settings, _ = from_wire(request.news)
        failures: list[Any] = []
        if not settings.get("region") and not self._region({}):
            reason = "missing region information; accepted: pulumi config set aws:region <region>"
            failures.append(provider_pb2.CheckFailure(property="region", reason=reason))
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def DiffConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Another region or account replaces everything; other settings don't."""
        old, _ = from_wire(request.old_inputs)
        new, _ = from_wire(request.news)
        changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE,
            diffs=changed,
            replaces=[key for key in changed if key in _REPLACING_SETTINGS and not is_unknown(new.get(key))],
        )

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Connect to the simulated AWS, and to no other account than allowed."""

        def connect() -> Any:
            settings, _ = from_wire(request.args)
            for key, value in request.variables.items():
                settings.setdefault(key.rsplit(":", 1)[-1], value)
            settings = {key: setting_value(value) for key, value in settings.items()}
            endpoint_url = self._endpoint_url or os.environ.get(_ENDPOINT_VARIABLE)
            if not endpoint_url:
                raise AwsResourceError(
                    f"this is the simulated AWS provider and {_ENDPOINT_VARIABLE} is not set; "
                    f"accepted: {_ENDPOINT_VARIABLE}=http://127.0.0.1:<port of a simulated AWS>"
                )
            region = self._region(settings)
            if not region:
                raise AwsResourceError("missing region information; accepted: pulumi config set aws:region <region>")
            clients = AwsClients(region, endpoint_url)
            self._check_account(clients, settings)
            tags: Any = settings.get("defaultTags")
            self._default_tags = nested(cast("dict[str, Any]", tags), "tags") if isinstance(tags, dict) else {}
            self._configured = clients
            return provider_pb2.ConfigureResponse(
                acceptSecrets=False, supportsPreview=True, acceptResources=False, supports_autonaming_configuration=True
            )

        return answer_call(context, connect)

    def _region(self, settings: Mapping[str, Any]) -> str:
        region = settings.get("region")
        if isinstance(region, str) and region and not is_unknown(region):
            return region
        return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""

    def _check_account(self, clients: AwsClients, settings: Mapping[str, Any]) -> None:
        allowed, forbidden = listed(settings, "allowedAccountIds"), listed(settings, "forbiddenAccountIds")
        if holds_unknown([allowed, forbidden]) or not (allowed or forbidden):
            return
        if (allowed and clients.account_id not in allowed) or clients.account_id in forbidden:
            raise AwsResourceError(
                f"AWS account ID not allowed: {clients.account_id}; "
                f"accepted: {', '.join(allowed) or 'any but ' + ', '.join(forbidden)}"
            )

    @property
    def _clients(self) -> AwsClients:
        if self._configured is None:
            raise AwsResourceError("the provider is used before it is configured")
        return self._configured

    # ------------------------------------------------------------------ resources

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Fill in defaults, names and tags, and name every argument that isn't covered."""

        def check() -> Any:
            news, _ = from_wire(request.news)
            olds, _ = from_wire(request.olds)
            disabled = provider_pb2.CheckRequest.AutonamingOptions.DISABLE
            proposed = request.autonaming.proposed_name if request.HasField("autonaming") else ""
            kind = resource_type(type_token(request.urn))
            checked = kind.check(
                resource_name(request.urn), news, olds, self._default_tags, request.randomSeed, proposed or None
            )
            failures = list(checked.failures)
            off = request.HasField("autonaming") and request.autonaming.mode == disabled
            if off and kind.name_key and kind.name_key not in news:
                failures.append((kind.name_key, f"{kind.name_key} is required: automatic naming is switched off"))
            return provider_pb2.CheckResponse(
                inputs=to_wire(checked.inputs),
                failures=[provider_pb2.CheckFailure(property=path, reason=reason) for path, reason in failures],
            )

        return answer_call(context, check)

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Compare the recorded inputs with the program's."""

        def diff() -> Any:
            kind = resource_type(type_token(request.urn))
            state, _ = from_wire(request.olds)
            old, _ = from_wire(request.old_inputs)
            new, _ = from_wire(request.news)
            found = kind.diff(old or _inputs_of(kind, state), new, list(request.ignoreChanges))
            detailed = {
                path: provider_pb2.PropertyDiff(
                    kind=(_REPLACING if path in found.replaces else _KINDS)[change], inputDiff=True
                )
                for path, change in found.changes.items()
            }
            some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
            return provider_pb2.DiffResponse(
                changes=some if found.changes else none,
                diffs=sorted({top_property(path) for path in found.changes}),
                replaces=sorted({top_property(path) for path in found.replaces}),
                # What an update in place leaves as it is, so that a preview knows it.
                stables=[] if found.replaces else [key for key in kind.computed if key != "tagsAll"],
                deleteBeforeReplace=found.delete_before_replace,
                detailedDiff=detailed,
                hasDetailedDiff=True,
            )

        return answer_call(context, diff)

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Make the resource, or show in a preview what it would be."""

        def create() -> Any:
            kind = resource_type(type_token(request.urn))
            inputs, _ = from_wire(request.properties)
            if request.preview:
                return provider_pb2.CreateResponse(properties=to_wire(kind.preview_outputs(inputs)))
            resource_id, outputs = kind.create(self._clients, resource_name(request.urn), inputs)
            return provider_pb2.CreateResponse(id=resource_id, properties=to_wire(outputs))

        return answer_call(context, create)

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        """What AWS has now: for a refresh with the recorded inputs, for an import without."""

        def read() -> Any:
            kind = resource_type(type_token(request.urn))
            state, _ = from_wire(request.properties)
            recorded, _ = from_wire(request.inputs)
            outputs = kind.read(self._clients, request.id, state or recorded)
            if outputs is None:
                return provider_pb2.ReadResponse()
            inputs = kind.inputs_from(recorded, outputs, self._default_tags)
            if kind.taggable and inputs.get("tags") is not None:
                outputs["tags"] = inputs["tags"]
            return provider_pb2.ReadResponse(id=request.id, properties=to_wire(outputs), inputs=to_wire(inputs))

        return answer_call(context, read)

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Change the resource in place, or show in a preview what it would become."""

        def update() -> Any:
            kind = resource_type(type_token(request.urn))
            state, _ = from_wire(request.olds)
            old, _ = from_wire(request.old_inputs)
            new, _ = from_wire(request.news)
            if request.preview:
                return provider_pb2.UpdateResponse(properties=to_wire(kind.preview_outputs(new, state)))
            outputs = kind.update(self._clients, request.id, old or _inputs_of(kind, state), new, state)
            return provider_pb2.UpdateResponse(properties=to_wire(outputs))

        return answer_call(context, update)

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Delete the resource and wait until it is gone."""

        def delete() -> Any:
            state, _ = from_wire(request.properties)
            resource_type(type_token(request.urn)).delete(self._clients, request.id, state)
            return empty_pb2.Empty()

        return answer_call(context, delete)

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Answer a function."""

        def invoke() -> Any:
            arguments, _ = from_wire(request.args)
            answer = provider_pb2.InvokeResponse()
            result = call_function(self._clients, request.tok, arguments)
            cast("struct_pb2.Struct", getattr(answer, "return")).CopyFrom(to_wire(result))
            return answer

        return answer_call(context, invoke)

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Give up every wait."""
        if self._configured is not None:
            self._configured.cancelled.set()
        return empty_pb2.Empty()


def _inputs_of(kind: ResourceType, state: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs within recorded outputs, for an engine that keeps none."""
    return {key: value for key, value in state.items() if key in kind.inputs or key == "tagsAll"}
