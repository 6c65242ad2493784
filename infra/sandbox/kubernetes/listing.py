"""Lists in pages, and watches."""

import base64
import binascii
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infra.sandbox.kubernetes.documents import child
from infra.sandbox.kubernetes.object_table import Change
from infra.sandbox.kubernetes.refusals import Refusal, bad_request, expired
from infra.sandbox.kubernetes.resource_types import ResourceType
from infra.sandbox.kubernetes.selectors import field_selector, label_selector
from infra.sandbox.kubernetes.store import Store

Object = dict[str, Any]
Test = Callable[[Object], bool]

_WATCH_S = 1800.0


def selection(namespace: str, query: Mapping[str, str]) -> Test:
    """Whether an object is in the namespace (empty: any) and taken by the query's selectors."""
    labels = label_selector(query.get("labelSelector", ""))
    fields = field_selector(query.get("fieldSelector", ""))

    def test(obj: Object) -> bool:
        metadata: Object = obj["metadata"]
        if namespace and metadata.get("namespace") != namespace:
            return False
        return labels(child(metadata, "labels")) and fields(obj)

    return test


def whole_number(query: Mapping[str, str], name: str, default: int) -> int:
    """A number from the query. Raises a 400 Refusal for what is none."""
    raw = query.get(name, "")
    if not raw:
        return default
    if not raw.isdigit():
        raise bad_request(f'invalid value for {name}: "{raw}" is not a whole number')
    return int(raw)


def page(store: Store, resource: ResourceType, namespace: str, query: Mapping[str, str]) -> Object:
    """A list object; with `limit`, one page of it and the token for the next."""
    test = selection(namespace, query)
    limit = whole_number(query, "limit", 0)
    with store.changed:
        items = [obj for obj in store.items(resource, namespace) if test(obj)]
        metadata: Object = {"resourceVersion": str(store.revision)}
    if token := query.get("continue"):
        start = _read_token(token)
        items = [obj for obj in items if _at(obj) > start]
    if limit and len(items) > limit:
        metadata["remainingItemCount"] = len(items) - limit
        items = items[:limit]
        metadata["continue"] = base64.urlsafe_b64encode(json.dumps(_at(items[-1])).encode()).decode()
    kind = items[0]["kind"] if resource.custom and items else resource.kind
    return {"kind": f"{kind}List", "apiVersion": resource.api_version, "metadata": metadata, "items": items}


def _at(obj: Object) -> list[str]:
    return [obj["metadata"].get("namespace", ""), obj["metadata"]["name"]]


def _read_token(token: str) -> list[str]:
    try:
        return [str(part) for part in json.loads(base64.urlsafe_b64decode(token))]
    except (ValueError, binascii.Error):
        raise bad_request("continue key is not valid: unable to decode it") from None


def watch(
    store: Store, resource: ResourceType, namespace: str, query: Mapping[str, str], stopping: threading.Event
) -> Iterator[Object]:
    """The watch's events until `timeoutSeconds` real seconds are over; what is refused at all is refused at once."""
    test = selection(namespace, query)
    end = time.monotonic() + whole_number(query, "timeoutSeconds", int(_WATCH_S))
    since = whole_number(query, "resourceVersion", 0)
    bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
    first: list[Object] = []
    with store.changed:
        if since:
            if since > store.revision:
                raise expired(since)
            store.changes_since(since)
        else:
            first = [{"type": "ADDED", "object": obj} for obj in store.items(resource, namespace) if test(obj)]
            since = store.revision
    return _events(store, resource, test, first, since, end, bookmarks, stopping)


def _events(
    store: Store,
    resource: ResourceType,
    test: Test,
    first: list[Object],
    since: int,
    end: float,
    bookmarks: bool,
    stopping: threading.Event,
) -> Iterator[Object]:
    yield from first
    while not stopping.is_set():
        with store.changed:
            try:
                changes = store.changes_since(since)
            except Refusal as refusal:
                yield {"type": "ERROR", "object": refusal.status()}
                return
            left = end - time.monotonic()
            if not changes:
                if left <= 0:
                    break
                store.changed.wait(min(left, 1.0))
                continue
            since = store.revision
        for change in changes:
            if change.resource.key == resource.key and (event := _event(change, test)):
                yield event
        if left <= 0:
            break
    if bookmarks:
        metadata = {"resourceVersion": str(since)}
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        yield {"type": "BOOKMARK", "object": body}


def _event(change: Change, test: Test) -> Object | None:
    """The event as a watcher with a selector sees it: objects enter and leave its view."""
    was = change.previous is not None and test(change.previous)
    present = change.event != "DELETED" and test(change.obj)
    if change.event == "DELETED":
        return {"type": "DELETED", "object": change.obj} if was else None
    if present:
        return {"type": "MODIFIED" if was else "ADDED", "object": change.obj}
    return {"type": "DELETED", "object": change.obj} if was else None
