"""From a memory plan to everything that follows from it: start-up window, pod memory, volume size, drain.

One place derives these numbers; components and jobs carry them on and never compute them again.
"""

import math
from dataclasses import dataclass

from serving.accelerators import InstanceShape
from serving.errors import DoesNotFitError
from serving.loading import LoadingEstimate, LoadingPath
from serving.memory import EngineLimits, MemoryPlan, require_fit
from serving.profiles import ModelProfile
from serving.units import GIB, MIB, gib_text, round_up

# Compile, JIT of the expert kernels, graph capture and warm-up: 171 s with cold caches on H200 (vLLM 0.26); allowed
# five times that, since a probe that kills a start costs the whole start again.
_COMPILE_ALLOWANCE_S = 900
# vLLM reads safetensors through mmap from eight processes and misses the disk's ceiling; published loads took up to
# five times it, so the probe waits twice the ceiling and the estimate shown to people is the ceiling itself.
_READ_PATIENCE = 2
_COMPILE_ESTIMATE_S = 180
_SHARED_MEMORY_BYTES = 32 * GIB
_HOST_PROCESS_BYTES = 128 * GIB
_CACHE_BYTES = 40 * GIB
# Time for a load balancer and kube-proxy to take the pod out before vLLM is told to stop.
_DEREGISTER_S = 20
_AFTER_DRAIN_S = 60
_VOLUME_STEP_GIB = 50


@dataclass(frozen=True)
class ServicePlan:
    """Numbers that one replica is deployed with; all times in seconds.

    - `planned_load_s`: an estimate of the start: read the weights as `loading` does, then compile.
    - `startup_window_s`: how long the startup probe waits before it gives up.
    - `drain_s`: how long vLLM goes on answering after SIGTERM; `grace_s`: when Kubernetes kills it.
    - `pod_memory_bytes`: request and limit; the page cache of a whole load fits in it.
    """

    memory: MemoryPlan
    planned_load_s: int
    startup_window_s: int
    deregister_s: int
    drain_s: int
    grace_s: int
    pod_memory_bytes: int
    shared_memory_bytes: int
    loading: LoadingPath = LoadingPath.VOLUME


def plan_service(
    model: ModelProfile,
    shape: InstanceShape,
    limits: EngineLimits,
    volume_mib_per_s: int,
    drain_s: int,
    kv_offload_bytes: int = 0,
    loading: LoadingEstimate | None = None,
    nodes: int = 1,
) -> ServicePlan:
    """The plan for one replica that reads its weights at `volume_mib_per_s`; raises DoesNotFitError.

    - `kv_offload_bytes`: host memory that vLLM is asked to keep KV cache in; it lies in /dev/shm.
    - `loading`: the path that it loads by, with its own time; None reads the volume at its rate.
    - `nodes`: machines of the replica, each with a volume of its own to read from.
    """
    memory = require_fit(model, shape, limits, nodes)
    shared = _SHARED_MEMORY_BYTES + kv_offload_bytes
    most = int(shape.memory_bytes * 0.9) // GIB * GIB
    if shared + _HOST_PROCESS_BYTES > most:
        room = most - _SHARED_MEMORY_BYTES - _HOST_PROCESS_BYTES
        raise DoesNotFitError(
            f"{gib_text(kv_offload_bytes)} of KV cache in host memory do not fit on {shape.name}: beside the engine's"
            f" own processes a pod has {gib_text(max(0, room))} for it. What works: --kv-offloading-size="
            f"{max(0, room) // GIB} or less, or a machine with more memory"
        )
    rate = min(volume_mib_per_s * MIB, shape.ebs_mb_per_s * 10**6)
    read_s = memory.weights_bytes / rate if loading is None or loading.likely_s is None else loading.likely_s
    slow_s = 0.0 if loading is None or loading.slow_s is None else loading.slow_s
    wanted = memory.weights_bytes + shared + _HOST_PROCESS_BYTES
    return ServicePlan(
        memory=memory,
        planned_load_s=math.ceil(read_s + _COMPILE_ESTIMATE_S),
        startup_window_s=round_up(max(_READ_PATIENCE * read_s, slow_s) + _COMPILE_ALLOWANCE_S, 60),
        deregister_s=_DEREGISTER_S,
        drain_s=drain_s,
        grace_s=_DEREGISTER_S + drain_s + _AFTER_DRAIN_S,
        pod_memory_bytes=min(round_up(wanted, GIB), most),
        shared_memory_bytes=shared,
        loading=LoadingPath.VOLUME if loading is None else loading.path,
    )


def volume_size_gib(weights_bytes: int) -> int:
    """GiB of disk for the weights, 5 % for the file system, and the engine's compile caches."""
    return round_up((weights_bytes * 1.05 + _CACHE_BYTES) / GIB, _VOLUME_STEP_GIB)
