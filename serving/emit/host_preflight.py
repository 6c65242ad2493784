"""The script that looks at a machine before anything is installed on it: driver, GPUs, links, memory, disk, ports."""

import shlex
from importlib import resources

from serving.emit.server import EmittedFile, OneServer
from serving.emit.systemd import SYSCTLS
from serving.engine.arguments import ENGINE_PORT
from serving.service_plan import volume_size_gib
from serving.units import GIB, KIB, MIB

# vLLM 0.20 and newer are built for CUDA 13, which needs driver 580 (vLLM 0.20 release notes; CUDA 13 release notes).
LEAST_DRIVER, LEAST_CUDA = "580", "13.0"
# Boards of one kind report totals that differ by up to 0.1 GiB.
_BOARD_TOLERANCE_BYTES = 256 * MIB
_RESERVED_SHARE = 0.96
"""Of a machine's memory, what the kernel still reports as MemTotal at the least."""


def preflight_file(server: OneServer) -> EmittedFile:
    """The script, for POSIX sh with awk and coreutils; its remedies carry this plan's numbers."""
    source = (resources.files("serving") / "data" / "host_preflight.sh").read_text(encoding="utf-8")
    settings = "\n".join(
        f"    setting {name} {'-ge' if name.startswith('net.') else '-le'} {value} {shlex.quote(why)}"
        for name, value, why in SYSCTLS
    )
    machine = server.machine
    text = source.format(
        headline=server.headline(),
        gpus=server.plan.memory.gpus_per_node,
        gpu_mib=(server.shape.usable_bytes_per_gpu - _BOARD_TOLERANCE_BYTES) // MIB,
        driver=LEAST_DRIVER,
        cuda=LEAST_CUDA,
        memory_kib=int(server.plan.pod_memory_bytes * _RESERVED_SHARE) // KIB,
        shared_kib=server.plan.shared_memory_bytes // KIB,
        disk_kib=volume_size_gib(server.plan.memory.weights_bytes) * GIB // KIB,
        weights=shlex.quote(server.weights_folder),
        weights_root=shlex.quote(machine.weights_path),
        ports=f"{ENGINE_PORT} {machine.port}",
        sysctls=settings,
    )
    return EmittedFile("preflight.sh", text, 0o755)
