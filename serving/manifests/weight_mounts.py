"""What a pod mounts for its weights and its compile caches, by loading path."""

from typing import Any

from serving.engine.arguments import encoding_files
from serving.engine_args import CACHE_PATH, WEIGHTS_PATH
from serving.errors import ConfigurationError, Fault
from serving.loading import COPIES_TO_NVME, READS_S3, LoadingPath, S3Source
from serving.manifests.nvme_copy import LOCAL_VOLUME, copy_container, hydrator_volume, local_volume
from serving.profiles import ModelProfile
from serving.runtime import pinned_runtime
from serving.service_plan import ServicePlan
from serving.weights.marker import CHECK_CONTAINER, VOLUME_SUB_PATH, ExpectedWeights, check_command
from serving.weights.sources import WeightSource

_CACHE_VOLUME = "cache"
_VOLUME_MOUNT = {"name": "weights", "mountPath": WEIGHTS_PATH, "subPath": VOLUME_SUB_PATH, "readOnly": True}


def weight_volumes(plan: ServicePlan, claim: str | None, s3: S3Source | None) -> list[dict[str, Any]]:
    """The pod's volumes for weights and caches.

    Compile and JIT caches lie on the weight volume where the zone has one, also when the weights come from S3, and so
    outlive the node; without a volume they lie on the node and each wake compiles anew.

    Raises ConfigurationError where the path reads a volume or an S3 copy that is not there.
    """
    if plan.loading in READS_S3 and s3 is None:
        _refuse(plan.loading, "the regional copy in S3 (weightsS3Copy: true)")
    if plan.loading not in READS_S3 and claim is None:
        _refuse(plan.loading, "a claim; without one only s3-streamer and nvme-copy-s3 can load")
    volumes: list[dict[str, Any]] = (
        [{"name": _CACHE_VOLUME, "emptyDir": {}}]
        if claim is None
        else [{"name": "weights", "persistentVolumeClaim": {"claimName": claim}}]
    )
    if plan.loading in COPIES_TO_NVME:
        volumes.append(local_volume(plan.memory.weights_bytes))
    if plan.loading is LoadingPath.NVME_COPY_S3:
        volumes.append(hydrator_volume())
    return volumes


def weight_mounts(plan: ServicePlan, claim: str | None) -> list[dict[str, Any]]:
    """The engine container's mounts for weights (none when they are streamed from S3) and caches."""
    mounts: list[dict[str, Any]] = []
    if plan.loading in COPIES_TO_NVME:
        mounts.append({"name": LOCAL_VOLUME, "mountPath": WEIGHTS_PATH, "readOnly": True})
    elif plan.loading is not LoadingPath.S3_STREAMER:
        mounts.append(_VOLUME_MOUNT)
    if claim is None:
        return [*mounts, {"name": _CACHE_VOLUME, "mountPath": CACHE_PATH}]
    return [*mounts, {"name": "weights", "mountPath": CACHE_PATH, "subPath": "cache"}]


def weight_containers(plan: ServicePlan, model: ModelProfile, s3: S3Source | None) -> list[dict[str, Any]]:
    """Init containers that must end before vLLM reads: the copy to the node's disk, for the paths that make one."""
    return [copy_container(plan.loading, model, s3)] if plan.loading in COPIES_TO_NVME else []


def check_containers(plan: ServicePlan, model: ModelProfile, source: WeightSource | None) -> list[dict[str, Any]]:
    """The init container that refuses a volume whose weights are not proven; none where nothing is read from one.

    - `source`: what the volume has to hold, None for any. Its revision counts where it is a commit: a branch moves on, and
      what the volume holds of it stays proven.
    """
    if plan.loading in READS_S3:
        return []
    address, revision = (source.address, source.revision if source.pinned else "") if source else ("", "")
    return [
        {
            "name": CHECK_CONTAINER,
            # The engine's own image is on the node anyway.
            "image": pinned_runtime().vllm_image,
            "command": check_command(
                ExpectedWeights(f"{WEIGHTS_PATH}/{model.name}", address, revision, encoding_files(model))
            ),
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [_VOLUME_MOUNT],
        }
    ]


def _refuse(path: LoadingPath, needs: str) -> None:
    raise ConfigurationError([Fault("loading path", path, f"{needs}, or another path")], "the Deployment")
