"""Claims are bound to volumes; volumes in use are kept from deletion."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from infra.sandbox.kubernetes.documents import child, children
from infra.sandbox.kubernetes.quantities import parse_quantity
from infra.sandbox.kubernetes.resource_types import CLAIMS, PODS, VOLUMES
from infra.sandbox.kubernetes.selectors import matches_labels
from infra.sandbox.kubernetes.store import Store, time_text

Object = dict[str, Any]

_CLAIM_HOLD = "kubernetes.io/pvc-protection"
_VOLUME_HOLD = "kubernetes.io/pv-protection"


def claims_of(pod: Mapping[str, Any]) -> list[str]:
    """The names of the claims that a pod mounts."""
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in children(pod["spec"], "volumes")
        if "persistentVolumeClaim" in volume
    ]


def volume_of_claim(store: Store, namespace: str, name: str) -> Object | None:
    """The PersistentVolume that a claim is bound to, or None."""
    claim = store.find(CLAIMS, namespace, name)
    if claim is None or claim.get("status", {}).get("phase") != "Bound":
        return None
    return store.find(VOLUMES, "", claim["spec"].get("volumeName", ""))


class VolumeBinder:
    """Binds claims to volumes by name, size, access mode, class and selector; releases volumes of deleted claims."""

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        """Bind nothing yet."""
        self._store = store
        self._now = now

    def reconcile(self) -> datetime | None:
        """One pass over all claims and volumes."""
        for claim in self._store.items(CLAIMS):
            if claim.get("status", {}).get("phase") != "Bound" and not claim["metadata"].get("deletionTimestamp"):
                self._bind(claim)
        for volume in self._store.items(VOLUMES):
            self._phase(volume)
        self._release()
        return None

    def _bind(self, claim: Object) -> None:
        fitting = [volume for volume in self._store.items(VOLUMES) if _fits(volume, claim)]
        if not fitting:
            return
        # A volume that names the claim first, then the smallest.
        chosen = min(fitting, key=lambda volume: ("claimRef" not in volume["spec"], _size(volume)))
        metadata: Object = claim["metadata"]
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        name: str = chosen["metadata"]["name"]
        self._store.update(VOLUMES, "", name, lambda obj: obj["spec"].update(claimRef=reference))

        def bound(obj: Object) -> None:
            obj["spec"]["volumeName"] = name
            obj["status"] = {
                "phase": "Bound",
                "accessModes": chosen["spec"]["accessModes"],
                "capacity": chosen["spec"]["capacity"],
            }

        self._store.update(CLAIMS, metadata["namespace"], metadata["name"], bound)

    def _phase(self, volume: Object) -> None:
        reference: Object = child(volume["spec"], "claimRef")
        claim = self._store.find(CLAIMS, reference.get("namespace", ""), reference.get("name", ""))
        if not reference.get("uid"):
            phase = "Available"
        elif claim is not None and claim["metadata"]["uid"] == reference["uid"]:
            phase = "Bound"
        else:
            phase = "Released"
        if child(volume, "status").get("phase") != phase:
            status = {"phase": phase, "lastPhaseTransitionTime": time_text(self._now())}
            self._store.update(VOLUMES, "", volume["metadata"]["name"], lambda obj: obj.update(status=status))

    def _release(self) -> None:
        """Let go of what is being deleted and no longer in use."""
        used = {
            (pod["metadata"]["namespace"], name)
            for pod in self._store.items(PODS)
            if pod["status"].get("phase") not in ("Succeeded", "Failed")
            for name in claims_of(pod)
        }
        for claim in self._store.items(CLAIMS):
            at = (claim["metadata"]["namespace"], claim["metadata"]["name"])
            if claim["metadata"].get("deletionTimestamp") and at not in used:
                self._store.update(CLAIMS, *at, lambda obj: _let_go(obj, _CLAIM_HOLD))
        for volume in self._store.items(VOLUMES):
            if volume["metadata"].get("deletionTimestamp") and child(volume, "status").get("phase") != "Bound":
                self._store.update(VOLUMES, "", volume["metadata"]["name"], lambda obj: _let_go(obj, _VOLUME_HOLD))


def _let_go(obj: Object, finalizer: str) -> None:
    kept = [item for item in children(obj["metadata"], "finalizers") if item != finalizer]
    obj["metadata"]["finalizers"] = kept


def _size(volume: Object) -> Any:
    return parse_quantity(volume["spec"]["capacity"]["storage"])


def _fits(volume: Object, claim: Object) -> bool:
    spec: Object = claim["spec"]
    metadata: Object = claim["metadata"]
    reference: Object = child(volume["spec"], "claimRef")
    if volume["metadata"].get("deletionTimestamp"):
        return False
    if reference:
        named = (reference.get("namespace"), reference.get("name")) == (metadata["namespace"], metadata["name"])
        if not named or reference.get("uid") not in (None, metadata["uid"]):
            return False
    if spec.get("volumeName") and spec["volumeName"] != volume["metadata"]["name"]:
        return False
    if spec.get("selector") and not matches_labels(spec["selector"], child(volume["metadata"], "labels")):
        return False
    return (
        spec.get("storageClassName", "") == volume["spec"].get("storageClassName", "")
        and spec.get("volumeMode") == volume["spec"].get("volumeMode")
        and set(spec["accessModes"]) <= set(volume["spec"]["accessModes"])
        and _size(volume) >= parse_quantity(spec["resources"]["requests"]["storage"])
    )
