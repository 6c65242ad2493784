"""From a request to an answer: paths, verbs and subresources."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from infra.sandbox.kubernetes import apply, discovery, listing, patches, subresources
from infra.sandbox.kubernetes.documents import child
from infra.sandbox.kubernetes.messages import Answer, Request, text
from infra.sandbox.kubernetes.pod_proxy import PodProxy
from infra.sandbox.kubernetes.refusals import (
    Refusal,
    bad_request,
    conflict,
    no_such_resource,
    success,
    unsupported_media_type,
)
from infra.sandbox.kubernetes.resource_types import ResourceType, resource_type
from infra.sandbox.kubernetes.store import Store, time_text

Object = dict[str, Any]

_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_JSON = "application/json-patch+json"
_APPLY = "application/apply-patch+yaml"
# Kinds that answer a deletion with the object; all others answer with a Status.
_ANSWER_DELETED = {"persistentvolumeclaims", "persistentvolumes", "pods", "serviceaccounts", "services"}


@dataclass(frozen=True)
class Target:
    """What a path means; `namespace` and `name` are empty where it names none, `rest` is what follows `proxy`."""

    resource: ResourceType
    namespace: str
    name: str
    subresource: str
    rest: str


def target_of(parts: tuple[str, ...], path: str) -> Target:
    """Read a path. Raises a 404 Refusal for one that means nothing."""
    match parts:
        case ("api", version, *words):
            group = ""
        case ("apis", group, version, *words):
            pass
        case _:
            raise no_such_resource()
    namespace = ""
    if len(words) > 2 and words[0] == "namespaces" and words[2] not in ("status", "finalize"):
        namespace, words = words[1], words[2:]
    if not words:
        raise no_such_resource()
    resource = resource_type(group, version, words[0], bool(namespace))
    name = words[1] if len(words) > 1 else ""
    subresource = words[2] if len(words) > 2 else ""
    if resource is None or (namespace and not resource.namespaced) or (len(words) > 3 and subresource != "proxy"):
        raise no_such_resource()
    if resource.namespaced and name and not namespace:
        raise no_such_resource()
    rest = "/" + path.split("/proxy/", 1)[1] if subresource == "proxy" and "/proxy/" in path else "/"
    return Target(resource, namespace, name, subresource, rest)


class Routes:
    """The API server's paths over a store.

    - `stopping`: set when the server ends, so that watches end too.
    """

    def __init__(
        self, store: Store, proxy: PodProxy, version: str, now: Callable[[], datetime], stopping: threading.Event
    ) -> None:
        """Answer nothing yet."""
        self._store = store
        self._proxy = proxy
        self._version = version
        self._now = now
        self._stopping = stopping

    def answer(self, request: Request) -> Answer:
        """Answer a request. Raises a Refusal."""
        parts = tuple(request.parts)
        if parts == ("version",):
            return Answer(200, discovery.version_page(self._version))
        if parts and parts[0] in ("healthz", "livez", "readyz"):
            return text("ok")
        if request.method == "GET" and (found := discovery.discovery_page(parts)):
            return Answer(200, found)
        target = target_of(parts, request.path)
        dry_run = request.query.get("dryRun") == "All"
        if target.subresource and target.subresource != "status":
            return self._subresource(target, request, dry_run)
        status = target.subresource == "status"
        if not target.name:
            return self._collection(target, request, dry_run)
        at = (target.resource, target.namespace, target.name)
        match request.method:
            case "GET":
                return Answer(200, self._store.get(*at))
            case "PUT":
                body = request.object_body()
                return Answer(200, self._store.change(*at, lambda _: body, status=status, dry_run=dry_run))
            case "PATCH":
                return self._patch(target, request, status, dry_run)
            case "DELETE":
                return self._delete(target, request, dry_run)
            case _:
                raise _no_method()

    def _collection(self, target: Target, request: Request, dry_run: bool) -> Answer:
        resource, namespace = target.resource, target.namespace
        match request.method:
            case "POST":
                if resource.namespaced and not namespace:
                    raise _no_method()
                made = self._store.create(resource, namespace, request.object_body(), dry_run=dry_run)
                return Answer(201, made)
            case "GET" if request.query.get("watch", "").lower() in ("true", "1"):
                return Answer(
                    200, stream=listing.watch(self._store, resource, namespace, request.query, self._stopping)
                )
            case "GET":
                return Answer(200, listing.page(self._store, resource, namespace, request.query))
            case "DELETE":
                chosen = listing.page(self._store, resource, namespace, {**request.query, "limit": ""})
                for item in chosen["items"]:
                    metadata: Object = item["metadata"]
                    self._delete_one(resource, metadata.get("namespace", ""), metadata["name"], request, dry_run)
                return Answer(200, chosen)
            case _:
                raise _no_method()

    def _subresource(self, target: Target, request: Request, dry_run: bool) -> Answer:
        resource, namespace, name = target.resource, target.namespace, target.name
        match target.subresource, request.method:
            case "proxy", _:
                return self._proxy.answer(resource, namespace, name, target.rest, request)
            case "log", "GET" if resource.plural == "pods":
                return text(subresources.log_of(self._store, namespace, name, request.query))
            case "eviction", "POST" if resource.plural == "pods":
                return Answer(201, subresources.evict(self._store, namespace, name, request.object_body(), dry_run))
            case "scale", "GET" | "PUT" | "PATCH" if resource.group == "apps" and resource.plural != "daemonsets":
                return self._scale(target, request, dry_run)
            case (("exec" | "attach" | "portforward"), _):
                raise bad_request(f"simulated pods run no processes: {target.subresource} is not available")
            case _:
                raise no_such_resource()

    def _scale(self, target: Target, request: Request, dry_run: bool) -> Answer:
        at = (target.resource, target.namespace, target.name)
        if request.method == "GET":
            return Answer(200, subresources.scale_of(self._store.get(*at)))

        def changed(old: Object) -> Object:
            scale = subresources.scale_of(old)
            new = request.object_body() if request.method == "PUT" else _patched(scale, request)
            return subresources.with_replicas(target.resource, old, new)

        return Answer(200, subresources.scale_of(self._store.change(*at, changed, dry_run=dry_run)))

    def _patch(self, target: Target, request: Request, status: bool, dry_run: bool) -> Answer:
        at = (target.resource, target.namespace, target.name)
        if not request.content_type.startswith("application/apply-patch"):
            return Answer(
                200, self._store.change(*at, lambda old: _patched(old, request), status=status, dry_run=dry_run)
            )
        manager = request.query.get("fieldManager", "")
        force = request.query.get("force") == "true"
        if not manager:
            raise bad_request("PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch")  # fmt: skip
        applied = replace(request, content_type="application/yaml").object_body()
        metadata: Object = applied.setdefault("metadata", {})
        if metadata.setdefault("name", target.name) != target.name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
            )
        if metadata.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        time = time_text(self._now())
        with self._store.changed:
            if self._store.find(*at) is None:
                made = apply.apply(None, applied, manager, force, time)
                return Answer(201, self._store.create(target.resource, target.namespace, made, dry_run=dry_run))
            changed = self._store.change(
                *at, lambda old: apply.apply(old, applied, manager, force, time), status=status, dry_run=dry_run
            )
            return Answer(200, changed)

    def _delete(self, target: Target, request: Request, dry_run: bool) -> Answer:
        last = self._delete_one(target.resource, target.namespace, target.name, request, dry_run)
        gone = self._store.find(target.resource, target.namespace, target.name) is None
        if gone and target.resource.plural not in _ANSWER_DELETED:
            details = {"name": target.name, "group": target.resource.group, "kind": target.resource.plural}
            return Answer(200, success({**details, "uid": last["metadata"]["uid"]}))
        return Answer(200, last)

    def _delete_one(self, resource: ResourceType, namespace: str, name: str, request: Request, dry_run: bool) -> Object:
        parsed: object = request.parsed_body()
        options = cast("Object", parsed) if isinstance(parsed, dict) else {}
        grace: Any = options.get("gracePeriodSeconds", request.query.get("gracePeriodSeconds"))
        propagation: str = options.get("propagationPolicy") or request.query.get("propagationPolicy") or "Background"
        if propagation not in ("Foreground", "Background", "Orphan"):
            raise bad_request(f'invalid propagationPolicy "{propagation}"')
        with self._store.changed:
            for field, wanted in child(options, "preconditions").items():
                present = self._store.get(resource, namespace, name)["metadata"].get(field)
                if wanted not in (None, present):
                    words = (
                        f"the {field} in the precondition ({wanted}) does not match the {field} in record ({present})"
                    )
                    raise conflict(resource, name, words)
            return self._store.delete(
                resource,
                namespace,
                name,
                grace_period_s=None if grace is None else int(grace),
                propagation=propagation,
                dry_run=dry_run or options.get("dryRun") == ["All"],
            )


def _patched(old: Object, request: Request) -> Object:
    """The object after the request's patch; custom resources know no strategic one, as in a real API server."""
    kind = request.content_type.split(";")[0].strip()
    body: object = request.parsed_body()
    if kind == _JSON:
        if not isinstance(body, list):
            raise bad_request("error decoding patch: a JSON patch is a list of operations")
        return patches.json_patch(old, cast("list[Object]", body))
    if not isinstance(body, dict):
        raise bad_request("error decoding patch: a merge patch is an object")
    change = cast("Object", body)
    if kind == _MERGE:
        return patches.merge_patch(old, change)
    if kind == _STRATEGIC:
        return patches.strategic_merge_patch(old, change)
    raise unsupported_media_type(kind, (_JSON, _MERGE, _STRATEGIC, _APPLY))


def _no_method() -> Refusal:
    return Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
