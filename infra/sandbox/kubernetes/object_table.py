"""A table of objects and of the changes to it: what can be read, and what watches follow."""

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

from infra.sandbox.kubernetes.documents import children
from infra.sandbox.kubernetes.refusals import expired, not_found
from infra.sandbox.kubernetes.resource_types import ResourceType

Object = dict[str, Any]
Name = tuple[str, str]

_CHANGES_KEPT = 5000


@dataclass(frozen=True)
class Change:
    """One write: what it was (`ADDED`, `MODIFIED`, `DELETED`), the object after it and, for changes, before it."""

    revision: int
    resource: ResourceType
    event: str
    obj: Object
    previous: Object | None


class ObjectTable:
    """Objects by kind, namespace and name, and the last few thousand changes.

    A stored object is never changed in place: each write puts a new one, so readers need no copies. Whoever needs
    several steps to be one takes `changed`, the lock on which every write also rings.
    """

    def __init__(self) -> None:
        """Start with no object at all."""
        self.changed = threading.Condition(threading.RLock())
        self.revision = 0
        self._objects: dict[tuple[str, str], dict[Name, Object]] = {}
        self._types: dict[tuple[str, str], ResourceType] = {}
        self._changes: deque[Change] = deque(maxlen=_CHANGES_KEPT)

    def find(self, resource: ResourceType, namespace: str, name: str) -> Object | None:
        """The object, or None; `namespace` is empty for kinds without."""
        with self.changed:
            return self._objects.get(resource.key, {}).get((namespace, name))

    def get(self, resource: ResourceType, namespace: str, name: str) -> Object:
        """The object, or a 404 Refusal."""
        obj = self.find(resource, namespace, name)
        if obj is None:
            raise not_found(resource, name)
        return obj

    def items(self, resource: ResourceType, namespace: str = "") -> list[Object]:
        """All objects of a kind, of one namespace or of all, by namespace and name."""
        with self.changed:
            found = self._objects.get(resource.key, {})
            return [found[at] for at in sorted(found) if not namespace or at[0] == namespace]

    def changes_since(self, revision: int) -> list[Change]:
        """What was written after `revision`. Raises a 410 Refusal when that is no longer kept."""
        with self.changed:
            if self._changes and revision + 1 < self._changes[0].revision:
                raise expired(revision)
            newer: list[Change] = []
            for change in reversed(self._changes):
                if change.revision <= revision:
                    break
                newer.append(change)
            return newer[::-1]

    def dependants(self, uid: str) -> list[tuple[ResourceType, Object]]:
        """The objects that name `uid` as an owner."""
        with self.changed:
            return [
                (self._types[key], obj)
                for key, objects in self._objects.items()
                for obj in objects.values()
                if any(owner.get("uid") == uid for owner in children(obj["metadata"], "ownerReferences"))
            ]

    def _put(self, resource: ResourceType, event: str, obj: Object, previous: Object | None) -> None:
        self._types[resource.key] = resource
        at = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        self._objects.setdefault(resource.key, {})[at] = obj
        self._record(resource, event, obj, previous)

    def _record(self, resource: ResourceType, event: str, obj: Object, previous: Object | None) -> None:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        self._changes.append(Change(self.revision, resource, event, obj, previous))
        self.changed.notify_all()
