"""What clients ask to learn which kinds there are."""

from typing import Any

from infra.sandbox.kubernetes.resource_types import BUILT_IN

Object = dict[str, Any]

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SHORT_NAMES = {
    "configmaps": ["cm"],
    "daemonsets": ["ds"],
    "deployments": ["deploy"],
    "namespaces": ["ns"],
    "nodes": ["no"],
    "persistentvolumeclaims": ["pvc"],
    "persistentvolumes": ["pv"],
    "pods": ["po"],
    "services": ["svc"],
}
_SUBRESOURCES = {
    "deployments": ("scale", "status"),
    "pods": ("eviction", "log", "proxy", "status"),
    "services": ("proxy",),
}


def version_page(version: str) -> Object:
    """`/version`."""
    major, minor = version.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{version}.0-simulated",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "simulated",
    }


def discovery_page(parts: tuple[str, ...]) -> Object | None:
    """`/api`, `/apis`, `/api/v1`, `/apis/GROUP` and `/apis/GROUP/VERSION`; None for any other path."""
    match parts:
        case ("api",):
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ("apis",):
            groups = sorted({(kind.group, kind.version) for kind in BUILT_IN if kind.group})
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*group) for group in groups]}
        case ("api", "v1"):
            return _resources("", "v1")
        case ("apis", group):
            versions = sorted({kind.version for kind in BUILT_IN if kind.group == group})
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions[0])} if versions else None
        case ("apis", group, version) if any((kind.group, kind.version) == (group, version) for kind in BUILT_IN):
            return _resources(group, version)
        case _:
            return None


def _group(group: str, version: str) -> Object:
    offered = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [offered], "preferredVersion": offered}


def _resources(group: str, version: str) -> Object:
    resources: list[Object] = []
    for kind in BUILT_IN:
        if (kind.group, kind.version) != (group, version):
            continue
        entry: Object = {"name": kind.plural, "singularName": kind.kind.lower(), "namespaced": kind.namespaced}
        entry |= {"kind": kind.kind, "verbs": _VERBS, "shortNames": _SHORT_NAMES.get(kind.plural, [])}
        resources.append(entry)
        for sub in _SUBRESOURCES.get(kind.plural, ()):
            name = f"{kind.plural}/{sub}"
            resources.append({**entry, "name": name, "shortNames": [], "verbs": ["get", "patch", "update"]})
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}
