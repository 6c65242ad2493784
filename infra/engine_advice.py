"""Which engine is right for given hardware, in words. What Dormouse deploys is vLLM; where that is wrong, it says so.

vLLM wants every weight in GPU memory and answers many callers at once. llama.cpp can leave the experts in host memory
and answers few. The figures about llama.cpp here are estimates from bits and bandwidth; nothing of it was measured.
"""

import re
from dataclasses import dataclass

from serving.accelerators import InstanceShape
from serving.checkpoint.model import CheckpointModel
from serving.checkpoint.weights import Kind
from serving.errors import ConfigurationError, Fault
from serving.gpu_boxes import machine
from serving.units import GB, GIB, gb_text, gib_text

# Bits a weight of llama.cpp's usual files, their scales included.
_FOUR_BIT, _TWO_BIT = 4.85, 2.9
# Twelve channels of DDR5-4800: what a current server's memory gives at best.
_SERVER_MEMORY_BYTES_PER_S = 460 * GB
_OLDEST_CAPABILITY = 8.0
_HOST_SHARE = 0.9


@dataclass(frozen=True)
class Hardware:
    """What somebody has: GPUs (None for none), and memory that weights may also lie in.

    - `host_memory_bytes`: RAM, 0 where nothing was said of it. `unified`: one memory for both, as Apple's.
    """

    text: str
    shape: InstanceShape | None
    host_memory_bytes: int
    unified: bool = False

    @property
    def gpu_memory_bytes(self) -> int:
        """Usable memory of all GPUs together."""
        return 0 if self.shape is None else self.shape.gpus * self.shape.usable_bytes_per_gpu


@dataclass(frozen=True)
class EngineAdvice:
    """The engine that fits the hardware, and why; `vllm` is False where it is not what Dormouse deploys."""

    engine: str
    reason: str
    vllm: bool


def read_hardware(text: str, host_memory_gib: int | None = None) -> Hardware:
    """`2xA100-80`, `p5.48xlarge`, `cpu-768` (a server with 768 GiB and no GPU) or `mac-512` (unified memory in GiB).

    Raises ConfigurationError on anything else.
    """
    found = re.fullmatch(r"(cpu|mac)-(\d{1,5})", text.strip().lower())
    if found:
        return Hardware(text.strip(), None, int(found[2]) * GIB, unified=found[1] == "mac")
    try:
        shape = machine(text)
    except ConfigurationError as error:
        accepted = error.faults[0].accepted + "; cpu-768 or mac-512 for GiB of memory without such GPUs"
        raise ConfigurationError([Fault("--hardware", repr(text), accepted)], "the command line") from error
    host = shape.memory_bytes if host_memory_gib is None else host_memory_gib * GIB
    return Hardware(shape.name, shape, host)


def active_parameters(model: CheckpointModel) -> int:
    """Parameters that one token's computation reads: everything but the experts that it is not sent to."""
    total = 0.0
    for tensor in model.tensors:
        if tensor.kind in (Kind.VISION, Kind.DRAFT, Kind.EMBEDDING):
            continue
        if tensor.kind in (Kind.ROUTED_EXPERTS, Kind.EXPERT_SCALES) and model.experts:
            total += tensor.parameters * model.experts_per_token / model.experts
        else:
            total += tensor.parameters
    return int(total)


def advise(model: CheckpointModel, title: str, hardware: Hardware, *, held: int, concurrency: int) -> EngineAdvice:
    """The engine for `model` on `hardware`; `held` is how many requests the plan for vLLM holds at once at most."""
    if hardware.unified:
        return _llama(model, hardware, "vLLM's CUDA kernels do not run on Apple's GPUs", concurrency)
    if hardware.shape is None:
        return _llama(model, hardware, "there is no GPU, and vLLM is made for GPUs", concurrency)
    if hardware.shape.compute_capability < _OLDEST_CAPABILITY:
        why = (
            f"{hardware.shape.gpu} has compute capability {hardware.shape.compute_capability:g}: no BF16, and vLLM's"
            " kernels for quantised experts and for its attention want 8.0 or newer"
        )
        return _llama(model, hardware, why, concurrency)
    if 0 < held < concurrency:
        reason = (
            f"{title} lies in the GPUs' memory of {hardware.text} with room for {held:,} at once, fewer than the"
            f" {concurrency:,} that were asked for; llama.cpp would answer fewer still"
        )
        return EngineAdvice("vLLM", reason, vllm=True)
    if held:
        reason = (
            f"every weight of {title} lies in the GPUs' memory of {hardware.text}, so requests are batched at full speed;"
            " llama.cpp would gain nothing here"
        )
        return EngineAdvice("vLLM", reason, vllm=True)
    why = (
        f"vLLM wants all {gb_text(model.total_bytes)} in GPU memory and {hardware.text} has"
        f" {gib_text(hardware.gpu_memory_bytes)} of it"
        if hardware.gpu_memory_bytes < model.total_bytes
        else f"{hardware.text} has no room for the KV cache beside the weights in vLLM"
    )
    return _llama(model, hardware, why, concurrency)


def _llama(model: CheckpointModel, hardware: Hardware, why: str, concurrency: int) -> EngineAdvice:
    loaded = sum(tensor.parameters for tensor in model.tensors if tensor.kind is not Kind.DRAFT)
    room = hardware.gpu_memory_bytes + hardware.host_memory_bytes * _HOST_SHARE
    four, two = loaded * _FOUR_BIT / 8, loaded * _TWO_BIT / 8
    bits = _FOUR_BIT if room >= four else _TWO_BIT
    if room < two:
        more = (two - room) / (1 if hardware.shape else _HOST_SHARE)
        unsaid = (
            " (host memory was not given: --host-memory GIB)"
            if hardware.shape and not hardware.host_memory_bytes
            else ""
        )
        reason = (
            f"{why}. llama.cpp, which can keep experts in host memory, needs about {gib_text(two, 0)} for a file of"
            f" about {_TWO_BIT:g} bits a weight and {gib_text(four, 0)} for {_FOUR_BIT:g} (estimates): {gib_text(more, 0)} more than there"
            f" is{unsaid}"
        )
        return EngineAdvice("none", reason, vllm=False)
    size = two if bits == _TWO_BIT else four
    where = "in the GPUs and host memory together" if hardware.shape is not None else "in memory"
    parts = [f"{why}. llama.cpp holds a file of about {bits:g} bits a weight, {gib_text(size, 0)} (estimate), {where}"]
    if not hardware.unified and hardware.gpu_memory_bytes < size:
        read = active_parameters(model) * bits / 8
        rate = _SERVER_MEMORY_BYTES_PER_S / read
        parts.append(
            f"a token then reads about {read / GB:.0f} GB, which a server of twelve memory channels gives at most"
            f" {rate:.0f} times a second to all callers together (estimate)"
        )
    if bits == _TWO_BIT:
        parts.append("so few bits cost quality that can be noticed")
    if concurrency > 4:
        parts.append(f"it is right for a few callers, not for the {concurrency} at once that were asked for")
    return EngineAdvice("llama.cpp", "; ".join(parts), vllm=False)
