"""The API server's rules for what stands in a pod: containers, mounts, probes, resources, tolerations."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.quantities import parse_quantity
from infra.sandbox.kubernetes.refusals import Cause, bad_request

Object = Mapping[str, Any]

_CONTAINER_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_HANDLERS = ("exec", "grpc", "httpGet", "tcpSocket", "sleep")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def pod_faults(spec: Object, path: str, restart: Sequence[str] = ("Always", "OnFailure", "Never")) -> list[Cause]:
    """Every fault of a pod's specification; `restart` are the restart policies that its owner allows."""
    faults: list[Cause] = []
    containers: Sequence[Object] = children(spec, "containers")
    starters: Sequence[Object] = children(spec, "initContainers")
    if not containers and "containers" in spec:
        faults.append(Cause(f"{path}.containers", "FieldValueRequired", "Required value"))
    policy = spec.get("restartPolicy", "Always" if "Always" in restart else "")
    if policy not in restart:
        supported = ", ".join(f'"{one}"' for one in restart)
        words = f'Unsupported value: "{policy}": supported values: {supported}' if policy else "Required value"
        faults.append(Cause(f"{path}.restartPolicy", "FieldValueNotSupported", words))
    faults += _duplicates([item.get("name") for item in children(spec, "volumes")], f"{path}.volumes")
    faults += _duplicates([item.get("name") for item in [*starters, *containers]], f"{path}.containers", len(starters))
    volumes = {item.get("name") for item in children(spec, "volumes")}
    for kind, group in (("initContainers", starters), ("containers", containers)):
        for index, container in enumerate(group):
            faults += _container_faults(container, f"{path}.{kind}[{index}]", volumes, kind == "initContainers")
    for index, toleration in enumerate(children(spec, "tolerations")):
        faults += _toleration_faults(toleration, f"{path}.tolerations[{index}]")
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        words = f"Invalid value: {spec['terminationGracePeriodSeconds']}: must be greater than or equal to 0"
        faults.append(Cause(f"{path}.terminationGracePeriodSeconds", "FieldValueInvalid", words))
    return faults


def quantity_faults(quantities: Mapping[str, Any], path: str) -> list[Cause]:
    """Negative quantities. Raises a 400 Refusal for what is no quantity, as the API server's decoder does."""
    faults: list[Cause] = []
    for name, text in quantities.items():
        try:
            number = parse_quantity(text)
        except ValueError as error:
            raise bad_request(f"unable to decode {path}[{name}] = {text!r}: {error}") from None
        if number < 0:
            words = f'Invalid value: "{text}": must be greater than or equal to 0'
            faults.append(Cause(f"{path}[{name}]", "FieldValueInvalid", words))
    return faults


def _duplicates(names: Iterable[Any], path: str, offset: int = 0) -> list[Cause]:
    seen: set[Any] = set()
    faults: list[Cause] = []
    for index, name in enumerate(names):
        if name in seen:
            where = f"{path}[{max(0, index - offset)}].name"
            faults.append(Cause(where, "FieldValueDuplicate", f'Duplicate value: "{name}"'))
        seen.add(name)
    return faults


def _container_faults(container: Object, path: str, volumes: set[Any], starter: bool) -> list[Cause]:
    faults: list[Cause] = []
    name = str(container.get("name", ""))
    if name and (not _CONTAINER_NAME.fullmatch(name) or len(name) > 63):
        words = f"Invalid value: \"{name}\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character"  # fmt: skip
        faults.append(Cause(f"{path}.name", "FieldValueInvalid", words))
    if not container.get("image"):
        faults.append(Cause(f"{path}.image", "FieldValueRequired", "Required value"))
    policy = container.get("imagePullPolicy", "Always")
    if policy not in ("Always", "IfNotPresent", "Never"):
        words = f'Unsupported value: "{policy}": supported values: "Always", "IfNotPresent", "Never"'
        faults.append(Cause(f"{path}.imagePullPolicy", "FieldValueNotSupported", words))
    mounts: Sequence[Object] = children(container, "volumeMounts")
    for index, mount in enumerate(mounts):
        if mount.get("name") not in volumes:
            where = f"{path}.volumeMounts[{index}].name"
            faults.append(Cause(where, "FieldValueNotFound", f'Not found: "{mount.get("name")}"'))
        if any(other.get("mountPath") == mount.get("mountPath") for other in mounts[:index]):
            words = f'Invalid value: "{mount.get("mountPath")}": must be unique'
            faults.append(Cause(f"{path}.volumeMounts[{index}].mountPath", "FieldValueInvalid", words))
    sidecar = container.get("restartPolicy") == "Always"
    for probe in _PROBES:
        if probe not in container:
            continue
        if starter and not sidecar:
            words = "Forbidden: may not be set for init containers without restartPolicy=Always"
            faults.append(Cause(f"{path}.{probe}", "FieldValueForbidden", words))
        faults += _handler_faults(container[probe], f"{path}.{probe}")
    for hook in ("preStop", "postStart"):
        if handler := child(container, "lifecycle").get(hook):
            faults += _handler_faults(handler, f"{path}.lifecycle.{hook}")
    for index, port in enumerate(children(container, "ports")):
        if not 1 <= port.get("containerPort", 0) <= 65535:
            words = f"Invalid value: {port.get('containerPort')}: must be between 1 and 65535, inclusive"
            faults.append(Cause(f"{path}.ports[{index}].containerPort", "FieldValueInvalid", words))
    return faults + _resource_faults(child(container, "resources"), f"{path}.resources")


def _handler_faults(probe: Object, path: str) -> list[Cause]:
    given = [name for name in _HANDLERS if name in probe]
    if not given:
        return [Cause(path, "FieldValueRequired", "Required value: must specify a handler type")]
    return [
        Cause(f"{path}.{name}", "FieldValueForbidden", "Forbidden: may not specify more than 1 handler type")
        for name in given[1:]
    ]


def _resource_faults(resources: Object, path: str) -> list[Cause]:
    limits: Mapping[str, Any] = child(resources, "limits")
    requests: Mapping[str, Any] = child(resources, "requests")
    faults = quantity_faults(limits, f"{path}.limits") + quantity_faults(requests, f"{path}.requests")
    for kind, quantities in (("limits", limits), ("requests", requests)):
        for name, text in quantities.items():
            if "/" in name and parse_quantity(text) % 1:
                words = f'Invalid value: "{text}": must be an integer'
                faults.append(Cause(f"{path}.{kind}[{name}]", "FieldValueInvalid", words))
    for name, text in requests.items():
        if name in limits:
            asked, limit = parse_quantity(text), parse_quantity(limits[name])
            if "/" in name and asked != limit:
                words = f'Invalid value: "{text}": must be equal to {name} limit of {limits[name]}'
                faults.append(Cause(f"{path}.requests", "FieldValueInvalid", words))
            elif asked > limit:
                words = f'Invalid value: "{text}": must be less than or equal to {name} limit of {limits[name]}'
                faults.append(Cause(f"{path}.requests", "FieldValueInvalid", words))
        elif "/" in name:
            words = "Required value: Limit must be set for non overcommitable resources"
            faults.append(Cause(f"{path}.limits", "FieldValueRequired", words))
    return faults


def _toleration_faults(toleration: Object, path: str) -> list[Cause]:
    faults: list[Cause] = []
    operator = toleration.get("operator", "Equal")
    if operator not in ("Equal", "Exists", "Gt", "Lt"):
        words = f'Unsupported value: "{operator}": supported values: "Equal", "Exists"'
        faults.append(Cause(f"{path}.operator", "FieldValueNotSupported", words))
    if operator == "Exists" and toleration.get("value"):
        words = f"Invalid value: \"{toleration['value']}\": value must be empty when `operator` is 'Exists'"
        faults.append(Cause(f"{path}.operator", "FieldValueInvalid", words))
    if not toleration.get("key") and operator != "Exists":
        words = f'Invalid value: "{operator}": operator must be Exists when `key` is empty, which means "match all values and all keys"'  # fmt: skip
        faults.append(Cause(f"{path}.operator", "FieldValueInvalid", words))
    effect = toleration.get("effect", "")
    if effect not in ("", "NoSchedule", "PreferNoSchedule", "NoExecute"):
        words = f'Unsupported value: "{effect}": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
        faults.append(Cause(f"{path}.effect", "FieldValueNotSupported", words))
    return faults
