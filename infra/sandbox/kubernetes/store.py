"""The cluster's objects: uid, resourceVersion, generation, finalizers, owners and namespaces."""

import copy
import secrets
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Literal, Protocol

from infra.sandbox.kubernetes.documents import children
from infra.sandbox.kubernetes.object_table import Object, ObjectTable
from infra.sandbox.kubernetes.refusals import (
    already_exists,
    bad_request,
    conflict,
    forbidden,
    not_found,
)
from infra.sandbox.kubernetes.resource_types import NAMESPACES, NODES, PODS, ResourceType

Propagation = Literal["Foreground", "Background", "Orphan"]

FOREGROUND = "foregroundDeletion"
# Letters and digits that cannot spell a word, as the API server's own name generator uses.
_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def time_text(moment: datetime) -> str:
    """A moment as Kubernetes writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def random_suffix(length: int = 5) -> str:
    """Random letters for a generated name."""
    return "".join(secrets.choice(_NAME_LETTERS) for _ in range(length))


class Admission(Protocol):
    """What fills in and checks an object before it is stored."""

    def fill_in(self, resource: ResourceType, obj: Object) -> None:
        """Add the defaults, in place."""
        ...

    def check_create(self, resource: ResourceType, obj: Object) -> None:
        """Raise a Refusal for an object that may not be created."""
        ...

    def check_update(self, resource: ResourceType, old: Object, new: Object) -> None:
        """Raise a Refusal for a change that may not be made."""
        ...


class Store(ObjectTable):
    """Every object of the cluster.

    - `now`: the cluster's time of day.
    - `admission`: asked for each write that comes from outside.
    """

    def __init__(self, now: Callable[[], datetime], admission: Admission) -> None:
        """Start with no object at all."""
        super().__init__()
        self._now = now
        self._admission = admission

    def time(self) -> datetime:
        """The cluster's time of day."""
        return self._now()

    def create(
        self, resource: ResourceType, namespace: str, body: Object, *, dry_run: bool = False, checked: bool = True
    ) -> Object:
        """Store a new object; `checked=False` is for the control plane's own."""
        obj = copy.deepcopy(body)
        metadata: Object = obj.setdefault("metadata", {})
        obj.setdefault("apiVersion", resource.api_version)
        obj.setdefault("kind", resource.kind)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + random_suffix()
        with self.changed:
            if resource.namespaced:
                self._require_namespace(resource, namespace, metadata.get("name", ""))
                if metadata.setdefault("namespace", namespace) != namespace:
                    raise bad_request(
                        "the namespace of the provided object does not match the namespace sent on the request"
                    )
            if metadata.get("resourceVersion"):
                raise bad_request("resourceVersion should not be set on objects to be created")
            if checked:
                if not resource.custom and resource.key != NODES.key:
                    # A status is for the control plane to write; only nodes bring theirs along.
                    obj.pop("status", None)
                self._admission.check_create(resource, obj)
            self._admission.fill_in(resource, obj)
            name: str = metadata["name"]
            if self.find(resource, namespace, name) is not None:
                raise already_exists(resource, name)
            metadata.pop("deletionTimestamp", None)
            metadata.update(uid=str(uuid.uuid4()), creationTimestamp=time_text(self._now()))
            if "spec" in obj:
                metadata["generation"] = 1
            if not dry_run:
                self._put(resource, "ADDED", obj, None)
            return obj

    def change(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        changed_object: Callable[[Object], Object],
        *,
        status: bool = False,
        dry_run: bool = False,
    ) -> Object:
        """Replace an object by what `changed_object` makes of it: checked, and with `status=True` its status alone.

        A `resourceVersion` in the new object that is not the stored one is a 409 Refusal.
        """
        with self.changed:
            old = self.get(resource, namespace, name)
            new = copy.deepcopy(changed_object(old))
            metadata: Object = new.setdefault("metadata", {})
            if metadata.get("name", name) != name:
                raise bad_request(
                    f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
                )
            if metadata.get("resourceVersion") not in (None, "", old["metadata"]["resourceVersion"]):
                raise conflict(resource, name)
            if metadata.get("uid") not in (None, "", old["metadata"]["uid"]):
                why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: "
                raise conflict(resource, name, why + old["metadata"]["uid"])
            for field in ("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation"):
                metadata[field] = old["metadata"].get(field)
                if metadata[field] is None:
                    del metadata[field]
            for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
                metadata.pop(field, None)
                if field in old["metadata"]:
                    metadata[field] = old["metadata"][field]
            for field in ("apiVersion", "kind"):
                new.setdefault(field, old[field])
            if status:
                new = {**old, "status": new.get("status", {})}
            else:
                if not resource.custom and "status" in old:
                    new["status"] = old["status"]
                elif not resource.custom:
                    new.pop("status", None)
                self._admission.check_update(resource, old, new)
                self._admission.fill_in(resource, new)
            return new if dry_run else self._write(resource, old, new)

    def update(
        self, resource: ResourceType, namespace: str, name: str, mutate: Callable[[Object], None]
    ) -> Object | None:
        """Change an object unchecked, for the control plane itself; None where it is gone."""
        with self.changed:
            old = self.find(resource, namespace, name)
            if old is None:
                return None
            new = copy.deepcopy(old)
            mutate(new)
            return self._write(resource, old, new)

    def delete(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        *,
        grace_period_s: int | None = None,
        propagation: Propagation = "Background",
        dry_run: bool = False,
    ) -> Object:
        """Delete an object, or mark it for deletion where a grace period, a finalizer or contents hold it."""
        with self.changed:
            old = self.get(resource, namespace, name)
            if dry_run:
                return old
            if resource.key == NAMESPACES.key:
                return self._delete_namespace(old)
            grace_s = _grace_s(old, grace_period_s) if resource.key == PODS.key else 0
            new = copy.deepcopy(old)
            if propagation == "Foreground" and self.dependants(old["metadata"]["uid"]):
                new["metadata"].setdefault("finalizers", [])
                if FOREGROUND not in new["metadata"]["finalizers"]:
                    new["metadata"]["finalizers"].append(FOREGROUND)
            elif propagation == "Orphan":
                self._orphan(old["metadata"]["uid"])
            if grace_s > 0 or new["metadata"].get("finalizers"):
                end = time_text(self._now() + timedelta(seconds=grace_s))
                if min(new["metadata"].get("deletionTimestamp") or end, end) == end:
                    new["metadata"].update(deletionTimestamp=end, deletionGracePeriodSeconds=grace_s)
                new = self._write(resource, old, new)
                if propagation == "Foreground":
                    self._delete_dependants(old["metadata"]["uid"])
                return new
            return self.remove(resource, namespace, name) or old

    def remove(self, resource: ResourceType, namespace: str, name: str) -> Object | None:
        """Take an object out at once, whatever holds it, and let what it owns follow; None where it is gone."""
        with self.changed:
            obj = self._objects.get(resource.key, {}).pop((namespace, name), None)
            if obj is None:
                return None
            last = {**obj, "metadata": {**obj["metadata"]}}
            self._record(resource, "DELETED", last, obj)
            self._delete_dependants(obj["metadata"]["uid"])
            for owner in children(obj["metadata"], "ownerReferences"):
                self._finish_foreground(owner.get("uid", ""))
            space = self.find(NAMESPACES, "", namespace) if namespace else None
            if space is not None and space["metadata"].get("deletionTimestamp"):
                self._finish_namespace(namespace)
            return last

    def _require_namespace(self, resource: ResourceType, namespace: str, name: str) -> None:
        space = self.find(NAMESPACES, "", namespace)
        if space is None:
            raise not_found(NAMESPACES, namespace)
        if space["metadata"].get("deletionTimestamp"):
            raise forbidden(
                f'{resource.qualified_plural} "{name}" is forbidden: unable to create new content in namespace '
                f"{namespace} because it is being terminated"
            )

    def _write(self, resource: ResourceType, old: Object, new: Object) -> Object:
        if new == old:
            return old
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        self._put(resource, "MODIFIED", new, old)
        metadata: Object = new["metadata"]
        held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        if metadata.get("deletionTimestamp") and not held and resource.key != NAMESPACES.key:
            self.remove(resource, metadata.get("namespace", ""), metadata["name"])
        return new

    def _delete_dependants(self, uid: str) -> None:
        for resource, obj in self.dependants(uid):
            owners = obj["metadata"]["ownerReferences"]
            alive = [owner for owner in owners if owner["uid"] != uid and self._exists(owner["uid"])]
            space, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
            if (
                self.find(resource, space, name) is not None
                and not alive
                and not obj["metadata"].get("deletionTimestamp")
            ):
                self.delete(resource, space, name)

    def _exists(self, uid: str) -> bool:
        return any(obj["metadata"]["uid"] == uid for objects in self._objects.values() for obj in objects.values())

    def _orphan(self, uid: str) -> None:
        for resource, obj in self.dependants(uid):
            owners = [owner for owner in obj["metadata"]["ownerReferences"] if owner["uid"] != uid]
            metadata = {**obj["metadata"], "ownerReferences": owners}
            self._write(resource, obj, {**obj, "metadata": metadata})

    def _finish_foreground(self, uid: str) -> None:
        for key, objects in list(self._objects.items()):
            for obj in list(objects.values()):
                finalizers: list[str] = children(obj["metadata"], "finalizers")
                if obj["metadata"]["uid"] == uid and FOREGROUND in finalizers and not self.dependants(uid):
                    metadata = {**obj["metadata"], "finalizers": [item for item in finalizers if item != FOREGROUND]}
                    self._write(self._types[key], obj, {**obj, "metadata": metadata})

    def _delete_namespace(self, old: Object) -> Object:
        name: str = old["metadata"]["name"]
        metadata = {**old["metadata"], "deletionTimestamp": time_text(self._now())}
        marked = self._write(NAMESPACES, old, {**old, "metadata": metadata, "status": {"phase": "Terminating"}})
        for key, objects in list(self._objects.items()):
            for at in [at for at in objects if at[0] == name]:
                if at in objects:
                    self.delete(self._types[key], *at)
        self._finish_namespace(name)
        return marked

    def _finish_namespace(self, name: str) -> None:
        if not any(at[0] == name for objects in self._objects.values() for at in objects):
            self.remove(NAMESPACES, "", name)


def _grace_s(pod: Object, asked_s: int | None) -> int:
    """How long a pod may take to end: nothing where no kubelet runs it."""
    phase = pod.get("status", {}).get("phase")
    if not pod["spec"].get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    return asked_s if asked_s is not None else pod["spec"].get("terminationGracePeriodSeconds", 30)
