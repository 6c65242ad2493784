"""Whether EKS still supports the Kubernetes version, and still has the pinned add-ons."""

from datetime import timedelta
from typing import Any

from botocore.exceptions import ClientError

from infra.preflight.findings import Finding, ok, stops, warning
from infra.preflight.question import Question
from infra.versions import kubernetes_minors

_SOON = timedelta(days=60)


def kubernetes(question: Question) -> list[Finding]:
    """The end of standard support, by EKS itself where it says so, else by the dated table."""
    version = question.environment.kubernetes_version
    ends, source = kubernetes_minors()[version].standard_support_ends, "the dated table of this release"
    try:
        listed = question.account.client("eks").describe_cluster_versions(clusterVersions=[version])["clusterVersions"]
        if listed and listed[0].get("endOfStandardSupportDate"):
            ends, source = listed[0]["endOfStandardSupportDate"].date(), "EKS"
    except ClientError:
        # The table answers where EKS may not be asked.
        pass
    left = ends - question.clock.now().date()
    words = f"Kubernetes {version}: standard support ends {ends} ({source})"
    if left.days < 0:
        newer = ", ".join(kubernetes_minors())
        return [
            stops("kubernetes", f"{words}; the cluster would cost six times as much", f"kubernetesVersion: {newer}")
        ]
    if left < _SOON:
        return [warning("kubernetes", words, "plan the upgrade: dormouse:kubernetesVersion", ends=ends.isoformat())]
    return [ok("kubernetes", words, ends=ends.isoformat())]


def addons(question: Question) -> list[Finding]:
    """Whether EKS lists every pinned add-on version for this Kubernetes version."""
    version = question.environment.kubernetes_version
    pinned = kubernetes_minors()[version].addon_versions
    listed: dict[str, list[str]] = {}
    pages = question.account.client("eks").get_paginator("describe_addon_versions")
    for page in pages.paginate(kubernetesVersion=version):
        for addon in page["addons"]:
            versions: list[dict[str, Any]] = addon["addonVersions"]
            listed.setdefault(str(addon["addonName"]), []).extend(str(one["addonVersion"]) for one in versions)
    missing = {name: wanted for name, wanted in pinned.items() if wanted not in listed.get(name, [])}
    if not missing:
        return [ok("addons", f"all {len(pinned)} pinned add-ons are in EKS's catalogue for {version}")]
    return [
        stops(
            "addons",
            f"EKS no longer lists {name} {wanted} for {version}; it lists {', '.join(listed.get(name, [])[:3]) or 'none'}",
            "a newer release of Dormouse pins newer add-ons",
        )
        for name, wanted in missing.items()
    ]
