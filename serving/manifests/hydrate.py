"""The suspended CronJob of each weight volume, from which a Job fills or checks it, and what such a pod may reach.

A CronJob that never fires is a Job's template kept in the cluster: `dormouse weights hydrate` makes a Job of it, and so
does a person, with `kubectl create job --from=cronjob/weights-us-east-2a by-hand`.
"""

from dataclasses import dataclass
from typing import Any

from serving.manifests.labels import GPU_TAINT_KEY, POOL_LABEL, PREFIX
from serving.manifests.nvme_copy import HYDRATOR_CONFIG_MAP, HYDRATOR_FILE
from serving.runtime import pinned_runtime
from serving.weights.marker import HYDRATOR_MOUNT_PATH, UNPROVEN_STATUS, VOLUME_SUB_PATH, hydrator_target

HYDRATOR_CONTAINER = "hydrator"
COMPONENT_LABEL = "app.kubernetes.io/component"
HYDRATOR_COMPONENT = "weights"
HYDRATOR_ACCOUNT = "weights-hydrator"
"""The service account of the pods; the role that may write the regional copy hangs on it."""
TOKEN_SECRET = "weights-source"  # noqa: S105 - the name of a Secret
TOKEN_FIELD = "HF_TOKEN"  # noqa: S105 - the name of its field
HYDRATE_TAINT_KEY = f"{PREFIX}/weights"
HYDRATE_TAINT_VALUE = "true"

# On the CronJob, for the jobs that work on the volume.
ZONE_ANNOTATION = f"{PREFIX}/zone"
VOLUME_ANNOTATION = f"{PREFIX}/volume-id"
NODE_GROUP_ANNOTATION = f"{PREFIX}/node-group"
BYTES_ANNOTATION = f"{PREFIX}/weights-bytes"
# On its pods: bytes ÷ the volume's throughput, the shortest that a download can take.
PLANNED_RUN_ANNOTATION = f"{PREFIX}/planned-run-s"

SLOWEST_BYTES_PER_S = 25_000_000
"""The rate below which a run is given up by its deadline: 595 GB then take 6.6 hours."""
_LEAST_DEADLINE_S = 7200
_KEPT_S = 7 * 86400
_RETRIES = 4
_WRONG_USAGE = 2


@dataclass(frozen=True)
class HydrateJob:
    """One volume and what fills it.

    - `name`: of the CronJob, such as `weights-us-east-2a`. `claim`: the volume's claim. `zone`: by name.
    - `model`: whose folder is filled. `source`, `revision`: as the hydrator reads them; "" is the default branch.
    - `weights_bytes`: of the checkpoint. `volume_mib_per_s`: of the volume.
    - `pool`: the node label's value that the pod selects. `on_gpu_node`: whether those nodes carry the GPU taint.
    - `endpoint`: a mirror of the hub; "" is the hub. `has_token`: whether `TOKEN_SECRET` exists.
    - `copy_to`: `s3://bucket/prefix` of the regional copy, "" for none; `region`: of the bucket.
    """

    name: str
    claim: Any
    zone: str
    model: str
    source: str
    revision: str
    weights_bytes: int
    volume_mib_per_s: int
    pool: str
    on_gpu_node: bool = False
    endpoint: str = ""
    has_token: bool = False
    copy_to: Any = ""
    region: str = ""

    @property
    def deadline_s(self) -> int:
        """When Kubernetes ends a run that gets nowhere; what it has downloaded stays for the next one."""
        return max(_LEAST_DEADLINE_S, self.weights_bytes // SLOWEST_BYTES_PER_S)

    @property
    def planned_run_s(self) -> int:
        """The shortest that the download can take: the volume writes no faster."""
        return -(-self.weights_bytes // (self.volume_mib_per_s * 2**20))


def hydrator_labels() -> dict[str, str]:
    """The labels of the CronJobs, their Jobs and pods, and of what belongs to them."""
    return {COMPONENT_LABEL: HYDRATOR_COMPONENT, "app.kubernetes.io/managed-by": "dormouse"}


def hydrate_cron_job(job: HydrateJob, namespace: Any, annotations: dict[str, Any]) -> dict[str, Any]:
    """The suspended CronJob; its date, 31 February, never comes even where somebody resumes it."""
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {
            "name": job.name,
            "namespace": namespace,
            "labels": hydrator_labels(),
            "annotations": {
                ZONE_ANNOTATION: job.zone,
                BYTES_ANNOTATION: str(job.weights_bytes),
                **annotations,
            },
        },
        "spec": {
            "schedule": "0 0 31 2 *",
            "suspend": True,
            "concurrencyPolicy": "Forbid",
            "jobTemplate": {"metadata": {"labels": hydrator_labels()}, "spec": _job_spec(job)},
        },
    }


def _job_spec(job: HydrateJob) -> dict[str, Any]:
    return {
        "backoffLimit": _RETRIES,
        "activeDeadlineSeconds": job.deadline_s,
        "ttlSecondsAfterFinished": _KEPT_S,
        # Wrong settings and wrong weights do not get better by trying again.
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {
                        "containerName": HYDRATOR_CONTAINER,
                        "operator": "In",
                        "values": [_WRONG_USAGE, UNPROVEN_STATUS],
                    },
                }
            ]
        },
        "template": {
            "metadata": {
                "labels": hydrator_labels(),
                "annotations": {PLANNED_RUN_ANNOTATION: str(job.planned_run_s)},
            },
            "spec": _pod(job),
        },
    }


def _pod(job: HydrateJob) -> dict[str, Any]:
    # The server reads as this user, so the files are its own.
    user = pinned_runtime().vllm_user_id
    taint = GPU_TAINT_KEY if job.on_gpu_node else HYDRATE_TAINT_KEY
    return {
        "restartPolicy": "Never",
        "serviceAccountName": HYDRATOR_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "nodeSelector": {POOL_LABEL: job.pool},
        "tolerations": [{"key": taint, "operator": "Exists", "effect": "NoSchedule"}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": user,
            "runAsGroup": user,
            "fsGroup": user,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": HYDRATOR_CONTAINER,
                "image": pinned_runtime().python_image,
                "command": ["python", f"/program/{HYDRATOR_FILE}"],
                "args": ["hydrate"],
                "env": _environment(job),
                "resources": {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"memory": "4Gi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "weights", "mountPath": HYDRATOR_MOUNT_PATH, "subPath": VOLUME_SUB_PATH},
                    {"name": "program", "mountPath": "/program", "readOnly": True},
                    {"name": "scratch", "mountPath": "/tmp"},
                ],
            }
        ],
        "volumes": [
            {"name": "weights", "persistentVolumeClaim": {"claimName": job.claim}},
            {"name": "program", "configMap": {"name": HYDRATOR_CONFIG_MAP}},
            {"name": "scratch", "emptyDir": {}},
        ],
    }


def _environment(job: HydrateJob) -> list[dict[str, Any]]:
    values: dict[str, Any] = {
        "DORMOUSE_SOURCE": job.source,
        "DORMOUSE_TARGET": hydrator_target(job.model),
        "PYTHONUNBUFFERED": "1",
    }
    if job.revision:
        values["DORMOUSE_REVISION"] = job.revision
    if job.endpoint:
        values["HF_ENDPOINT"] = job.endpoint
    if job.region:
        values["AWS_REGION"] = job.region
    if job.copy_to != "":
        values["DORMOUSE_COPY_TO"] = job.copy_to
    environment: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in values.items()]
    if job.has_token:
        reference = {"secretKeyRef": {"name": TOKEN_SECRET, "key": TOKEN_FIELD}}
        environment.append({"name": TOKEN_FIELD, "valueFrom": reference})
    return environment


def hydrator_config_map(namespace: Any, program_base64: str) -> dict[str, Any]:
    """The program as a ConfigMap; `program_base64` is the bundle, encoded."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": HYDRATOR_CONFIG_MAP, "namespace": namespace, "labels": hydrator_labels()},
        "binaryData": {HYDRATOR_FILE: program_base64},
    }


def hydrator_service_account(namespace: Any) -> dict[str, Any]:
    """The pods' service account; it may do nothing in the cluster."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": HYDRATOR_ACCOUNT, "namespace": namespace, "labels": hydrator_labels()},
        "automountServiceAccountToken": False,
    }


def hydrator_token_secret(namespace: Any, token: Any) -> dict[str, Any]:
    """The hub's token as a Secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": TOKEN_SECRET, "namespace": namespace, "labels": hydrator_labels()},
        "type": "Opaque",
        "stringData": {TOKEN_FIELD: token},
    }


def hydrator_network_policy(namespace: Any) -> dict[str, Any]:
    """Nobody may connect to the pods; they may ask DNS, TLS hosts and the node's Pod Identity agent."""
    dns = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    agent = {"ipBlock": {"cidr": "169.254.170.23/32"}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": HYDRATOR_ACCOUNT, "namespace": namespace, "labels": hydrator_labels()},
        "spec": {
            "podSelector": {"matchLabels": {COMPONENT_LABEL: HYDRATOR_COMPONENT}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [],
            "egress": [
                {"to": [dns], "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
                {"ports": [{"port": 443, "protocol": "TCP"}]},
                {"to": [agent], "ports": [{"port": 80, "protocol": "TCP"}]},
            ],
        },
    }
