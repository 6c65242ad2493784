"""What the API server refuses to store: the schema of the cluster's version, then the rules that no schema holds.

Fields that no schema knows are refused, as with `fieldValidation=Strict`, so that a misspelt one is found here.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, cast

import kubernetes_validate.utils as published_schemas
from jsonschema import Draft202012Validator, ValidationError
from referencing import Registry, Resource

from infra.sandbox.kubernetes import defaults
from infra.sandbox.kubernetes.immutability import immutable_faults
from infra.sandbox.kubernetes.object_rules import object_faults
from infra.sandbox.kubernetes.refusals import Cause, bad_request, invalid
from infra.sandbox.kubernetes.resource_types import ResourceType

Object = dict[str, Any]


class SchemaAdmission:
    """The API server's admission for one Kubernetes version, such as `1.36`."""

    def __init__(self, version: str) -> None:
        """Raises a ValueError for a version whose schemas are not at hand."""
        known = published_schemas.all_versions()
        fitting = [one for one in known if published_schemas.major_minor(one) == version]
        if not fitting:
            newest = ", ".join(sorted({published_schemas.major_minor(one) for one in known})[-4:])
            raise ValueError(f"Kubernetes {version}: no schemas at hand; accepted: one of {newest} or older")
        self._version = fitting[-1]

    def fill_in(self, resource: ResourceType, obj: Object) -> None:
        """Add the defaults, in place."""
        defaults.fill_in(resource, obj)

    def check_create(self, resource: ResourceType, obj: Object) -> None:
        """Raise a Refusal for an object that may not be created."""
        _check_type(resource, obj)
        drop_nulls(obj)
        self._check(resource, obj)

    def check_update(self, resource: ResourceType, old: Object, new: Object) -> None:
        """Raise a Refusal for a change that may not be made."""
        _check_type(resource, new)
        drop_nulls(new)
        self._check(resource, new)
        if faults := immutable_faults(resource, old, new):
            raise invalid(resource, new["metadata"]["name"], faults)

    def _check(self, resource: ResourceType, obj: Object) -> None:
        name = str(obj["metadata"].get("name", ""))
        missing: list[Cause] = []
        validator = None if resource.custom else _validator(self._version, resource.kind, resource.api_version)
        for error in validator.iter_errors(obj) if validator else ():  # pyright: ignore[reportUnknownMemberType]
            missing += _schema_fault(resource, error)
        if faults := [*missing, *object_faults(resource, obj)]:
            raise invalid(resource, name, faults)


def _check_type(resource: ResourceType, obj: Object) -> None:
    if obj["apiVersion"] != resource.api_version:
        raise bad_request(
            f"the API version in the data ({obj['apiVersion']}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if obj["kind"] != resource.kind and not resource.custom:
        raise bad_request(
            f'{obj["kind"]} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"converting ({obj['kind']}) to ({resource.kind}): unknown conversion"
        )


def drop_nulls(value: Any) -> None:
    """Take out null fields, in place: the API server reads them as absent."""
    if isinstance(value, dict):
        for field in [field for field, child in value.items() if child is None]:  # pyright: ignore[reportUnknownVariableType]
            del value[field]
        for child in value.values():  # pyright: ignore[reportUnknownVariableType]
            drop_nulls(child)
    elif isinstance(value, list):
        for child in value:  # pyright: ignore[reportUnknownVariableType]
            drop_nulls(child)


@lru_cache(maxsize=2)
def _definitions(version: str) -> Resource[Any]:
    path = f"kubernetes-json-schema/v{version}-local-strict/_definitions.json"
    return Resource.from_contents(published_schemas.schema_contents(path, version))


@lru_cache(maxsize=128)
def _validator(version: str, kind: str, api_version: str) -> Draft202012Validator | None:
    """The compiled schema of a kind, or None where none is published."""
    file_name = f"{kind.lower()}-" + re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    try:
        schema = published_schemas.schema_contents(
            f"kubernetes-json-schema/v{version}-local-strict/{file_name}.json", version
        )
    except FileNotFoundError:
        return None
    registry: Registry[Any] = _definitions(version) @ (Resource[Any].from_contents(schema) @ Registry[Any]())
    return Draft202012Validator(schema, registry=registry)


def _schema_fault(resource: ResourceType, error: ValidationError) -> list[Cause]:
    """What a required field that is missing adds to a 422; all else is a 400 at once, as the API server's decoder does."""
    path = field_path(error.absolute_path)
    handled = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
    value: Any = error.instance
    rule: Any = error.validator_value
    match error.validator:
        case "required":
            prefix = f"{path}." if path else ""
            names = [name for name in rule if name not in value]
            return [Cause(f"{prefix}{name}", "FieldValueRequired", "Required value") for name in names]
        case "additionalProperties":
            known: Object = cast("Object", error.schema).get("properties", {})
            prefix = f"{path}." if path else ""
            words = ", ".join(f'unknown field "{prefix}{name}"' for name in value if name not in known)
            raise bad_request(f"{handled}: strict decoding error: {words}")
        case "enum" | "const":
            allowed = [rule] if error.validator == "const" else rule
            supported = ", ".join(f'"{one}"' for one in sorted(map(str, allowed)))
            words = f'Unsupported value: "{value}": supported values: {supported}'
            return [Cause(path, "FieldValueNotSupported", words)]
        case _:
            words = " or ".join(_type_names(rule)) if error.validator == "type" else "another kind"
            kinds = {"bool": "bool", "str": "string", "dict": "object", "list": "array"}
            kind = kinds.get(type(value).__name__, "number")
            raise bad_request(f"{handled}: json: cannot unmarshal {kind} into field {path or '.'} of type {words}")


def _type_names(rule: Any) -> list[str]:
    """A schema's `type`: one name or a list of them."""
    return [rule] if isinstance(rule, str) else list(rule)


def field_path(parts: Iterable[str | int]) -> str:
    """`spec.containers[0].args`."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
