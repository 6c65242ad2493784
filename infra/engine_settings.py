"""What the user asks of the engine: limits, a preset, arguments of their own."""

from dataclasses import dataclass
from typing import cast

from infra.configuration import ConfigurationReader
from serving.accelerators import InstanceShape
from serving.engine.extra_arguments import extra_argument_faults, given_flags
from serving.engine.flags import uncounted_flags
from serving.engine.presets import PURPOSES, AppliedPreset, PresetName, apply_preset
from serving.memory import KV_CACHE_DTYPES, EngineLimits
from serving.profiles import ModelProfile

_NO_PRESET = "none"
_PRESETS = (_NO_PRESET, *PURPOSES)
# The settings that a preset may change, unless one of these keys has a value.
_PRESET_KEYS = ("kvCacheDtype", "maxBatchedTokens", "maxSequences")


@dataclass(frozen=True)
class EngineSettings:
    """The engine's limits after the preset, the preset if any, and the user's own arguments, checked."""

    limits: EngineLimits
    preset: AppliedPreset | None
    extra_args: tuple[str, ...]

    @property
    def added_args(self) -> tuple[str, ...]:
        """Arguments beside those that follow from the plan: the preset's, then the user's."""
        return (*(self.preset.flags if self.preset else ()), *self.extra_args)

    def lines(self) -> list[str]:
        """The preset and the user's arguments for people; nothing where there are none."""
        lines = self.preset.lines() if self.preset else []
        if self.extra_args:
            lines.append(f"Your own arguments for vLLM, checked against its flags: {' '.join(self.extra_args)}")
        if uncounted := sorted(given_flags(self.extra_args) & uncounted_flags()):
            lines.append(
                f"The memory above does not count what {', '.join(uncounted)} may change; compare it with the KV cache"
                " size that vLLM logs at its first start."
            )
        return lines


def read_engine(read: ConfigurationReader, model: ModelProfile, shape: InstanceShape) -> EngineSettings:
    """The engine's settings for `model` on `shape`; faults are noted in `read`."""
    longest = model.max_context_tokens
    dtype = read.choice("kvCacheDtype", KV_CACHE_DTYPES, "auto")
    limits = EngineLimits(
        context_tokens=read.whole_number("contextTokens", 1024, longest, longest, "tokens"),
        max_sequences=read.whole_number("maxSequences", 1, 1024, 64),
        kv_cache_dtype="fp8" if dtype == "fp8" else "auto",
        max_batched_tokens=read.whole_number("maxBatchedTokens", 1024, 65_536, 8192, "tokens"),
    )
    extra = read.texts("extraArgs")
    for fault in extra_argument_faults(extra):
        read.fault(fault.key, fault.value, fault.accepted)
    name = read.choice("preset", _PRESETS, _NO_PRESET)
    if name == _NO_PRESET or name not in _PRESETS:
        return EngineSettings(limits, None, extra)
    written = [key for key in _PRESET_KEYS if read.has(key)]
    applied = apply_preset(cast("PresetName", name), limits, model, shape, written, extra)
    return EngineSettings(applied.limits, applied, extra)
