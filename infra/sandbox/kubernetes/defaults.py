"""The values that the API server fills in, as far as controllers and jobs read them."""

import base64
from typing import Any

from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.resource_types import ResourceType

Object = dict[str, Any]


def fill_in(resource: ResourceType, obj: Object) -> None:
    """Add the defaults of a kind, in place; a second time changes nothing."""
    spec: Object = child(obj, "spec")
    match resource.kind:
        case "Secret":
            for name, text in child(obj, "stringData").items():
                obj.setdefault("data", {})[name] = base64.b64encode(str(text).encode()).decode()
            obj.pop("stringData", None)
            obj.setdefault("type", "Opaque")
        case "Namespace":
            obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
            obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
            obj.setdefault("status", {"phase": "Active"})
        case "Pod":
            _fill_in_pod_spec(spec)
            obj.setdefault("status", {}).setdefault("phase", "Pending")
            obj["status"].setdefault("qosClass", "Burstable")
        case "Deployment":
            obj.setdefault("status", {})
            spec.setdefault("replicas", 1)
            spec.setdefault("strategy", {}).setdefault("type", "RollingUpdate")
            if spec["strategy"]["type"] == "RollingUpdate":
                spec["strategy"].setdefault("rollingUpdate", {"maxSurge": "25%", "maxUnavailable": "25%"})
            spec.setdefault("revisionHistoryLimit", 10)
            spec.setdefault("progressDeadlineSeconds", 600)
            _fill_in_pod_spec(spec["template"].setdefault("spec", {}))
        case "DaemonSet":
            names = ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady")
            obj.setdefault("status", dict.fromkeys(names, 0))
            spec.setdefault("updateStrategy", {"type": "RollingUpdate"})
            _fill_in_pod_spec(spec["template"].setdefault("spec", {}))
        case "Job":
            obj.setdefault("status", {})
            spec.setdefault("completions", 1)
            spec.setdefault("parallelism", 1)
            spec.setdefault("backoffLimit", 6)
            _fill_in_pod_spec(spec["template"].setdefault("spec", {}))
        case "Service":
            spec.setdefault("type", "ClusterIP")
            spec.setdefault("sessionAffinity", "None")
            for port in children(spec, "ports"):
                port.setdefault("protocol", "TCP")
                port.setdefault("targetPort", port["port"])
        case "PersistentVolumeClaim":
            spec.setdefault("volumeMode", "Filesystem")
            obj.setdefault("status", {"phase": "Pending"})
            _hold(obj, "kubernetes.io/pvc-protection")
        case "PersistentVolume":
            spec.setdefault("volumeMode", "Filesystem")
            spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
            obj.setdefault("status", {"phase": "Pending"})
            _hold(obj, "kubernetes.io/pv-protection")
        case "StorageClass":
            obj.setdefault("reclaimPolicy", "Delete")
            obj.setdefault("volumeBindingMode", "Immediate")
        case _:
            pass


def _hold(obj: Object, finalizer: str) -> None:
    """The finalizer that keeps storage in use from being deleted; not put back while it is being deleted."""
    if not obj["metadata"].get("uid"):
        finalizers: list[str] = obj["metadata"].setdefault("finalizers", [])
        if finalizer not in finalizers:
            finalizers.append(finalizer)


def _fill_in_pod_spec(spec: Object) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("securityContext", {})
    for container in [*children(spec, "initContainers"), *children(spec, "containers")]:
        container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        resources: Object = container.setdefault("resources", {})
        # A limit without a request requests as much.
        for name, quantity in child(resources, "limits").items():
            resources.setdefault("requests", {}).setdefault(name, quantity)
        for port in children(container, "ports"):
            port.setdefault("protocol", "TCP")
        for probe_name in ("startupProbe", "readinessProbe", "livenessProbe"):
            if probe := container.get(probe_name):
                for field, value in (("periodSeconds", 10), ("timeoutSeconds", 1), ("failureThreshold", 3)):
                    probe.setdefault(field, value)
                probe.setdefault("successThreshold", 1)


def _pull_policy(image: str) -> str:
    pinned = "@" in image or (":" in image.rsplit("/", 1)[-1] and not image.endswith(":latest"))
    return "IfNotPresent" if pinned else "Always"
