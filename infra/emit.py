"""From a stack file, or a model and a machine, to the files of `dormouse emit`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.environment import Environment, load
from infra.fit_question import limits_for
from infra.plan import read_stack_file, stack_name
from serving.emit.command import command_files, command_steps
from serving.emit.compose import compose_files, compose_steps
from serving.emit.host_preflight import preflight_file
from serving.emit.kubernetes import kubernetes_files, kubernetes_steps
from serving.emit.server import EmittedFile, Machine, OneServer, first_steps, one_server
from serving.emit.systemd import systemd_files, systemd_steps
from serving.emit.weights import fill_file
from serving.engine.extra_arguments import kv_offload_bytes
from serving.errors import ConfigurationError, Fault
from serving.fit.limits import KvCacheDtype
from serving.gpu_boxes import machine as machine_named
from serving.profiles import known_models, load_checkpoint, load_model

_WHERE = "the command line"


@dataclass(frozen=True)
class Emitted:
    """The files, what to do with them, and how many of the first are shown where they are printed."""

    kind: str
    headline: str
    files: tuple[EmittedFile, ...]
    steps: tuple[str, ...]
    printed: int

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON in camelCase; modes as octal text."""
        return {
            "kind": self.kind,
            "plan": self.headline,
            "files": [{"path": one.path, "mode": f"{one.mode:04o}", "text": one.text} for one in self.files],
            "steps": list(self.steps),
        }


def emit(kind: str, server: OneServer, namespace: str = "dormouse") -> Emitted:
    """The files of one kind: `systemd`, `compose`, `k8s`, `command` or `preflight`."""
    shared = [preflight_file(server)]
    steps = ["Run preflight.sh on the machine; it names what would stop it and what helps.", *first_steps(server)]
    match kind:
        case "systemd":
            files = systemd_files(server)
            printed, steps = len(files), [*steps, *systemd_steps(server)]
        case "compose":
            files, printed = compose_files(server), 1
            shared, steps = [*shared, fill_file(server)], [*steps, *compose_steps(server)]
        case "k8s":
            files, printed = kubernetes_files(server, namespace), 1
            # A pod mounts the folders `models` and `cache` of the volume.
            below = replace(
                server, machine=replace(server.machine, weights_path=f"{server.machine.weights_path}/models")
            )
            shared = [preflight_file(below), fill_file(below)]
            steps = [steps[0], *first_steps(below), *kubernetes_steps(server, namespace)]
        case "command":
            files, printed = command_files(server), 1
            shared, steps = [*shared, fill_file(server)], [*steps, *command_steps(server)]
        case _:
            files, shared, printed, steps = shared, [], 1, []
    return Emitted(kind, server.headline(), (*files, *shared), tuple(steps), printed)


def server_from_file(path: Path, machine: Machine) -> OneServer:
    """The server that a stack file describes, on one machine; raises ConfigurationError and DoesNotFitError."""
    from datetime import UTC, datetime

    values = read_stack_file(path)
    values.setdefault("apiKeySecret", {"secure": ""})
    return server_from_environment(load(stack_name(path), values, datetime.now(UTC).date(), str(path)), machine)


def server_from_environment(environment: Environment, machine: Machine) -> OneServer:
    """The same from a checked environment."""
    if environment.replicas.nodes > 1:
        raise ConfigurationError(
            [
                Fault(
                    "dormouse:nodesPerReplica",
                    str(environment.replicas.nodes),
                    "1; one machine is written, not several",
                )
            ],
            "the stack's configuration",
        )
    return one_server(
        environment.model,
        environment.shape,
        environment.limits,
        machine,
        environment.drain_s,
        environment.engine.added_args,
        kv_offload_bytes(environment.extra_args),
    )


def server_from_question(
    model: str,
    instance_type: str | None,
    machine: Machine,
    *,
    context: int | None = None,
    concurrency: int | None = None,
    kv_cache_dtype: KvCacheDtype = "auto",
    drain_s: int = 600,
) -> OneServer:
    """The server that the command line describes; raises ConfigurationError and DoesNotFitError."""
    faults: list[Fault] = []
    if model not in known_models():
        accepted = f"one of {', '.join(known_models())}, whose parsers and chat format are on record"
        faults.append(Fault("MODEL", model, accepted))
    if instance_type is None:
        faults.append(Fault("--instance-type", "nothing", "an EC2 type such as p5en.48xlarge, or GPUs as 8xH200"))
    if faults or instance_type is None:
        raise ConfigurationError(faults, _WHERE)
    limits = limits_for(load_checkpoint(model), context=context, concurrency=concurrency, kv_cache_dtype=kv_cache_dtype)
    return one_server(load_model(model), machine_named(instance_type), limits, machine, drain_s)
