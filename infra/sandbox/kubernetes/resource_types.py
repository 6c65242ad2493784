"""The kinds that the stand-in knows, and how a URL names them."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ResourceType:
    """One kind of object.

    - `group`: `apps`, or empty for the core.
    - `version`: the one version that is served, such as `v1`.
    - `plural`: the URL's word; `kind`: the object's.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    custom: bool = field(default=False, compare=False)

    @property
    def api_version(self) -> str:
        """`v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> tuple[str, str]:
        """Where the store keeps them: all versions of a kind together."""
        return self.group, self.plural

    @property
    def qualified_plural(self) -> str:
        """`pods` or `deployments.apps`, as messages write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """`Pod` or `Deployment.apps`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def _types(group: str, version: str, namespaced: bool, **kinds: str) -> list[ResourceType]:
    return [ResourceType(group, version, plural, kind, namespaced) for plural, kind in kinds.items()]


BUILT_IN: tuple[ResourceType, ...] = (
    *_types(
        "",
        "v1",
        True,
        pods="Pod",
        services="Service",
        secrets="Secret",
        configmaps="ConfigMap",
        serviceaccounts="ServiceAccount",
        persistentvolumeclaims="PersistentVolumeClaim",
        events="Event",
        endpoints="Endpoints",
        resourcequotas="ResourceQuota",
        limitranges="LimitRange",
    ),
    *_types("", "v1", False, namespaces="Namespace", nodes="Node", persistentvolumes="PersistentVolume"),
    *_types("apps", "v1", True, deployments="Deployment", daemonsets="DaemonSet", replicasets="ReplicaSet"),
    *_types("apps", "v1", True, statefulsets="StatefulSet"),
    *_types("batch", "v1", True, jobs="Job", cronjobs="CronJob"),
    *_types("networking.k8s.io", "v1", True, networkpolicies="NetworkPolicy", ingresses="Ingress"),
    *_types("networking.k8s.io", "v1", False, ingressclasses="IngressClass"),
    *_types("policy", "v1", True, poddisruptionbudgets="PodDisruptionBudget"),
    *_types("rbac.authorization.k8s.io", "v1", True, roles="Role", rolebindings="RoleBinding"),
    *_types(
        "rbac.authorization.k8s.io", "v1", False, clusterroles="ClusterRole", clusterrolebindings="ClusterRoleBinding"
    ),
    *_types("coordination.k8s.io", "v1", True, leases="Lease"),
    *_types("storage.k8s.io", "v1", False, storageclasses="StorageClass", volumeattachments="VolumeAttachment"),
    *_types("storage.k8s.io", "v1", False, csidrivers="CSIDriver", csinodes="CSINode"),
    *_types("scheduling.k8s.io", "v1", False, priorityclasses="PriorityClass"),
    *_types("apiextensions.k8s.io", "v1", False, customresourcedefinitions="CustomResourceDefinition"),
)

_BY_PATH = {(kind.group, kind.version, kind.plural): kind for kind in BUILT_IN}
_BUILT_IN_GROUPS = {kind.group for kind in BUILT_IN}

PODS = _BY_PATH["", "v1", "pods"]
NODES = _BY_PATH["", "v1", "nodes"]
NAMESPACES = _BY_PATH["", "v1", "namespaces"]
SERVICES = _BY_PATH["", "v1", "services"]
ENDPOINTS = _BY_PATH["", "v1", "endpoints"]
EVENTS = _BY_PATH["", "v1", "events"]
SERVICE_ACCOUNTS = _BY_PATH["", "v1", "serviceaccounts"]
VOLUMES = _BY_PATH["", "v1", "persistentvolumes"]
CLAIMS = _BY_PATH["", "v1", "persistentvolumeclaims"]
DEPLOYMENTS = _BY_PATH["apps", "v1", "deployments"]
DAEMON_SETS = _BY_PATH["apps", "v1", "daemonsets"]
JOBS = _BY_PATH["batch", "v1", "jobs"]
DISRUPTION_BUDGETS = _BY_PATH["policy", "v1", "poddisruptionbudgets"]
STORAGE_CLASSES = _BY_PATH["storage.k8s.io", "v1", "storageclasses"]
VOLUME_ATTACHMENTS = _BY_PATH["storage.k8s.io", "v1", "volumeattachments"]


def resource_type(group: str, version: str, plural: str, namespaced: bool) -> ResourceType | None:
    """The kind that a URL means, or None where no API server has it.

    A group of somebody's own, such as `karpenter.sh`, is taken as a custom resource; its kind is then guessed until
    an object tells it.
    """
    known = _BY_PATH.get((group, version, plural))
    if known:
        return known
    if group in _BUILT_IN_GROUPS or "." not in group or group.endswith(".k8s.io"):
        return None
    singular = plural.removesuffix("s")
    return ResourceType(group, version, plural, singular[:1].upper() + singular[1:], namespaced, custom=True)
