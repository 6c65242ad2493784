"""The init container that brings the weights to the node's NVMe array before vLLM starts, from the volume or from S3."""

from typing import Any

from serving.engine_args import WEIGHTS_PATH
from serving.loading import LoadingPath, S3Source
from serving.profiles import ModelProfile
from serving.runtime import pinned_runtime

LOCAL_VOLUME = "local-weights"
"""The pod's emptyDir: kubelet's folder lies on the array (NodeConfig, RAID0)."""
HYDRATOR_CONFIG_MAP = "weights-hydrator"
"""The ConfigMap that holds the hydrator's bundle, under `HYDRATOR_FILE`."""
HYDRATOR_FILE = "hydrator.pyz"
_SOURCE_PATH = "/volume"
_COPIES_AT_ONCE = 16
# One shard a process; xargs ends with 123 when any copy fails, and the pod then starts again instead of serving half.
COPY_SCRIPT = f"""\
set -eu
from=$1 to=$2
[ -d "$from" ] || {{ echo "nvme-copy: $from is not on the volume; dormouse weights hydrate fills it" >&2; exit 1; }}
mkdir -p "$to"
cd "$from"
find . -type d -exec mkdir -p "$to/{{}}" ';'
find . -type f -print0 | xargs -0 -P {_COPIES_AT_ONCE} -I @ cp -- @ "$to/@"
echo "nvme-copy: $(find . -type f | wc -l) files are on the node's disk"
"""


def local_volume(weights_bytes: int) -> dict[str, Any]:
    """The emptyDir for the weights; a twentieth more than them, so that a runaway copy ends the pod and not the node."""
    return {"name": LOCAL_VOLUME, "emptyDir": {"sizeLimit": f"{-(-weights_bytes * 21 // 20 // 2**30)}Gi"}}


def copy_container(path: LoadingPath, model: ModelProfile, s3: S3Source | None) -> dict[str, Any]:
    """The container for `nvme-copy` and `nvme-copy-s3`; it writes below `WEIGHTS_PATH` of `LOCAL_VOLUME`.

    From S3 it is the hydrator, which checks every file's SHA-256; from the volume, whose files were checked, `cp`.
    """
    target = f"{WEIGHTS_PATH}/{model.name}"
    common: dict[str, Any] = {
        "name": "nvme-copy",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    local = {"name": LOCAL_VOLUME, "mountPath": WEIGHTS_PATH}
    if path is LoadingPath.NVME_COPY_S3 and s3 is not None:
        variables = {
            "DORMOUSE_MODE": "hydrate",
            "DORMOUSE_SOURCE": s3.uri,
            "DORMOUSE_TARGET": target,
            "AWS_REGION": s3.region,
        }
        return {
            **common,
            "image": pinned_runtime().python_image,
            "command": ["python", f"/program/{HYDRATOR_FILE}"],
            "env": [{"name": name, "value": value} for name, value in variables.items()],
            "resources": {"requests": {"cpu": "16", "memory": "8Gi"}},
            "volumeMounts": [local, {"name": "hydrator", "mountPath": "/program", "readOnly": True}],
        }
    return {
        **common,
        # The engine's own image is on the node anyway.
        "image": pinned_runtime().vllm_image,
        "command": ["sh", "-c", COPY_SCRIPT, "nvme-copy", f"{_SOURCE_PATH}/{model.name}", target],
        "resources": {"requests": {"cpu": "16", "memory": "8Gi"}},
        "volumeMounts": [
            local,
            {"name": "weights", "mountPath": _SOURCE_PATH, "subPath": "models", "readOnly": True},
        ],
    }


def hydrator_volume() -> dict[str, Any]:
    """The volume that `copy_container` runs the hydrator from."""
    return {"name": "hydrator", "configMap": {"name": HYDRATOR_CONFIG_MAP}}
