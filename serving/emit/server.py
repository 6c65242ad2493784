"""What is emitted, and from what: one model on one machine, with the folders and addresses that it has there."""

from dataclasses import dataclass, replace

from serving.accelerators import InstanceShape
from serving.engine.arguments import (
    EngineOptions,
    encoding_files,
    engine_arguments,
    engine_environment,
    model_environment,
)
from serving.errors import ConfigurationError, Fault
from serving.loading import LoadingPath
from serving.memory import EngineLimits, plan_memory
from serving.profiles import ModelProfile
from serving.service_plan import ServicePlan, plan_service
from serving.units import GIB, gb_text, gib_text, round_up

# What plan_service leaves of a machine's memory to the system, and what the engine takes beside the weights.
_SHARE_OF_MEMORY = 0.9
_BESIDE_WEIGHTS_BYTES = 160 * GIB
_LEAST_MULTI_GPU = 2
UNIT = "dormouse-vllm"


@dataclass(frozen=True)
class EmittedFile:
    """A file to put on the machine: its absolute path there (or a plain name), its text, its mode."""

    path: str
    text: str
    mode: int = 0o644


@dataclass(frozen=True)
class Machine:
    """The machine's own facts.

    - `weights_path`: the folder with the models' folders. `cache_path`: for compile caches; both absolute.
    - `vllm_command`: the installed `vllm`, where no container is used.
    - `listen`: the address that callers reach, `port` at which.
    - `memory_bytes`: of the machine; None where nobody said, and then enough is assumed and checked by the preflight.
    - `read_mib_per_s`: of the disk that holds the weights.
    """

    weights_path: str = "/srv/models"
    cache_path: str = "/var/cache/dormouse"
    vllm_command: str = "/opt/vllm/bin/vllm"
    listen: str = "127.0.0.1"
    port: int = 8080
    memory_bytes: int | None = None
    read_mib_per_s: int = 1000


@dataclass(frozen=True)
class OneServer:
    """One model served by one machine: the profile, the proven plan, the machine, and the user's own arguments."""

    model: ModelProfile
    shape: InstanceShape
    plan: ServicePlan
    machine: Machine
    extra_args: tuple[str, ...] = ()

    @property
    def weights_folder(self) -> str:
        """The model's own folder on the machine."""
        return f"{self.machine.weights_path}/{self.model.name}"

    @property
    def encodings(self) -> tuple[str, ...]:
        """Files in that folder that the engine reads and the model's repository does not hold."""
        return encoding_files(self.model)

    @property
    def joins_gpus(self) -> bool:
        """Whether the model is spread over several GPUs, whose links then matter."""
        return self.shape.gpus >= _LEAST_MULTI_GPU

    def arguments(self, weights_path: str, address: str, image_path: str | None = None) -> list[str]:
        """What stands behind `vllm serve`, with the weights below `weights_path`."""
        options = EngineOptions(extra=self.extra_args, weights_path=weights_path, address=address)
        if image_path is not None:
            options = replace(options, image_path=image_path)
        return engine_arguments(self.model, self.plan, options)

    def environment(self, weights_path: str, cache_path: str) -> dict[str, str]:
        """The environment of vLLM, without the key."""
        engine = engine_environment(self.plan, cache_path=cache_path)
        return {**engine, **model_environment(self.model, weights_path)}

    def headline(self) -> str:
        """One line for the head of every file."""
        limits = self.plan.memory.limits
        return (
            f"{self.model.title} ({gb_text(self.plan.memory.weights_bytes)}) on {self.shape.name}, tensor parallel "
            f"{self.plan.memory.tensor_parallel}, {limits.context_tokens:,} tokens, {limits.max_sequences} at once"
        )


def one_server(
    model: ModelProfile,
    shape: InstanceShape,
    limits: EngineLimits,
    machine: Machine,
    drain_s: int,
    extra_args: tuple[str, ...] = (),
    kv_offload_bytes: int = 0,
) -> OneServer:
    """The plan of one machine, read from its own disk.

    Raises DoesNotFitError as a stack's plan does, and ConfigurationError for a machine or a folder that cannot be.
    """
    faults = [
        Fault(name, text, "an absolute path without spaces")
        for name, text in (
            ("--weights", machine.weights_path),
            ("--cache", machine.cache_path),
            ("--vllm", machine.vllm_command),
        )
        # A unit file, a compose file and a shell all read such a path alike.
        if not text.startswith("/") or any(one.isspace() or one in "\"'\\$%:;&|<>`" for one in text)
    ]
    if faults:
        raise ConfigurationError(faults, "the command line")
    known = machine.memory_bytes or shape.memory_bytes
    if not known:
        weights = plan_memory(model, shape, limits).weights_bytes
        known = round_up((weights + _BESIDE_WEIGHTS_BYTES + kv_offload_bytes) / _SHARE_OF_MEMORY, 64 * GIB)
    rate = max(shape.ebs_mb_per_s, machine.read_mib_per_s * 2)
    seen = replace(shape, memory_bytes=known, ebs_mb_per_s=rate)
    plan = plan_service(model, seen, limits, machine.read_mib_per_s, drain_s, kv_offload_bytes)
    return OneServer(model, seen, replace(plan, loading=LoadingPath.VOLUME), machine, extra_args)


def first_steps(server: OneServer) -> list[str]:
    """What every way of running it needs before: weights that are whole, and a machine as it was planned."""
    weights = gb_text(server.plan.memory.weights_bytes)
    steps = [
        f"fill-weights.sh brings {weights} to {server.weights_folder}, proves every file, goes on where it stopped."
    ]
    if server.encodings:
        steps.append(
            f"Put {', '.join(server.encodings)} into {server.weights_folder} (docs/will-it-fit.md says from where)."
        )
    if not server.machine.memory_bytes and server.shape.memory_bytes:
        steps.append(
            f"The machine is taken to have {gib_text(server.shape.memory_bytes, 0)} of memory; the preflight looks."
        )
    return steps
