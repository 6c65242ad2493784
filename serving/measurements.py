"""Starts of the real engine that were measured: what was run, what its log printed, how fast it answered.

`serving/data/measurements.toml` holds them; `dormouse calibrate --into FILE` writes more of the same kind. The planner's
fitted laws are held against every one of them.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, cast

from serving.accelerators import InstanceShape
from serving.checkpoint.model import CheckpointModel
from serving.errors import UnknownFactError
from serving.fit.layout import Layout
from serving.fit.limits import EngineLimits
from serving.fit.one_rank import rank_model
from serving.fit.overheads import Overheads
from serving.fit.plan import FitPlan, plan_fit
from serving.gpu_boxes import gpu_box
from serving.profiles import load_model

_LAYOUT_KEYS = (
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "expert_parallel",
    "decode_context_parallel",
    "nodes",
)
_LIMIT_KEYS = (
    "context_tokens",
    "max_sequences",
    "kv_cache_dtype",
    "max_batched_tokens",
    "gpu_memory_utilization",
    "enforce_eager",
    "custom_all_reduce",
    "block_size",
)


_SPEED: dict[str, Any] = {"prompt_tokens": None, "answer_tokens": None, "first_token_s": None}
_TEXT_KEYS = ("name", "model", "gpu", "gpus", "vllm", "driver", "date", "source", "command", "backend")


@dataclass(frozen=True)
class Measured:
    """What the engine's log printed, sizes in GiB per GPU; None where it printed none.

    - `usable_gib`, `free_gib`: GPU memory, and what was free of it when the engine began.
    - `used_ready_gib`, `used_peak_gib`: in use on the fullest GPU when ready, and after the prompts of the speed probe.
    """

    weights_gib: float | None = None
    activation_gib: float | None = None
    non_torch_gib: float | None = None
    graphs_actual_gib: float | None = None
    graphs_estimated_gib: float | None = None
    kv_cache_gib: float | None = None
    kv_tokens: int | None = None
    concurrency: float | None = None
    usable_gib: float | None = None
    free_gib: float | None = None
    used_ready_gib: float | None = None
    used_peak_gib: float | None = None


@dataclass(frozen=True)
class StartSeconds:
    """How long the phases of a start took, in seconds; None where the log does not say."""

    load: float | None = None
    compile: float | None = None
    graphs: float | None = None
    engine: float | None = None
    ready: float | None = None


@dataclass(frozen=True)
class Speed:
    """Answers at one concurrency: `requests` at once, each with a prompt and an answer of so many tokens, None where nobody noted them.

    - `first_token_s`: mean time to the first token. `decode_tokens_per_s`: of all requests together after their first
      tokens, None where answers were one token long.
    """

    requests: int
    prompt_tokens: int | None
    answer_tokens: int | None
    first_token_s: float | None
    decode_tokens_per_s: float | None = None


@dataclass(frozen=True)
class Start:
    """One start of the engine.

    - `layout`: the layout that was planned. `gpus`: those that took part: fewer than the layout's where each ran the
      model that one GPU of the layout holds.
    - `gpu`: such as `H200`. `source`: who measured it, when and how.
    """

    name: str
    model: str
    layout: Layout
    gpus: int
    limits: EngineLimits
    gpu: str
    vllm: str
    driver: str
    date: str
    source: str
    command: str
    backend: str
    measured: Measured
    seconds: StartSeconds = field(default_factory=StartSeconds)
    speeds: tuple[Speed, ...] = ()

    @property
    def one_rank(self) -> bool:
        """Whether fewer GPUs took part than the layout has."""
        return self.gpus < self.layout.gpus

    @property
    def run_layout(self) -> Layout:
        """How the engine was really started."""
        if not self.one_rank:
            return self.layout
        return Layout(self.gpus, vision_mode="none")

    @property
    def checkpoint(self) -> CheckpointModel:
        """The model that ran."""
        profile = load_model(self.model)
        if self.one_rank:
            return rank_model(self.model, profile.config, self.layout, self.gpus).checkpoint
        return profile.checkpoint

    def plan(self, shape: InstanceShape | None = None, coefficients: Overheads | None = None) -> FitPlan:
        """What the planner says of this very start."""
        box = shape or gpu_box(f"{self.gpus}x{self.gpu}")
        return plan_fit(self.checkpoint, self.run_layout, box, self.limits, coefficients)


@cache
def measurements() -> tuple[Start, ...]:
    """Every start in the data file."""
    text = (resources.files("serving") / "data" / "measurements.toml").read_text(encoding="utf-8")
    return starts_from(tomllib.loads(text), "measurements.toml")


def read_measurements(path: Path) -> tuple[Start, ...]:
    """The starts in a file that `dormouse calibrate` wrote; raises UnknownFactError where it is no such file."""
    try:
        return starts_from(tomllib.loads(path.read_text(encoding="utf-8")), path.name)
    except (OSError, ValueError) as error:
        raise UnknownFactError(f"{path}: no file of measurements ({error})") from error


def starts_from(document: Mapping[str, Any], where: str) -> tuple[Start, ...]:
    """The starts of a parsed document; raises UnknownFactError naming the entry and the key that is missing or wrong."""
    rows = cast("Sequence[Mapping[str, Any]]", document.get("start", ()))
    return tuple(_start(row, f"{where}, start {index + 1}") for index, row in enumerate(rows))


def _start(row: Mapping[str, Any], where: str) -> Start:
    try:
        layout = Layout(**_known(row["layout"], _LAYOUT_KEYS), vision_mode="none")
        return Start(
            name=row["name"],
            model=row["model"],
            layout=layout,
            gpus=row["gpus"],
            limits=EngineLimits(**_known(row["limits"], _LIMIT_KEYS)),
            gpu=row["gpu"],
            vllm=row["vllm"],
            driver=row["driver"],
            date=str(row["date"]),
            source=row["source"],
            command=row["command"],
            backend=row["backend"],
            measured=Measured(**row["measured"]),
            seconds=StartSeconds(**row.get("seconds", {})),
            speeds=tuple(Speed(**{**_SPEED, **speed}) for speed in row.get("speed", ())),
        )
    except KeyError as error:
        raise UnknownFactError(f"{where}: lacks the key {error}") from error
    except TypeError as error:
        raise UnknownFactError(f"{where}: {error}") from error


def _known(values: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    unknown = values.keys() - set(keys)
    if unknown:
        raise TypeError(f"unknown keys {', '.join(sorted(unknown))}; known: {', '.join(keys)}")
    return dict(values)


def start_rows(start: Start) -> str:
    """`start` as an entry of the data file."""
    lines = ["[[start]]"]
    lines += [f"{key} = {_toml(getattr(start, key))}" for key in _TEXT_KEYS]
    for key in ("layout", "limits", "measured", "seconds"):
        names = {"layout": _LAYOUT_KEYS, "limits": _LIMIT_KEYS}.get(key)
        part = getattr(start, key)
        values = {name: getattr(part, name) for name in names or part.__dataclass_fields__}
        given = {name: value for name, value in values.items() if value is not None}
        lines += ["", f"[start.{key}]", *(f"{name} = {_toml(value)}" for name, value in given.items())]
    for speed in start.speeds:
        given = {name: value for name, value in vars(speed).items() if value is not None}
        lines += ["", "[[start.speed]]", *(f"{name} = {_toml(value)}" for name, value in given.items())]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:_}"
    if isinstance(value, float):
        return repr(round(value, 4))
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{text}"'
