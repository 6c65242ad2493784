"""What somebody asks of `dormouse fit` and `dormouse choose`: a model, what it is to hold, and where."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from serving.accelerators import InstanceShape, instance_shapes
from serving.checkpoint.loader import model_from_files, model_from_folder
from serving.checkpoint.model import CheckpointModel
from serving.errors import ConfigurationError, Fault, UnknownFactError
from serving.fit.layout import Draft, VisionMode
from serving.fit.limits import EngineLimits, KvCacheDtype
from serving.gpu_boxes import machine, shown_boxes
from serving.profiles import known_models, load_checkpoint, load_model

MOST_NODES = 4
_MOST_SEQUENCES = 64
_MOST_REQUESTS = 1_000_000


@dataclass(frozen=True)
class LayoutWish:
    """The layout that was asked for; None is left to Dormouse."""

    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    decode_context_parallel: int = 1
    expert_parallel: bool = False
    nodes: int = 1
    vision_mode: VisionMode | None = None
    draft: Draft | None = None

    @property
    def is_open(self) -> bool:
        """Whether Dormouse may choose how the GPUs are divided."""
        return self.tensor_parallel is None and self.pipeline_parallel is None and self.data_parallel is None


@dataclass(frozen=True)
class FitQuestion:
    """A model, its limits, and the machines to look at.

    - `title`: the model's name for people. `vision_mode`: the profile's own, unless the wish says another.
    - `concurrency`: requests of the full context that must fit at once; 1 where nobody asks for more.
    - `region`: of the prices; None takes the lowest published one.
    """

    model: CheckpointModel
    title: str
    limits: EngineLimits
    wish: LayoutWish
    machines: tuple[InstanceShape, ...]
    concurrency: int = 1
    region: str | None = None


@dataclass(frozen=True)
class NamedModel:
    """A checkpoint with what only a profile knows of it: its title, and what becomes of its vision tower."""

    checkpoint: CheckpointModel
    title: str
    vision_mode: VisionMode


def find_model(name: str | None, config: str | None, index: str | None) -> NamedModel:
    """The model that the command line names: a profile, a folder with its files, or a config with or without an index.

    Raises ConfigurationError on none or two of them, on a name that nobody knows and on a kind of model that nobody knows.
    """
    known = f"one of {', '.join(known_models())}, a folder with the model's files, or --config FILE"
    if (name is None) == (config is None):
        given = "nothing" if name is None else f"{name} and --config"
        raise ConfigurationError([Fault("MODEL", given, known)], "the command line")
    if index is not None and config is None:
        raise ConfigurationError([Fault("--index", index, "an index together with --config")], "the command line")
    if config is not None:
        return _unnamed("--config", config, lambda: model_from_files(config, index))
    assert name is not None
    # A model's name has no slash; a folder that is called like a model needs one, as in ./kimi-k2.5.
    if "/" in name or name.startswith("."):
        if not Path(name).is_dir():
            accepted = "a folder with config.json and safetensors files, or a model's name"
            raise ConfigurationError([Fault("MODEL", f"{name}, which is no folder", accepted)], "the command line")
        return _unnamed("MODEL", name, lambda: model_from_folder(name))
    if name not in known_models() and Path(name).is_dir():
        return _unnamed("MODEL", name, lambda: model_from_folder(name))
    if name not in known_models():
        raise ConfigurationError([Fault("MODEL", name, known)], "the command line")
    profile = load_model(name)
    return NamedModel(load_checkpoint(name), profile.title, cast("VisionMode", profile.vision_mode))


def limits_for(
    model: CheckpointModel,
    *,
    context: int | None,
    concurrency: int | None,
    kv_cache_dtype: KvCacheDtype,
    max_batched_tokens: int = 8192,
    gpu_memory_utilization: float = 0.92,
) -> EngineLimits:
    """The engine's limits; the context is the model's longest where none is given.

    Raises ConfigurationError with every number that cannot be.
    """
    faults: list[Fault] = []
    tokens = model.max_context_tokens if context is None else context
    if not 1 <= tokens <= model.max_context_tokens:
        faults.append(
            Fault("--context", f"{tokens:,}", f"1 to {model.max_context_tokens:,} tokens, what it was made for")
        )
    if concurrency is not None and not 1 <= concurrency <= _MOST_REQUESTS:
        faults.append(Fault("--concurrency", f"{concurrency:,}", f"1 to {_MOST_REQUESTS:,} requests"))
    if not 256 <= max_batched_tokens <= 1 << 20:
        faults.append(Fault("--max-batched-tokens", f"{max_batched_tokens:,}", f"256 to {1 << 20:,}"))
    if not 0.1 <= gpu_memory_utilization <= 0.99:
        faults.append(Fault("--gpu-memory-utilization", f"{gpu_memory_utilization:g}", "0.1 to 0.99"))
    if faults:
        raise ConfigurationError(faults, "the command line")
    return EngineLimits(
        context_tokens=tokens,
        max_sequences=max(_MOST_SEQUENCES, concurrency or 1),
        kv_cache_dtype=kv_cache_dtype,
        max_batched_tokens=max_batched_tokens,
        gpu_memory_utilization=gpu_memory_utilization,
    )


def checked_wish(wish: LayoutWish) -> LayoutWish:
    """The same wish; raises ConfigurationError with every size that cannot be."""
    sizes = {
        "--tensor-parallel": wish.tensor_parallel,
        "--pipeline-parallel": wish.pipeline_parallel,
        "--data-parallel": wish.data_parallel,
        "--decode-context-parallel": wish.decode_context_parallel,
    }
    faults = [
        Fault(flag, str(size), "a whole number of GPUs, 1 or more")
        for flag, size in sizes.items()
        if size is not None and size < 1
    ]
    if not 1 <= wish.nodes <= MOST_NODES:
        faults.append(Fault("--nodes", str(wish.nodes), f"1 to {MOST_NODES} machines"))
    if faults:
        raise ConfigurationError(faults, "the command line")
    return wish


def all_machines() -> tuple[InstanceShape, ...]:
    """EC2's types, the smaller GPU memory first, then the boxes that no price is published for."""
    types = sorted(instance_shapes().values(), key=lambda shape: shape.gpus * shape.usable_bytes_per_gpu)
    return (*types, *shown_boxes())


def machines_named(names: list[str]) -> tuple[InstanceShape, ...]:
    """The machines that the command line names, or all; raises ConfigurationError on one that nobody knows."""
    return tuple(machine(name) for name in names) if names else all_machines()


def with_context(question: FitQuestion, context_tokens: int) -> FitQuestion:
    """The same question at another context."""
    return replace(question, limits=replace(question.limits, context_tokens=context_tokens))


def _unnamed(key: str, given: str, read: Callable[[], CheckpointModel]) -> NamedModel:
    """The model that `read` gives; one of a kind that is not known is a wrong argument, as an unknown name is."""
    try:
        model = read()
    except UnknownFactError as error:
        raise ConfigurationError(
            [Fault(key, given, f"a model of a known kind: {error}")], "the command line"
        ) from error
    return NamedModel(model, model.name, "data" if model.vision else "none")
