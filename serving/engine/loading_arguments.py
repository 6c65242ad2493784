"""The flags and the environment that make vLLM load by the chosen path.

Checked against vLLM 0.32: the streamer takes `distributed`, `concurrency` and `memory_limit` and refuses other keys;
with HF_HUB_OFFLINE an `s3://` address is left to the streamer; it keeps the small files below VLLM_ASSETS_CACHE.
"""

import json
import math
from collections.abc import Sequence

from serving.engine.extra_arguments import given_flags
from serving.loading import LoadingPath, S3Source
from serving.units import GB

LOADING_FLAGS = frozenset({"--load-format", "--model-loader-extra-config", "--safetensors-load-strategy"})
"""Flags by which a user's own arguments take the loader over; then none of these is added."""
_STREAM_CHUNK_BYTES = 4 * GB
"""Bytes of one reader's share: concurrency is size divided by 4 GB (EKS user guide, AI/ML, streamer tuning)."""
_MOST_READERS = 256


def loading_arguments(path: LoadingPath, weights_bytes: int, extra: Sequence[str] = ()) -> list[str]:
    """Flags for `path`, none where `extra` chooses a loader itself; a local disk is best left to vLLM's default."""
    if given_flags(extra) & LOADING_FLAGS:
        return []
    if path is LoadingPath.VOLUME_PREFETCH:
        return ["--safetensors-load-strategy=prefetch"]
    if path in (LoadingPath.VOLUME_STREAMER, LoadingPath.S3_STREAMER):
        # Without `distributed` every rank reads the whole checkpoint: eight times the bytes.
        readers = min(_MOST_READERS, max(1, math.ceil(weights_bytes / _STREAM_CHUNK_BYTES)))
        settings = json.dumps({"concurrency": readers, "distributed": True}, separators=(",", ":"))
        return ["--load-format=runai_streamer", f"--model-loader-extra-config={settings}"]
    return []


def loading_environment(path: LoadingPath, s3: S3Source | None, cache_path: str) -> dict[str, str]:
    """Variables for `path`: where S3 is, and a writable place for the small files; credentials come by Pod Identity."""
    if path is not LoadingPath.S3_STREAMER or s3 is None:
        return {}
    return {
        "AWS_REGION": s3.region,
        "AWS_DEFAULT_REGION": s3.region,
        "VLLM_ASSETS_CACHE": f"{cache_path}/assets",
    }
