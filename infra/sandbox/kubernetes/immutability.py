"""Fields that stay as they were created."""

import json
from collections.abc import Mapping
from typing import Any

from infra.sandbox.kubernetes.documents import child
from infra.sandbox.kubernetes.refusals import Cause
from infra.sandbox.kubernetes.resource_types import ResourceType

Object = Mapping[str, Any]

_VOLUME_SETTINGS = {
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
}
_POD_FIELDS = {"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "nodeName"}


def immutable_faults(resource: ResourceType, old: Object, new: Object) -> list[Cause]:
    """The faults of a change to fields that may not change."""
    before: Object = child(old, "spec")
    after: Object = child(new, "spec")
    match resource.kind:
        case "Deployment" | "DaemonSet" | "ReplicaSet":
            return _fixed("spec.selector", before.get("selector"), after.get("selector"))
        case "Job":
            return [
                *_fixed("spec.selector", before.get("selector"), after.get("selector")),
                *_fixed("spec.template", before.get("template"), _like(before.get("template"), after.get("template"))),
            ]
        case "PersistentVolume":
            return _volume_faults(before, after)
        case "PersistentVolumeClaim":
            return _claim_faults(old, before, after)
        case "Pod":
            return _pod_faults(before, after)
        case "StorageClass":
            words = "updates to parameters are forbidden."
            changed = old.get("parameters") != new.get("parameters")
            return [Cause("parameters", "FieldValueForbidden", f"Forbidden: {words}")] if changed else []
        case "Secret" | "ConfigMap":
            contents = ("data", "binaryData", "stringData")
            changed = any(name in new and new.get(name) != old.get(name) for name in contents)
            if old.get("immutable") and changed:
                return [Cause("data", "FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set")]
            return _fixed("type", old.get("type"), new.get("type", old.get("type")))
        case _:
            return []


def _like(old: Any, new: Any) -> Any:
    """The old value where the new one differs only in what the API server fills in."""
    return old if _contains(old, new) else new


def _contains(old: Any, new: Any) -> bool:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return all(key in old and _contains(old[key], value) for key, value in new.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_contains, old, new))  # pyright: ignore[reportUnknownArgumentType]
    return bool(old == new)


def _fixed(path: str, old: Any, new: Any) -> list[Cause]:
    if old == new:
        return []
    value = json.dumps(new, separators=(",", ":"))
    return [Cause(path, "FieldValueInvalid", f"Invalid value: {value}: field is immutable")]


def _volume_faults(before: Object, after: Object) -> list[Cause]:
    def source(spec: Object) -> dict[str, Any]:
        return {name: value for name, value in spec.items() if name not in _VOLUME_SETTINGS}

    faults: list[Cause] = []
    if source(before) != source(after):
        words = "Forbidden: spec.persistentvolumesource is immutable after creation"
        faults.append(Cause("spec.persistentvolumesource", "FieldValueForbidden", words))
    if before.get("nodeAffinity") and before.get("nodeAffinity") != after.get("nodeAffinity"):
        value = json.dumps(after.get("nodeAffinity"), separators=(",", ":"))
        words = f"Invalid value: {value}: field is immutable, except for updating from beta label to GA"
        faults.append(Cause("spec.nodeAffinity", "FieldValueInvalid", words))
    faults += _fixed("spec.volumeMode", before.get("volumeMode"), after.get("volumeMode", before.get("volumeMode")))
    return faults


def _claim_faults(old: Object, before: Object, after: Object) -> list[Cause]:
    free = ("resources", "volumeAttributesClassName", "volumeMode")
    kept = {name: value for name, value in before.items() if name not in free}
    wanted = {name: value for name, value in after.items() if name not in free}
    if not before.get("volumeName"):
        kept.pop("volumeName", None)
        wanted.pop("volumeName", None)
    elif "volumeName" not in wanted:
        # The binder wrote it; whoever applies the claim anew need not know it.
        wanted["volumeName"] = before["volumeName"]
    bound = old.get("status", {}).get("phase") == "Bound"
    if kept == wanted and (bound or before.get("resources") == after.get("resources")):
        return []
    words = (
        "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName "
        "for bound claims"
    )
    return [Cause("spec", "FieldValueForbidden", words)]


def _pod_faults(before: Object, after: Object) -> list[Cause]:
    def frozen(spec: Object) -> dict[str, Any]:
        fixed = {name: value for name, value in spec.items() if name not in _POD_FIELDS}
        for name in ("containers", "initContainers"):
            if name in fixed:
                fixed[name] = [{**container, "image": ""} for container in fixed[name]]
        return fixed

    if _contains(frozen(before), frozen(after)):
        return []
    words = (
        "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
        "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
    )
    return [Cause("spec", "FieldValueForbidden", words)]
