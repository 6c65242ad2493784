"""Small parts of Pulumi's provider protocol: URNs, settings, and refusals as gRPC errors."""

import json
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf import any_pb2
from pulumi.runtime.proto import provider_pb2, status_pb2

from infra.sandbox.aws_resources import HalfCreatedError
from infra.sandbox.pulumi_values import to_wire
from serving.errors import DormouseError


def top_property(path: str) -> str:
    """The top-level property of a path."""
    return path.split(".", 1)[0].split("[", 1)[0]


def setting_value(value: Any) -> Any:
    """A provider setting: Pulumi's SDK sends everything but text as JSON text."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def type_token(urn: str) -> str:
    """The type token in a URN."""
    return urn.split("::")[2].rsplit("$", 1)[-1]


def resource_name(urn: str) -> str:
    """The resource's name in a URN."""
    return urn.split("::", 3)[3]


def answer_call(context: grpc.ServicerContext, work: Callable[[], Any]) -> Any:
    """Do the work; what is refused becomes the protocol's error."""
    try:
        return work()
    except HalfCreatedError as error:
        # The engine records such a resource, so that it isn't lost and can be repaired or destroyed.
        failed = provider_pb2.ErrorResourceInitFailed(
            id=error.id, properties=to_wire(error.outputs), inputs=to_wire(error.outputs), reasons=[str(error)]
        )
        detail = any_pb2.Any()
        detail.Pack(failed)
        status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(error), details=[detail])
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.UNKNOWN, str(error))
    except DormouseError as error:
        context.abort(grpc.StatusCode.UNKNOWN, str(error))
    except Exception as error:  # noqa: BLE001 the engine shows one line, not a traceback
        context.abort(grpc.StatusCode.INTERNAL, f"the simulated AWS provider failed: {type(error).__name__}: {error}")
