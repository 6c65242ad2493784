"""Presets: a handful of settings changed together for one purpose, each change told with its price.

A preset never overrules a setting that the user wrote, and it changes nothing silently.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from serving.accelerators import InstanceShape
from serving.engine.extra_arguments import given_flags
from serving.memory import EngineLimits
from serving.profiles import ModelProfile

PresetName = Literal["latency", "throughput", "long-context"]
Setting = Literal["maxSequences", "maxBatchedTokens", "kvCacheDtype"]

PURPOSES: dict[PresetName, str] = {
    "latency": "short waits for few callers, paid with fewer at once",
    "throughput": "most tokens a second over all callers, paid with a longer wait for each",
    "long-context": "many long requests in the cache at once, paid with exactness and with fewer answers side by side",
}
# The first compute capability whose kernels read an fp8 KV cache.
_FP8_CAPABILITY = 8.9


@dataclass(frozen=True)
class PresetChange:
    """One setting that a preset changed: its name, both values as text, and why."""

    setting: str
    before: str
    after: str
    why: str


@dataclass(frozen=True)
class AppliedPreset:
    """What became of a preset on one environment.

    - `limits`: the engine's limits after it. `flags`: arguments that it adds to the engine's.
    - `changes`: what it changed. `notes`: sentences on what it left, and why, and on what the model's makers say.
    """

    name: PresetName
    limits: EngineLimits
    flags: tuple[str, ...]
    changes: tuple[PresetChange, ...]
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """The preset for people: its purpose, every change with its reason, and what is to be known beside them."""
        return [
            f"Preset {self.name}: {PURPOSES[self.name]}.",
            *(f"  {change.setting} {change.before} → {change.after}: {change.why}." for change in self.changes),
            *(f"  {sentence}" for sentence in self.notes),
        ]


@dataclass(frozen=True)
class _Wish:
    setting: Setting
    value: int | str
    why: str


@dataclass(frozen=True)
class _FlagWish:
    flag: str
    before: str
    after: str
    why: str


_FEWER_TOKENS_A_STEP = (
    "a prompt that is being read holds up the answers of others for about half as long; it takes twice the steps itself"
)
_WISHES: dict[PresetName, tuple[_Wish, ...]] = {
    "latency": (
        _Wish("maxBatchedTokens", 4096, _FEWER_TOKENS_A_STEP),
        _Wish("maxSequences", 16, "each answer is written faster in a small batch; the 17th caller waits"),
    ),
    "throughput": (
        _Wish(
            "maxBatchedTokens",
            16384,
            "prompts are read in larger steps; activations take about twice the memory (2.6 → 5.1 GiB a GPU,"
            " measured on an H200 with Kimi K2.5's share of one GPU in eight), and answers stutter longer while a prompt is read",
        ),
        _Wish("maxSequences", 256, "a large batch keeps the GPUs busy; each answer is written more slowly"),
    ),
    "long-context": (
        _Wish("kvCacheDtype", "fp8", "the cache holds twice the tokens; not lossless, so compare answers first"),
        _Wish("maxSequences", 16, "long requests fill the cache before they fill a batch"),
    ),
}
_FLAG_WISHES: dict[PresetName, tuple[_FlagWish, ...]] = {
    "latency": (
        _FlagWish(
            "--performance-mode",
            "balanced",
            "interactivity",
            "a CUDA graph for every batch up to 32, so small batches are not padded",
        ),
    ),
    "throughput": (),
    "long-context": (
        _FlagWish(
            "--long-prefill-token-threshold",
            "0",
            "4096",
            "beside others, one long prompt takes at most that many tokens of a step; alone it takes all",
        ),
    ),
}


def apply_preset(
    name: PresetName,
    limits: EngineLimits,
    model: ModelProfile,
    shape: InstanceShape,
    written: Collection[str],
    extra: Sequence[str] = (),
) -> AppliedPreset:
    """`limits` as the preset `name` changes them for `model` on the machine `shape`.

    - `written`: settings that the user wrote, such as `maxSequences`; they stay. `extra`: the user's own arguments.
    """
    changes: list[PresetChange] = []
    notes: list[str] = []
    for wish in _WISHES[name]:
        before = _value(limits, wish.setting)
        if wish.value == before:
            continue
        if wish.setting in written:
            notes.append(
                f"{wish.setting} stays {_text(before)}, since you set it (the preset has {_text(wish.value)})."
            )
        elif wish.setting == "kvCacheDtype" and shape.compute_capability < _FP8_CAPABILITY:
            notes.append(f"kvCacheDtype stays {before}: the {shape.gpu} has no kernels for an fp8 cache.")
        else:
            limits = _with(limits, wish.setting, wish.value)
            changes.append(PresetChange(wish.setting, _text(before), _text(wish.value), wish.why))
            if wish.setting == "kvCacheDtype":
                notes += [
                    f"To be known of {model.title}: {known.says} ({known.source})."
                    for known in model.constraints
                    if known.topic.startswith("kv-cache-dtype")
                ]
    flags: list[str] = []
    own = given_flags(extra)
    for flag in _FLAG_WISHES[name]:
        if flag.flag in own:
            notes.append(f"{flag.flag} stays as you set it (the preset has {flag.after}).")
        else:
            flags.append(f"{flag.flag}={flag.after}")
            changes.append(PresetChange(flag.flag, flag.before, flag.after, flag.why))
    return AppliedPreset(name, limits, tuple(flags), tuple(changes), tuple(notes))


def _value(limits: EngineLimits, setting: Setting) -> int | str:
    match setting:
        case "maxSequences":
            return limits.max_sequences
        case "maxBatchedTokens":
            return limits.max_batched_tokens
        case "kvCacheDtype":
            return limits.kv_cache_dtype


def _with(limits: EngineLimits, setting: Setting, value: int | str) -> EngineLimits:
    match setting:
        case "maxSequences":
            return replace(limits, max_sequences=int(value))
        case "maxBatchedTokens":
            return replace(limits, max_batched_tokens=int(value))
        case "kvCacheDtype":
            return replace(limits, kv_cache_dtype="fp8" if value == "fp8" else "auto")


def _text(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value
