"""What the API server answers when it refuses: Status objects with its codes, reasons and words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infra.sandbox.kubernetes.resource_types import ResourceType


@dataclass(frozen=True)
class Cause:
    """One wrong field: its path, the kind of fault (`FieldValueInvalid`, …) and the sentence without the path."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        """The path and the sentence, as the API server joins them."""
        return f"{self.field}: {self.message}"


class Refusal(Exception):  # noqa: N818 - not an error of this program: an answer to a caller
    """An answer other than success.

    - `code`: HTTP status; `reason`: the machine's word; `message`: the sentence.
    - `details`: the Status object's details.
    - `retry_after_s`: seconds for a Retry-After header, or None.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        """Keep the answer's parts."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after_s = retry_after_s

    def status(self) -> dict[str, Any]:
        """The Status object."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }


def success(details: dict[str, Any] | None = None) -> dict[str, Any]:
    """The Status object of a call that has nothing else to say."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**status, "details": details} if details else status


def _details(resource: ResourceType, name: str) -> dict[str, Any]:
    return {"name": name, "group": resource.group, "kind": resource.plural}


def not_found(resource: ResourceType, name: str) -> Refusal:
    """404 for an object."""
    return Refusal(404, "NotFound", f'{resource.qualified_plural} "{name}" not found', _details(resource, name))


def no_such_resource() -> Refusal:
    """404 for a path that means nothing."""
    return Refusal(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: ResourceType, name: str) -> Refusal:
    """409 for a second object of one name."""
    message = f'{resource.qualified_plural} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: ResourceType, name: str, why: str = "") -> Refusal:
    """409 for a write over somebody else's."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {resource.qualified_plural} "{name}": {why}'
    return Refusal(409, "Conflict", message, _details(resource, name))


def bad_request(message: str) -> Refusal:
    """400 for what cannot be read."""
    return Refusal(400, "BadRequest", message)


def forbidden(message: str) -> Refusal:
    """403."""
    return Refusal(403, "Forbidden", message)


def unauthorized() -> Refusal:
    """401."""
    return Refusal(401, "Unauthorized", "Unauthorized")


def invalid(resource: ResourceType, name: str, causes: Sequence[Cause]) -> Refusal:
    """422 naming every wrong field."""
    words = str(causes[0]) if len(causes) == 1 else "[" + ", ".join(str(cause) for cause in causes) + "]"
    details = {
        **_details(resource, name),
        "kind": resource.kind,
        "causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes],
    }
    return Refusal(422, "Invalid", f'{resource.qualified_kind} "{name}" is invalid: {words}', details)


def unsupported_media_type(content_type: str, accepted: Sequence[str]) -> Refusal:
    """415 for a patch in an unknown language."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(accepted)} (got {content_type or 'nothing'})"
    )
    return Refusal(415, "UnsupportedMediaType", message)


def expired(revision: int) -> Refusal:
    """410 for a watch from a revision that is no longer kept."""
    return Refusal(410, "Expired", f"The resourceVersion for the provided watch is too old: {revision}")
