"""The Kubernetes minors that may be deployed, and the add-ons pinned for each, as dated data."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import Any, cast


@dataclass(frozen=True)
class KubernetesMinor:
    """One EKS minor: the last day of standard support and the pinned add-on versions."""

    version: str
    standard_support_ends: date
    addon_versions: Mapping[str, str]


@cache
def kubernetes_minors() -> Mapping[str, KubernetesMinor]:
    """Every minor with pinned add-ons, newest first."""
    text = (resources.files("infra") / "data" / "versions.toml").read_text(encoding="utf-8")
    minors: dict[str, KubernetesMinor] = {}
    for version, entry in tomllib.loads(text).items():
        if isinstance(entry, dict):
            row = cast("dict[str, Any]", entry)
            minors[version] = KubernetesMinor(version, row["standard_support_ends"], row["addons"])
    return minors


def default_kubernetes_version() -> str:
    """The newest minor."""
    return next(iter(kubernetes_minors()))
