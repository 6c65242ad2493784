"""Which matrices a checkpoint stores quantised and how, from `quantization_config` alone.

A `Quantisation` answers for one module path: how a matrix of that module lies on disk, or that it is left as it was.
Modules are named as the checkpoint names them; patterns of a text model inside a larger one match without its prefix.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from serving.checkpoint.config import ConfigReader
from serving.checkpoint.weights import Storage
from serving.errors import UnknownFactError

MatrixScheme = Callable[[int, int], Storage]
"""How a matrix of rows × columns is stored."""

KNOWN_METHODS = ("awq", "compressed-tensors", "fp8", "gptq", "mxfp4")
_WEIGHT_SHAPE_BYTES = 8
_FP32_BYTES = 4
_EXPERT_DIGIT = re.compile(r"experts.*\d")


@dataclass(frozen=True)
class Quantisation:
    """What a `quantization_config` says.

    - `words`: for people, such as `compressed-tensors int4 group 32`.
    - `scheme_of`: the storage of a module's matrix, None where the module is left alone.
    - `tells_experts_apart`: whether single experts are named, so that each must be asked about.
    - `head`: whether the output head is asked about; most methods never touch it.
    - `kv_cache_scales`: whether every layer stores a scale for keys and one for values.
    """

    words: str
    scheme_of: Callable[[str], MatrixScheme | None]
    tells_experts_apart: bool = False
    head: bool = False
    kv_cache_scales: bool = False


NOT_QUANTISED = Quantisation("none", lambda _module: None)


def quantisation_from(reader: ConfigReader) -> Quantisation:
    """The quantisation that the `quantization_config` in `reader` describes; an empty one describes none.

    Faults go to the reader. Raises UnknownFactError on a method that is not known, by name.
    """
    if not reader.values:
        return NOT_QUANTISED
    method = reader.text("quant_method")
    parsers: dict[str, Callable[[ConfigReader], Quantisation]] = {
        "awq": _awq,
        "compressed-tensors": _compressed_tensors,
        "fp8": _fp8,
        "gptq": _gptq,
        "mxfp4": _mxfp4,
    }
    if not method:
        return NOT_QUANTISED
    if method not in parsers:
        raise UnknownFactError(f"quantisation method `{method}` is not known; known: {', '.join(KNOWN_METHODS)}")
    return parsers[method](reader)


def _compressed_tensors(reader: ConfigReader) -> Quantisation:
    overall = reader.text("format", default="pack-quantized")
    ignore = _patterns(reader, "ignore")
    groups = reader.section("config_groups")
    if not groups.values:
        reader.fault("config_groups", reader.values.get("config_groups"), "at least one group with weights and targets")
    rules: list[tuple[tuple[_Pattern, ...], MatrixScheme]] = []
    words: list[str] = []
    for name in groups.values:
        group = groups.section(name)
        if not group.values:
            continue
        targets = _patterns(group, "targets")
        if not targets:
            group.fault("targets", group.values.get("targets"), "a list such as [Linear]")
        scheme, word = _compressed_scheme(group, overall)
        rules.append((targets, scheme))
        words.append(word)

    def scheme_of(module: str) -> MatrixScheme | None:
        if any(pattern.matches(module) for pattern in ignore):
            return None
        # An exact or regular target is more specific than the class that every matrix here belongs to.
        for targets, scheme in rules:
            if any(pattern.matches(module) for pattern in targets if not pattern.is_class):
                return scheme
        for targets, scheme in rules:
            if any(pattern.is_class for pattern in targets):
                return scheme
        return None

    every = [*ignore, *(pattern for targets, _ in rules for pattern in targets)]
    scales = reader.section("kv_cache_scheme")
    for key in scales.values:
        scales.take(key)
    return Quantisation(
        words="compressed-tensors " + " + ".join(dict.fromkeys(words)),
        scheme_of=scheme_of,
        tells_experts_apart=any(pattern.tells_experts_apart for pattern in every),
        head=True,
        kv_cache_scales=bool(scales.values),
    )


def _compressed_scheme(group: ConfigReader, overall: str) -> tuple[MatrixScheme, str]:
    weights = group.section("weights")
    if not weights.values:
        group.fault("weights", group.values.get("weights"), "an object with num_bits, type and strategy")
    bits = weights.integer("num_bits", maximum=16, default=None if weights.values else 8)
    kind = weights.text("type", default="int")
    weights.require(kind in ("int", "float"), "type", "int or float")
    strategy = weights.text("strategy", default="tensor")
    known = ("tensor", "channel", "group", "block", "tensor_group")
    weights.require(strategy in known, "strategy", " or ".join(known))
    grouped = strategy in ("group", "tensor_group")
    group_size = weights.integer("group_size", default=None if grouped else 0, minimum=1 if grouped else -1)
    zero_points = 0 if weights.boolean("symmetric", default=True) else bits
    ordered = weights.take("actorder") in ("group", True)
    form = group.text("format", default=overall)
    block = weights.integers("block_structure")
    if strategy == "block":
        weights.require(len(block) == 2 and all(block), "block_structure", "two sizes such as [128, 128]")
    inputs = group.section("input_activations")
    static_input = bool(inputs.values) and inputs.take("dynamic") is False
    packed = form == "pack-quantized"
    nvfp4 = form.startswith("nvfp4")

    def scheme(rows: int, columns: int) -> Storage:
        extra = _WEIGHT_SHAPE_BYTES if packed else 0
        extra += columns * _FP32_BYTES if ordered else 0
        extra += 2 if static_input and not nvfp4 else 0
        if nvfp4:
            # Two FP32 scales of the whole matrix, for weights and for inputs, stand beside those of each group.
            return Storage(f"nvfp4 group {group_size}", 4, 1, group_size, 1, 0, 2 * _FP32_BYTES)
        sizes = {
            "group": (1, group_size),
            "channel": (1, columns),
            "tensor": (rows, columns),
            "block": (block[0], block[1]) if len(block) == 2 else (1, 1),
        }.get(strategy, (1, max(1, group_size)))
        return Storage(word, bits, sizes[0], sizes[1], 2, zero_points, extra)

    number = f"{'fp' if kind == 'float' else 'int'}{bits}"
    detail = {"group": f"group {group_size}", "block": f"blocks {'×'.join(map(str, block))}"}.get(strategy, strategy)
    word = f"nvfp4 group {group_size}" if nvfp4 else f"{number} {detail}"
    return scheme, word


def _fp8(reader: ConfigReader) -> Quantisation:
    block = reader.integers("weight_block_size")
    skipped = _skipped(reader, "modules_to_not_convert", "ignored_layers")
    if reader.has("weight_block_size"):
        reader.require(len(block) == 2 and all(block), "weight_block_size", "two sizes such as [128, 128]")
    static = reader.text("activation_scheme", default="dynamic") == "static"
    extra = _FP32_BYTES if static else 0

    def blocks(_rows: int, _columns: int) -> Storage:
        return Storage(f"fp8 block {block[0]}×{block[1]}", 8, block[0], block[1], _FP32_BYTES, 0, extra)

    def whole(rows: int, columns: int) -> Storage:
        return Storage("fp8 tensor", 8, rows, columns, _FP32_BYTES, 0, extra)

    scheme = blocks if len(block) == 2 else whole
    words = f"fp8 block {block[0]}×{block[1]}" if len(block) == 2 else "fp8 tensor"
    return Quantisation(words, lambda module: None if skipped(module) else scheme)


def _mxfp4(reader: ConfigReader) -> Quantisation:
    skipped = _skipped(reader, "modules_to_not_convert")
    storage = Storage("mxfp4", 4, 1, 32, 1)

    def scheme_of(module: str) -> MatrixScheme | None:
        # Only experts are ever stored so; the list of exceptions names the rest.
        return None if skipped(module) or ".experts" not in module else lambda _rows, _columns: storage

    return Quantisation("mxfp4 group 32", scheme_of)


def _awq(reader: ConfigReader) -> Quantisation:
    bits, group = _bits_and_group(reader)
    skipped = _skipped(reader, "modules_to_not_convert")
    zero_points = bits if reader.boolean("zero_point", default=True) else 0
    words = f"awq int{bits} group {group}" if group > 0 else f"awq int{bits} channel"

    def scheme(_rows: int, columns: int) -> Storage:
        return Storage(words, bits, 1, group if group > 0 else columns, 2, zero_points)

    return Quantisation(words, lambda module: None if skipped(module) else scheme)


def _gptq(reader: ConfigReader) -> Quantisation:
    bits, group = _bits_and_group(reader)
    skipped = _skipped(reader, "modules_to_not_convert")
    reader.boolean("desc_act", default=False)
    # GPTQModel's rules `-:pattern` name modules that were left alone.
    rules = reader.section("dynamic")
    left: list[re.Pattern[str]] = []
    for rule in rules.values:
        rules.take(rule)
        if rule.startswith("-:"):
            left.extend(_compiled(reader, "dynamic", rule[2:]))
        else:
            reader.fault("dynamic", rule, "rules that begin with `-:`; other bits for single modules are not known")
    words = f"gptq int{bits} group {group}" if group > 0 else f"gptq int{bits} channel"

    def scheme(_rows: int, columns: int) -> Storage:
        # The order of the inputs is stored whether or not `desc_act` used it.
        return Storage(words, bits, 1, group if group > 0 else columns, 2, bits, columns * _FP32_BYTES)

    def scheme_of(module: str) -> MatrixScheme | None:
        return None if skipped(module) or any(pattern.match(module) for pattern in left) else scheme

    return Quantisation(words, scheme_of, head=reader.boolean("lm_head", default=False))


def _bits_and_group(reader: ConfigReader) -> tuple[int, int]:
    bits = reader.integer("bits", maximum=8)
    reader.require(bits in (2, 3, 4, 8), "bits", "2, 3, 4 or 8")
    return bits, reader.integer("group_size", minimum=-1)


def _skipped(reader: ConfigReader, *keys: str) -> Callable[[str], bool]:
    """Whether a module is among those left alone: the entry's parts follow one another in the module's path."""
    entries = [tuple(part for part in entry.split(".") if part) for key in keys for entry in reader.texts(key)]
    entries = [entry for entry in entries if entry]

    def skipped(module: str) -> bool:
        parts = module.split(".")
        return any(
            all(wanted in ("*", part) for wanted, part in zip(entry, parts[start:], strict=False))
            for entry in entries
            for start in range(len(parts) - len(entry) + 1)
        )

    return skipped


@dataclass(frozen=True)
class _Pattern:
    text: str
    regular: re.Pattern[str] | None

    @property
    def is_class(self) -> bool:
        return self.regular is None and self.text == "Linear"

    @property
    def tells_experts_apart(self) -> bool:
        return bool(_EXPERT_DIGIT.search(self.text))

    def matches(self, module: str) -> bool:
        names = (module, module.removeprefix("language_model."))
        if self.regular is not None:
            return any(self.regular.match(name) for name in names)
        return self.text in names


def _patterns(reader: ConfigReader, key: str) -> tuple[_Pattern, ...]:
    found: list[_Pattern] = []
    for entry in reader.texts(key):
        if not entry.startswith("re:"):
            found.append(_Pattern(entry, None))
        else:
            found.extend(_Pattern(entry, regular) for regular in _compiled(reader, key, entry[3:]))
    return tuple(found)


def _compiled(reader: ConfigReader, key: str, text: str) -> tuple[re.Pattern[str], ...]:
    try:
        return (re.compile(text),)
    except (re.error, OverflowError, RecursionError) as error:
        reader.fault(key, text, f"a regular expression ({error})")
        return ()
