"""Faults of Kubernetes manifests of a model server: what keeps it from starting, from stopping well, from being safe."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from serving.diagnosis.advice import model_of
from serving.diagnosis.checks import found
from serving.diagnosis.command import diagnose_arguments
from serving.diagnosis.command_text import Command, layout_of
from serving.diagnosis.finding import Evidence, Finding
from serving.diagnosis.workload import (
    Object,
    Workload,
    child,
    flatten,
    number,
    objects,
    quantity_bytes,
    serve_arguments,
    texts,
    workloads,
)
from serving.profiles import ModelProfile
from serving.service_plan import volume_size_gib
from serving.units import GIB, duration_text, gib_text

# What a pod may set for itself (Kubernetes, "Using sysctls"); everything else belongs to the node.
_SAFE_SYSCTLS = re.compile(
    r"kernel\.shm_rmid_forced|net\.ipv4\.(?:ip_local_port_range|tcp_syncookies|ping_group_range|ip_unprivileged_port_start"
    r"|ip_local_reserved_ports|tcp_keepalive_time|tcp_fin_timeout|tcp_keepalive_intvl|tcp_keepalive_probes|tcp_rmem|tcp_wmem)"
)
_OWN_SYSCTLS = re.compile(r"kernel\.(?:shm|msg|sem)|fs\.mqueue\.|net\.")
_SECRET_NAME = re.compile(r"(?:^|_)(?:API_?KEY|TOKEN|PASSWORD|SECRET)(?:$|_)", re.IGNORECASE)
# Weights and beside them the host memory of the engine's processes and of shared memory (serving/service_plan.py).
_HOST_BYTES = 160 * GIB
# What the slowest medium of a sound deployment gives: a gp3 volume as it comes, and a copy on local disks.
_DEFAULT_VOLUME_BYTES_PER_S = 1000 * (1 << 20)
_COMPILE_S = 180
_ALLOWED_START = 2
_SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108 - a mount point, nothing is written there


@dataclass(frozen=True)
class _Server:
    """A workload that runs vLLM: its container, its arguments, its model where it is a known one."""

    workload: Workload
    path: str
    container: Object
    arguments: tuple[str, ...]
    model: ModelProfile | None

    @property
    def gpus(self) -> int:
        resources = child(self.container, "resources")
        limits = child(resources, "limits") or child(resources, "requests")
        return number(limits, "nvidia.com/gpu", 0)

    @property
    def command(self) -> Command:
        return Command(self.arguments, self.arguments, str(self.container.get("image", "")), "")


def diagnose_manifest(documents: Sequence[object]) -> tuple[Finding, ...]:
    """Everything wrong or risky in parsed manifests, errors first; empty where nothing is, or none runs vLLM."""
    given = flatten(documents)
    servers = [server for one in workloads(given) if (server := _server(one)) is not None]
    findings: list[Finding] = []
    for one in workloads(given):
        findings += _sysctls(one)
    for server in servers:
        findings += [
            *_probes(server),
            *_resources(server),
            *_strategy(server),
            *_network(server, given),
            *_stopping(server),
            *_secrets(server),
            *_volumes(server, given),
            *_arguments(server),
        ]
    return tuple(sorted(findings, key=lambda one: one.severity == "warning"))


def _server(workload: Workload) -> _Server | None:
    engine = workload.engine
    if engine is None:
        return None
    path, container = engine
    arguments = tuple(serve_arguments(container))
    command = Command(arguments, arguments, "", "")
    return _Server(workload, path, container, arguments, model_of({"model": command.model}))


def _probes(server: _Server) -> Iterator[Finding]:
    startup, liveness = child(server.container, "startupProbe"), child(server.container, "livenessProbe")
    needed_s = _start_s(server.model)
    name, probe = ("startupProbe", startup) if startup else ("livenessProbe", liveness)
    if not probe:
        return
    period, failures = number(probe, "periodSeconds", 10), number(probe, "failureThreshold", 3)
    window_s = number(probe, "initialDelaySeconds", 0) + period * failures
    if window_s < needed_s:
        yield found(
            "manifest-probe-window",
            f"{server.path}.{name}",
            f"initialDelaySeconds + {period} s × {failures}",
            probe=name,
            window=duration_text(window_s),
            needed=f"about {duration_text(needed_s)}",
            estimate=f" ({server.model.title} at 1,000 MiB/s, then compiling)"
            if server.model
            else " at the very least",
            wanted=duration_text(_ALLOWED_START * needed_s),
        )
    elif not startup:
        yield found(
            "manifest-no-startup-probe", f"{server.path}.livenessProbe", f"{window_s} s until the first verdict"
        )


def _start_s(model: ModelProfile | None) -> int:
    """Seconds that a start takes at least: reading the weights, then compiling."""
    return _COMPILE_S + (0 if model is None else int(model.published_weights_bytes / _DEFAULT_VOLUME_BYTES_PER_S))


def _resources(server: _Server) -> Iterator[Finding]:
    limits = child(child(server.container, "resources"), "limits")
    layout = layout_of(server.command)
    ranks = layout.gpus // layout.nodes if layout is not None else 1
    if not server.gpus:
        yield found("manifest-no-gpu", f"{server.path}.resources.limits", "no nvidia.com/gpu", gpus=ranks)
    elif ranks > server.gpus:
        yield found(
            "manifest-gpu-count", f"{server.path}.resources.limits", f"nvidia.com/gpu: {server.gpus}",
            ranks=ranks, gpus=server.gpus,
        )  # fmt: skip
    memory = quantity_bytes(limits.get("memory")) if "memory" in limits else None
    if server.model is not None and memory is not None and memory < server.model.published_weights_bytes:
        needed = server.model.published_weights_bytes + _HOST_BYTES
        yield found(
            "manifest-memory-limit",
            f"{server.path}.resources.limits.memory",
            str(limits["memory"]),
            limit=limits["memory"],
            title=server.model.title,
            needed=f"{-(-needed // GIB)}Gi",
        )
    if max(server.gpus, ranks) > 1 and not _has_shared_memory(server) and not server.workload.pod.get("hostIPC"):
        yield found(
            "manifest-shared-memory", f"{server.path}.volumeMounts", "no /dev/shm", gpus=max(server.gpus, ranks)
        )
    if server.gpus and not any(
        one.get("key") in (None, "nvidia.com/gpu") for one in objects(server.workload.pod, "tolerations")
    ):
        yield found("manifest-toleration", f"{server.workload.path}.tolerations", "none for nvidia.com/gpu")


def _has_shared_memory(server: _Server) -> bool:
    memory = {
        volume.get("name")
        for volume in objects(server.workload.pod, "volumes")
        if child(volume, "emptyDir").get("medium") == "Memory"
        or child(volume, "hostPath").get("path") == _SHARED_MEMORY_PATH
    }
    mounts = objects(server.container, "volumeMounts")
    return any(one.get("mountPath") == _SHARED_MEMORY_PATH and one.get("name") in memory for one in mounts)


def _strategy(server: _Server) -> Iterator[Finding]:
    workload = server.workload
    if workload.kind != "Deployment":
        return
    strategy = child(workload.spec, "strategy")
    kind, rolling = strategy.get("type", "RollingUpdate"), child(strategy, "rollingUpdate")
    surges = str(rolling.get("maxSurge", "25%")) not in ("0", "0%")
    if kind == "RollingUpdate" and surges and (server.gpus > 1 or workload.claims):
        why = (
            f"the pods share the claim {workload.claims[0]}"
            if workload.claims
            else f"each pod takes {server.gpus} GPUs"
        )
        yield found("manifest-rolling-update", f"Deployment/{workload.name} spec.strategy", str(kind), why=why)


def _network(server: _Server, given: Sequence[Object]) -> Iterator[Finding]:
    port = next((number(one, "containerPort", 8000) for one in objects(server.container, "ports")), 8000)
    if server.workload.pod.get("hostNetwork"):
        yield found("manifest-host-network", f"{server.workload.path}.hostNetwork", "true", port=port)
    named = {str(one.get("name")) for one in objects(server.container, "ports")}
    for service in given:
        spec = child(service, "spec")
        kind = spec.get("type", "ClusterIP")
        if service.get("kind") != "Service" or kind not in ("LoadBalancer", "NodePort"):
            continue
        targets = {str(one.get("targetPort", one.get("port"))) for one in objects(spec, "ports")}
        if targets & {str(port), *named} and child(spec, "selector").items() <= _labels(server, given).items():
            name = child(service, "metadata").get("name", "")
            yield found(
                "manifest-engine-exposed", f"Service/{name} spec.ports", f"targetPort {', '.join(sorted(targets))}",
                type=kind, port=port,
            )  # fmt: skip
    for scaler in given:
        target = child(child(scaler, "spec"), "scaleTargetRef").get("name")
        if scaler.get("kind") == "HorizontalPodAutoscaler" and target == server.workload.name:
            name = child(scaler, "metadata").get("name", "")
            kinds = {child(one, "resource").get("name") for one in objects(child(scaler, "spec"), "metrics")}
            if kinds & {"cpu", "memory"}:
                yield found(
                    "manifest-autoscaler", f"HorizontalPodAutoscaler/{name} spec.metrics", str(target), gpus=server.gpus
                )


def _labels(server: _Server, given: Sequence[Object]) -> Object:
    for one in given:
        if one.get("kind") == server.workload.kind and child(one, "metadata").get("name") == server.workload.name:
            template = one if server.workload.kind == "Pod" else child(child(one, "spec"), "template")
            return child(child(template, "metadata"), "labels")
    return {}


def _stopping(server: _Server) -> Iterator[Finding]:
    grace_s = number(server.workload.pod, "terminationGracePeriodSeconds", 30)
    flag = server.command.flags.get("--shutdown-timeout")
    drain_s = int(flag.values[0]) if flag and flag.values and flag.values[0].isdecimal() else 0
    hook = child(child(child(server.container, "lifecycle"), "preStop"), "sleep")
    needed_s = drain_s + number(hook, "seconds", 0)
    if needed_s and grace_s <= needed_s:
        yield found(
            "manifest-grace",
            f"{server.workload.path}.terminationGracePeriodSeconds",
            str(grace_s),
            grace=grace_s,
            needed=needed_s,
            wanted=needed_s + 60,
        )


def _secrets(server: _Server) -> Iterator[Finding]:
    for index, variable in enumerate(objects(server.container, "env")):
        name = str(variable.get("name", ""))
        if _SECRET_NAME.search(name) and variable.get("value"):
            yield found("manifest-secret-in-clear", f"{server.path}.env[{index}]", f"{name}: …", name=name)


def _sysctls(workload: Workload) -> Iterator[Finding]:
    settings = objects(child(workload.pod, "securityContext"), "sysctls")
    for index, one in enumerate(settings):
        name = str(one.get("name", ""))
        if _SAFE_SYSCTLS.fullmatch(name):
            continue
        why = (
            "allowed only where the kubelet names it (--allowed-unsafe-sysctls)"
            if _OWN_SYSCTLS.match(name)
            else "one setting of the whole node, which no pod may change"
        )
        yield found("manifest-sysctl", f"{workload.path}.securityContext.sysctls[{index}]", name, name=name, why=why)


def _volumes(server: _Server, given: Sequence[Object]) -> Iterator[Finding]:
    for claim in given:
        name = str(child(claim, "metadata").get("name", ""))
        if claim.get("kind") != "PersistentVolumeClaim" or name not in server.workload.claims:
            continue
        spec = child(claim, "spec")
        size = child(child(spec, "resources"), "requests").get("storage")
        count = quantity_bytes(size)
        if server.model is not None and count is not None and count < server.model.published_weights_bytes:
            yield found(
                "manifest-volume-small",
                f"PersistentVolumeClaim/{name} spec.resources.requests.storage",
                str(size),
                name=name,
                size=size,
                title=server.model.title,
                needed=gib_text(server.model.published_weights_bytes),
                wanted=f"{volume_size_gib(server.model.published_weights_bytes)}Gi",
            )
        replicas = number(server.workload.spec, "replicas", 1)
        once = not {"ReadWriteMany", "ReadOnlyMany"} & set(texts(spec, "accessModes"))
        if server.workload.kind == "Deployment" and replicas > 1 and once:
            yield found(
                "manifest-shared-volume", f"Deployment/{server.workload.name} spec.replicas", str(replicas),
                replicas=replicas, name=name,
            )  # fmt: skip


def _arguments(server: _Server) -> Iterator[Finding]:
    image = str(server.container.get("image", ""))
    tag = image.rsplit("/", 1)[-1].partition(":")[2]
    if "@sha256" not in image and (not tag or tag in ("latest", "nightly", "main")):
        yield found("manifest-image-unpinned", f"{server.path}.image", image, image=image)
    for finding in diagnose_arguments(server.arguments, image):
        yield Finding(
            finding.cause_id,
            finding.title,
            finding.cause,
            finding.remedy,
            Evidence(f"{server.path}.args, {finding.evidence.place}", finding.evidence.text),
            finding.confidence,
            finding.severity,
        )
