"""The API server's rules that no schema holds: names, labels, quantities, pod templates, selectors."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.pod_rules import pod_faults, quantity_faults
from infra.sandbox.kubernetes.refusals import Cause
from infra.sandbox.kubernetes.resource_types import ResourceType
from infra.sandbox.kubernetes.selectors import matches_labels

Object = Mapping[str, Any]

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def object_faults(resource: ResourceType, obj: Object) -> list[Cause]:
    """Every fault of an object that passed its schema."""
    faults = _name_faults(resource, obj) + _metadata_faults(obj["metadata"], "metadata")
    spec: Object = child(obj, "spec")
    match resource.kind:
        case "Pod":
            faults += pod_faults(spec, "spec")
        case "Deployment" | "DaemonSet" | "ReplicaSet":
            faults += _workload_faults(resource, spec)
        case "Job":
            faults += _template_faults(spec, ("OnFailure", "Never"))
        case "CronJob":
            job: Object = child(child(spec, "jobTemplate"), "spec")
            faults += _template_faults(job, ("OnFailure", "Never"), "spec.jobTemplate.spec.")
        case "Service":
            faults += _service_faults(spec)
        case "PersistentVolume":
            faults += _volume_faults(spec)
        case "PersistentVolumeClaim":
            faults += _claim_faults(spec)
        case _:
            pass
    return faults


def _name_faults(resource: ResourceType, obj: Object) -> list[Cause]:
    name = str(obj["metadata"].get("name", ""))
    if not name:
        return [Cause("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")]
    if resource.group == "rbac.authorization.k8s.io":
        return []
    if resource.kind == "Service":
        pattern, limit, words = _LABEL_1035, 63, "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character"  # fmt: skip
    elif resource.kind == "Namespace":
        pattern, limit, words = _LABEL, 63, "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character"  # fmt: skip
    else:
        pattern, limit, words = _SUBDOMAIN, 253, "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"  # fmt: skip
    if len(name) > limit:
        words = f"must be no more than {limit} characters"
    elif pattern.fullmatch(name):
        return []
    return [Cause("metadata.name", "FieldValueInvalid", f'Invalid value: "{name}": {words}')]


def _metadata_faults(metadata: Object, path: str) -> list[Cause]:
    faults: list[Cause] = []
    labels: Mapping[str, Any] = child(metadata, "labels")
    for kind in ("labels", "annotations"):
        for key in child(metadata, kind):
            prefix, _, name = str(key).rpartition("/")
            well = _QUALIFIED.fullmatch(name) and len(name) <= 63 and (not prefix or _SUBDOMAIN.fullmatch(prefix))
            if not well:
                words = f"Invalid value: \"{key}\": name part must consist of alphanumeric characters, '-', '_' or '.'"
                faults.append(Cause(f"{path}.{kind}", "FieldValueInvalid", words))
    for value in labels.values():
        if len(str(value)) > 63:
            words = f'Invalid value: "{value}": must be no more than 63 characters'
            faults.append(Cause(f"{path}.labels", "FieldValueInvalid", words))
        elif not _LABEL_VALUE.fullmatch(str(value)):
            words = f"Invalid value: \"{value}\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"  # fmt: skip
            faults.append(Cause(f"{path}.labels", "FieldValueInvalid", words))
    return faults


def _template_faults(spec: Object, restart: Sequence[str], prefix: str = "spec.") -> list[Cause]:
    template: Object = child(spec, "template")
    return [
        *_metadata_faults(child(template, "metadata"), f"{prefix}template.metadata"),
        *pod_faults(child(template, "spec"), f"{prefix}template.spec", restart),
    ]


def _workload_faults(resource: ResourceType, spec: Object) -> list[Cause]:
    faults: list[Cause] = []
    if isinstance(spec.get("replicas"), int) and spec["replicas"] < 0:
        words = f"Invalid value: {spec['replicas']}: must be greater than or equal to 0"
        faults.append(Cause("spec.replicas", "FieldValueInvalid", words))
    if (selector := spec.get("selector")) is not None:
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            words = f"Invalid value: {{}}: empty selector is invalid for {resource.kind.lower()}"
            faults.append(Cause("spec.selector", "FieldValueInvalid", words))
        labels = child(child(child(spec, "template"), "metadata"), "labels")
        if not matches_labels(selector, labels):
            value = json.dumps(labels, separators=(",", ":"))
            words = f"Invalid value: {value}: `selector` does not match template `labels`"
            faults.append(Cause("spec.template.metadata.labels", "FieldValueInvalid", words))
    strategy = child(spec, "strategy") if resource.kind == "Deployment" else {}
    kind = strategy.get("type", "RollingUpdate")
    if kind not in ("Recreate", "RollingUpdate"):
        words = f'Unsupported value: "{kind}": supported values: "Recreate", "RollingUpdate"'
        faults.append(Cause("spec.strategy.type", "FieldValueNotSupported", words))
    if kind == "Recreate" and strategy.get("rollingUpdate"):
        words = "Forbidden: may not be specified when strategy `type` is 'Recreate'"
        faults.append(Cause("spec.strategy.rollingUpdate", "FieldValueForbidden", words))
    return faults + _template_faults(spec, ("Always",))


def _service_faults(spec: Object) -> list[Cause]:
    faults: list[Cause] = []
    ports: Sequence[Object] = children(spec, "ports")
    kind = spec.get("type", "ClusterIP")
    if kind not in ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"):
        words = (
            f'Unsupported value: "{kind}": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'
        )
        faults.append(Cause("spec.type", "FieldValueNotSupported", words))
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        faults.append(Cause("spec.ports", "FieldValueRequired", "Required value"))
    for index, port in enumerate(ports):
        if not 1 <= port["port"] <= 65535:
            words = f"Invalid value: {port['port']}: must be between 1 and 65535, inclusive"
            faults.append(Cause(f"spec.ports[{index}].port", "FieldValueInvalid", words))
        if len(ports) > 1 and not port.get("name"):
            faults.append(Cause(f"spec.ports[{index}].name", "FieldValueRequired", "Required value"))
    return faults


def _access_mode_faults(spec: Object) -> list[Cause]:
    modes: Sequence[str] = children(spec, "accessModes")
    if not modes:
        words = "Required value: at least 1 access mode is required"
        return [Cause("spec.accessModes", "FieldValueRequired", words)]
    supported = ", ".join(f'"{mode}"' for mode in _ACCESS_MODES)
    return [
        Cause(
            "spec.accessModes", "FieldValueNotSupported", f'Unsupported value: "{mode}": supported values: {supported}'
        )
        for mode in modes
        if mode not in _ACCESS_MODES
    ]


def _volume_faults(spec: Object) -> list[Cause]:
    faults = _access_mode_faults(spec)
    capacity: Mapping[str, Any] = child(spec, "capacity")
    if "storage" not in capacity:
        faults.append(Cause("spec.capacity", "FieldValueRequired", "Required value"))
    faults += quantity_faults(capacity, "spec.capacity")
    policy = spec.get("persistentVolumeReclaimPolicy", "Retain")
    if policy not in ("Delete", "Recycle", "Retain"):
        words = f'Unsupported value: "{policy}": supported values: "Delete", "Recycle", "Retain"'
        faults.append(Cause("spec.persistentVolumeReclaimPolicy", "FieldValueNotSupported", words))
    settings = {"csi", "awsElasticBlockStore", "hostPath", "nfs", "local", "fc", "iscsi"}
    if not settings & set(spec):
        faults.append(Cause("spec", "FieldValueRequired", "Required value: must specify a volume type"))
    return faults


def _claim_faults(spec: Object) -> list[Cause]:
    faults = _access_mode_faults(spec)
    requests: Mapping[str, Any] = child(child(spec, "resources"), "requests")
    if "storage" not in requests:
        faults.append(Cause("spec.resources[storage]", "FieldValueRequired", "Required value"))
    return faults + quantity_faults(requests, "spec.resources.requests")
