"""Takes the registrations of a running Pulumi program and makes the resources."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from google.protobuf import empty_pb2
from pulumi.runtime import mocks as pulumi_mocks
from pulumi.runtime.proto import resource_pb2

from infra.sandbox.aws_resources import AwsClients, call_function, resource_type
from infra.sandbox.aws_resources.properties import nested
from infra.sandbox.deployment import DeployedResource, Deployment, ResourceEvent
from infra.sandbox.kubernetes_objects import KubernetesObjects, named
from infra.sandbox.pulumi_values import from_wire, masked, to_wire
from serving.errors import DormouseError

_STACK_TYPE = "pulumi:pulumi:Stack"
_PROVIDERS = "pulumi:providers:"


class ResourceFailedError(DormouseError):
    """A resource was refused.

    - `urn`, `type`, `name`: which one.
    """

    def __init__(self, urn: str, token: str, name: str, reason: str) -> None:
        """Word it as `type (name): reason`; `token` is the type."""
        super().__init__(f"{token} ({name}): {reason}")
        self.urn = urn
        self.type = token
        self.name = name


class DeployMonitor(pulumi_mocks.MockMonitor):
    """Pulumi's resource monitor, in place of its engine. The SDK calls it from worker threads.

    - `clients`: AWS clients for a region name, or for the stack's region when given None.
    - `default_tags`: the value of `aws:defaultTags`, JSON text or None.
    - `kubernetes`: where Kubernetes objects go, or None to record them only.
    """

    def __init__(
        self,
        *,
        project: str,
        stack: str,
        clients: Callable[[str | None], AwsClients],
        default_tags: str | None,
        kubernetes: KubernetesObjects | None,
        on_resource: Callable[[ResourceEvent], None],
    ) -> None:
        """Start empty."""
        super().__init__(mocks=None)  # pyright: ignore[reportArgumentType]  nothing here is canned
        self.project = project
        self.stack = stack
        self.failure: DormouseError | None = None
        self._make_clients = clients
        self._kubernetes = kubernetes
        self._listener = on_resource
        self._listener_lock = threading.Lock()
        self._lock = threading.Lock()
        self._began_s = time.monotonic()
        self._urns: set[str] = set()
        self._made: list[DeployedResource] = []
        self._outputs: dict[str, Any] = {}
        self._secret_outputs: frozenset[str] = frozenset()
        # One set of clients for each AWS provider of the program; "" is the default one.
        self._aws: dict[str, tuple[AwsClients, dict[str, str]]] = {"": (clients(None), _tags(default_tags))}

    def deployment(self, diagnostics: tuple[str, ...]) -> Deployment:
        """Everything made so far."""
        return Deployment(
            masked(self._outputs, self._secret_outputs), self._secret_outputs, tuple(self._made), diagnostics
        )

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """The URN that Pulumi's engine would give."""
        above = parent.split("::")[2] if parent else ""
        qualified = type_ if above in ("", _STACK_TYPE) else f"{above}${type_}"
        return f"urn:pulumi:{self.stack}::{self.project}::{qualified}::{name}"

    # ------------------------------------------------------------------ the calls of Pulumi's SDK

    def RegisterResource(self, request: Any) -> Any:
        """Make one resource and answer its id and outputs."""
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == _STACK_TYPE:
            return resource_pb2.RegisterResourceResponse(urn=urn)
        began_s = time.monotonic()
        try:
            self._reserve(urn, request.importId)
            if request.custom:
                self._on_resource(ResourceEvent("creating", urn, request.type, request.name))
            inputs, secret = from_wire(request.object)
            resource_id, outputs = self._make(urn, request, inputs)
        except Exception as error:
            reason = str(error) if isinstance(error, DormouseError) else f"{type(error).__name__}: {error}"
            failure = ResourceFailedError(urn, request.type, request.name, reason)
            with self._lock:
                # Whatever depended on the first failure fails too, and says nothing new.
                first = self.failure is None
                self.failure = self.failure or failure
            if first:
                took_s = time.monotonic() - began_s
                self._on_resource(ResourceEvent("failed", urn, request.type, request.name, took_s, reason))
            raise failure from error
        took_s = time.monotonic() - began_s
        secret |= frozenset(request.additionalSecretOutputs)
        resource = DeployedResource(
            urn=urn,
            type=request.type,
            name=request.name,
            parent=self._parent(request.parent),
            custom=bool(request.custom),
            id=resource_id,
            inputs=masked(inputs, secret),
            outputs=masked(outputs, secret),
            secret_properties=secret,
            depends_on=tuple(request.dependencies),
            provider=request.provider or None,
            protect=bool(request.protect),
            retain_on_delete=bool(request.retainOnDelete),
            ignore_changes=tuple(request.ignoreChanges),
            delete_before_replace=bool(request.deleteBeforeReplace),
            started_s=began_s - self._began_s,
            took_s=took_s,
        )
        with self._lock:
            self._made.append(resource)
        if request.custom:
            self._on_resource(ResourceEvent("created", urn, request.type, request.name, took_s))
        return resource_pb2.RegisterResourceResponse(urn=urn, id=resource_id or "", object=to_wire(outputs, secret))

    def RegisterResourceOutputs(self, request: Any) -> Any:
        """Keep the outputs of a component, or of the stack."""
        outputs, secret = from_wire(request.outputs)
        with self._lock:
            if request.urn.split("::")[2] == _STACK_TYPE:
                self._outputs, self._secret_outputs = outputs, secret
            else:
                self._finish_component(request.urn, outputs, secret)
        return empty_pb2.Empty()

    def Invoke(self, request: Any) -> Any:
        """Answer a provider function."""
        try:
            arguments, _ = from_wire(request.args)
            clients, _ = self._aws_for(request.provider)
            result = call_function(clients, request.tok, arguments)
        except DormouseError as error:
            with self._lock:
                self.failure = self.failure or error
            raise
        answer = resource_pb2.ResourceInvokeResponse()
        getattr(answer, "return").CopyFrom(to_wire(result))
        return answer

    def ReadResource(self, request: Any) -> Any:
        """Answer the outputs of a resource that exists outside the program."""
        urn = self.make_urn(request.parent, request.type, request.name)
        state, _ = from_wire(request.properties)
        clients, _ = self._aws_for(request.provider)
        outputs = resource_type(request.type).read(clients, request.id, state)
        if outputs is None:
            raise ResourceFailedError(urn, request.type, request.name, f"resource '{request.id}' does not exist")
        return resource_pb2.ReadResourceResponse(urn=urn, properties=to_wire(outputs))

    # ------------------------------------------------------------------ making

    def _reserve(self, urn: str, import_id: str) -> None:
        if import_id:
            raise DormouseError("importing isn't simulated; accepted: leave the option `import_` out")
        with self._lock:
            if self.failure is not None:
                raise DormouseError("not attempted: an earlier resource failed")
            if urn in self._urns:
                raise DormouseError(f"duplicate resource URN '{urn}'; try giving it a unique name")
            self._urns.add(urn)

    def _on_resource(self, event: ResourceEvent) -> None:
        # One at a time, so that a listener that prints needs no lock of its own.
        with self._listener_lock:
            self._listener(event)

    def _make(self, urn: str, request: Any, inputs: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
        """The new resource's id and outputs."""
        token, name = str(request.type), str(request.name)
        if not request.custom:
            return None, inputs
        if token.startswith(_PROVIDERS):
            if token == f"{_PROVIDERS}aws":
                self._aws[urn] = (self._make_clients(inputs.get("region")), _tags(inputs.get("defaultTags")))
            return name, inputs
        if token.startswith("kubernetes:"):
            return self._apply(name, inputs)
        kind = resource_type(token)
        clients, tags = self._aws_for(request.provider)
        checked = kind.check(name, inputs, default_tags=tags)
        if checked.failures:
            raise DormouseError("; ".join(f"{path}: {reason}" for path, reason in checked.failures))
        return kind.create(clients, name, checked.inputs)

    def _apply(self, name: str, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        if "apiVersion" not in inputs or "kind" not in inputs:
            raise DormouseError("only single Kubernetes objects are simulated, no charts or lists")
        manifest = named(inputs, name)
        made = self._kubernetes.apply(manifest) if self._kubernetes else manifest
        space = made["metadata"].get("namespace")
        own = made["metadata"]["name"]
        # What was sent stays in front of what came back: a Secret's stringData is never answered.
        return f"{space}/{own}" if space else own, {**manifest, **made}

    def _aws_for(self, provider: str) -> tuple[AwsClients, dict[str, str]]:
        urn = provider.rpartition("::")[0]
        return self._aws.get(urn, self._aws[""])

    def _parent(self, urn: str) -> str | None:
        return None if not urn or urn.split("::")[2] == _STACK_TYPE else urn

    def _finish_component(self, urn: str, outputs: dict[str, Any], secret: frozenset[str]) -> None:
        for at, resource in enumerate(self._made):
            if resource.urn == urn:
                del self._made[at]
                self._made.append(replace(resource, outputs=masked(outputs, secret), secret_properties=secret))
                return


def _tags(text: Any) -> dict[str, str]:
    """The tags of `defaultTags`, which the SDK sends as JSON text."""
    value: Any = json.loads(text) if isinstance(text, str) and text else text
    return nested(value or {}, "tags")
