"""Faults of a `vllm serve` command line that somebody posted, before it costs a start."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from serving.accelerators import InstanceShape
from serving.diagnosis.advice import model_of
from serving.diagnosis.checks import found
from serving.diagnosis.command_text import Command, is_on, layout_of, limit
from serving.diagnosis.finding import Finding
from serving.engine.command_line import GivenFlag
from serving.engine.extra_arguments import extra_argument_faults
from serving.errors import ConfigurationError
from serving.fit.answers import nearest_that_fit
from serving.fit.constraints import layout_faults
from serving.fit.layout import Layout
from serving.fit.limits import EngineLimits
from serving.fit.plan import plan_fit
from serving.gpu_boxes import gpu_box, gpu_names
from serving.profiles import ModelProfile
from serving.runtime import pinned_runtime

_SAFE_UTILIZATION = 0.95
_SECRETS = {"--api-key": "VLLM_API_KEY", "--hf-token": "HF_TOKEN"}
_SHOWN_ALTERNATIVES = 3


def diagnose_command(command: Command, machine: InstanceShape | None = None) -> tuple[Finding, ...]:
    """Everything wrong or risky in a command line, errors first; `machine` is what it runs on, None where unknown."""
    findings = [*_flag_faults(command), *_entry(command), *_image(command), *_habits(command)]
    model = model_of({"model": command.model})
    if model is not None:
        findings += [*_model(command, model), *_layout(command, model, machine)]
    return tuple(sorted(findings, key=lambda one: one.severity == "warning"))


def diagnose_arguments(arguments: Sequence[str], image: str = "") -> tuple[Finding, ...]:
    """The same for a container's arguments, whose words about Docker and ports do not apply."""
    findings = diagnose_command(Command(tuple(arguments), tuple(arguments), image, ""))
    beside = {"command-open", "command-image-unpinned", "command-old-entry"}
    return tuple(one for one in findings if one.cause_id not in beside)


def _flag_faults(command: Command) -> Iterator[Finding]:
    first = 1 if command.serve and not command.serve[0].startswith("-") else 0
    arguments = command.serve[first:]
    for fault in extra_argument_faults(arguments, "", guarded=False):
        index = int(fault.key.strip("[]"))
        text = fault.value if _hides(arguments[index]) else arguments[index]
        yield found("command-flag", f"argument {index + first + 1}", text, given=fault.value, accepted=fault.accepted)


def _entry(command: Command) -> Iterator[Finding]:
    if "vllm.entrypoints.openai.api_server" in command.words:
        yield found("command-old-entry", "the command", "vllm.entrypoints.openai.api_server")


def _image(command: Command) -> Iterator[Finding]:
    pinned = pinned_runtime()
    if command.runner:
        words = command.words
        if not any(word.startswith(("--gpus", "--device", "--runtime")) for word in words):
            yield found("command-docker-gpus", "docker run", command.image)
        layout = layout_of(command)
        shares = any(word.startswith(("--ipc", "--shm-size")) for word in words)
        if layout is not None and layout.gpus > 1 and not shares:
            yield found("command-docker-memory", "docker run", command.image)
    if not command.image:
        return
    tag = command.image.rpartition(":")[2] if ":" in command.image.rsplit("/", 1)[-1] else ""
    if "@sha256" not in command.image and (not tag or not re.search(r"\d+\.\d+", tag)):
        yield found("command-image-unpinned", "image", command.image, image=command.image, pinned=pinned.vllm_image)
    version = _version(tag)
    if version is not None and (0, 15) <= version[:2] <= (0, 16):
        yield found("command-image-compat", "image", command.image, pinned=pinned.vllm_image)
    model = model_of({"model": command.model})
    if version is not None and model is not None and (wanted := _version(model.min_vllm_version)) and version < wanted:
        yield found(
            "command-image-old",
            "image",
            command.image,
            image=tag,
            title=model.title,
            wanted=model.min_vllm_version,
            pinned=pinned.vllm_image,
        )


def _habits(command: Command) -> Iterator[Finding]:
    flags = command.flags
    for flag, variable in _SECRETS.items():
        if (given := flags.get(flag)) is not None and given.values and not given.values[0].startswith("$"):
            yield found("command-key-in-list", flag, f"{flag} …", flag=flag, variable=variable)
    host = flags.get("--host")
    local = host is not None and host.values[:1] in (("127.0.0.1",), ("localhost",), ("::1",))
    if "--api-key" not in flags and not local and not any("VLLM_API_KEY" in word for word in command.words):
        yield found("command-open", "the command", "no --api-key, no VLLM_API_KEY")
    if "--shutdown-timeout" not in flags:
        yield found("command-cuts-requests", "the command", "no --shutdown-timeout")
    if is_on(command, "--enforce-eager"):
        yield found("command-eager", "--enforce-eager", "--enforce-eager")
    share = flags.get("--gpu-memory-utilization")
    if share is not None and share.values and (value := _number(share.values[0])) and value > _SAFE_UTILIZATION:
        yield found("command-utilization", share.spelling, f"{share.spelling} {share.values[0]}", given=share.values[0])


def _model(command: Command, model: ModelProfile) -> Iterator[Finding]:
    flags = command.flags
    if model.trust_remote_code and not is_on(command, "--trust-remote-code"):
        yield found("command-remote-code", "the command", "no --trust-remote-code", title=model.title)
    yield from _parsers(flags, model)
    given = flags.get("--quantization")
    method = model.checkpoint.quantisation
    if given is not None and given.values and given.values[0].replace("_", "-") not in method.replace("_", "-"):
        yield found(
            "command-quantization",
            given.spelling,
            given.values[0],
            given=given.values[0],
            title=model.title,
            method=method,
        )
    if "--served-model-name" not in flags:
        yield found("command-served-name", "the command", command.model, given=command.model, name=model.served_name)


def _parsers(flags: Mapping[str, GivenFlag], model: ModelProfile) -> Iterator[Finding]:
    wanted: list[str] = []
    faults: list[str] = []
    for flag, name in (("--tool-call-parser", model.tool_call_parser), ("--reasoning-parser", model.reasoning_parser)):
        given = flags.get(flag)
        value = given.values[0] if given and given.values else ""
        if name and value != name:
            wanted.append(f"{flag} {name}")
            faults.append(f"{flag} is {value}" if value else f"{flag} is missing")
    if model.tool_call_parser and "--enable-auto-tool-choice" not in flags:
        wanted.append("--enable-auto-tool-choice")
        faults.append("--enable-auto-tool-choice is missing, so tool_choice auto is refused")
    if faults:
        yield found(
            "command-parsers",
            "the command",
            "; ".join(faults),
            title=model.title,
            fault=" and ".join(faults),
            wanted=f"Set {' '.join(wanted)}.",
        )


def _layout(command: Command, model: ModelProfile, machine: InstanceShape | None) -> Iterator[Finding]:
    context = limit(command, "--max-model-len", model.max_context_tokens)
    if context > model.max_context_tokens:
        yield found(
            "command-context",
            "--max-model-len",
            str(context),
            asked=f"{context:,}",
            most=f"{model.max_context_tokens:,}",
            title=model.title,
        )
    layout = layout_of(command)
    if layout is None:
        return
    heads = model.checkpoint.attention[0].heads
    if heads % layout.tensor_parallel:
        divisors = ", ".join(str(n) for n in (1, 2, 4, 8, 16, 32, 64) if heads % n == 0)
        yield found(
            "command-heads", "--tensor-parallel-size", str(layout.tensor_parallel),
            title=model.title, heads=heads, size=layout.tensor_parallel, divisors=divisors,
        )  # fmt: skip
        return
    fp8 = command.flags.get("--kv-cache-dtype")
    limits = EngineLimits(
        min(context, model.max_context_tokens),
        limit(command, "--max-num-seqs", 256),
        "fp8" if fp8 is not None and fp8.values[:1] and fp8.values[0].startswith("fp8") else "auto",
    )
    shapes = [machine] if machine is not None else list(_boxes(layout))
    if any(_fits(model, layout, shape, limits) for shape in shapes):
        return
    works = nearest_that_fit(model.checkpoint, limits, lambda _: None)[:_SHOWN_ALTERNATIVES]
    yield found(
        "command-no-fit",
        "the layout",
        str(layout),
        title=model.title,
        layout=layout,
        where="any GPU that is known" if machine is None else machine.name,
        context=f"{limits.context_tokens:,}",
        works=", ".join(f"{one.layout} on {one.shape.name}" for one in works) or "a shorter context",
    )


def _boxes(layout: Layout) -> Iterator[InstanceShape]:
    for gpu in gpu_names():
        with suppress(ConfigurationError):
            yield gpu_box(f"{max(1, layout.gpus // layout.nodes)}x{gpu}")


def _fits(model: ModelProfile, layout: Layout, shape: InstanceShape, limits: EngineLimits) -> bool:
    faults = layout_faults(model.checkpoint, layout, shape, limits)
    return not faults and plan_fit(model.checkpoint, layout, shape, limits).fits


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _version(text: str) -> tuple[int, ...] | None:
    read = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return None if read is None else tuple(int(part or 0) for part in read.groups())


def _hides(token: str) -> bool:
    return any(token.replace("_", "-").startswith(flag) for flag in _SECRETS)
