"""Under which names, and with how many bytes each, the tensors of a model stand in safetensors files."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from serving.checkpoint.families.blueprint import at
from serving.checkpoint.weights import Storage, WeightTensor

_WHOLE_NAMES = ("bias", "sinks", "e_score_correction_bias", "k_scale", "v_scale", "inv_freq")
_SHAPE_BYTES = 8
_FP32_BYTES = 4


@dataclass(frozen=True)
class StoredPart:
    """One of the tensors that a matrix is stored as.

    - `suffix`: what follows the module's path. `total_bytes`: of one matrix, or of all experts where they are stacked.
    - `role`: `weight`, `scale` or `other`.
    """

    suffix: str
    total_bytes: int
    role: str


def stored_parts(tensor: WeightTensor) -> tuple[StoredPart, ...]:
    """What one matrix of `tensor` is stored as; the bytes add up to its storage's."""
    storage, rows, columns = tensor.storage, tensor.rows, tensor.columns
    weight = storage.weight_bytes(rows, columns)
    count = storage.scales(rows, columns)
    scales = count * storage.scale_bytes
    zeros = math.ceil(count * storage.zero_point_bits / 8)
    names = _names(tensor, storage)
    sizes: list[tuple[str, int, str]] = [(names[0], weight, "weight")]
    if scales:
        sizes.append((names[1], scales, "scale"))
    if zeros:
        sizes.append((names[2], zeros, "other"))
    sizes += [(suffix, size, "other") for suffix, size in _beside(storage, columns)]
    stacked = 1 if "{expert}" in tensor.module else tensor.copies
    return tuple(StoredPart(suffix, size * stacked, role) for suffix, size, role in sizes)


def stored_names(tensor: WeightTensor, suffix: str) -> Iterator[str]:
    """The names of one part of `tensor` in all its layers and for all its experts."""
    # Experts of one group need not be the first ones, but then their quantisation differs and names would not tell.
    experts = [str(expert) for expert in range(tensor.copies)] if "{expert}" in tensor.module else [""]
    before, _, after = f"{tensor.module}{suffix}".partition("{expert}")
    for layer in tensor.layers or (0,):
        start, end = at(before, layer), at(after, layer)
        for expert in experts:
            yield f"{start}{expert}{end}"


def stored_elements(tensor: WeightTensor) -> int:
    """Elements of all of them as the files count them, scales included, for weights of 8 bits or more."""
    return tensor.count * (tensor.rows * tensor.columns + tensor.storage.scales(tensor.rows, tensor.columns))


def tensor_count(tensors: tuple[WeightTensor, ...]) -> int:
    """How many tensors the files hold."""
    total = 0
    for tensor in tensors:
        experts = tensor.copies if "{expert}" in tensor.module else 1
        total += len(stored_parts(tensor)) * max(1, len(tensor.layers)) * experts
    return total


def _names(tensor: WeightTensor, storage: Storage) -> tuple[str, str, str]:
    """Suffixes of weights, scales and zero points."""
    if not tensor.quantised:
        last = tensor.module.rpartition(".")[2]
        return ("" if last in _WHOLE_NAMES or last.endswith("_bias") else ".weight"), "", ""
    scheme = storage.scheme
    if scheme.startswith(("awq", "gptq")):
        return ".qweight", ".scales", ".qzeros"
    if scheme.startswith("mxfp4"):
        return "_blocks", "_scales", ""
    if _packed(storage):
        return ".weight_packed", ".weight_scale", ".weight_zero_point"
    # The method `fp8` calls a block's scale the inverse; compressed-tensors, whose word is `blocks`, does not.
    inverse = scheme.startswith("fp8 block ")
    return ".weight", ".weight_scale_inv" if inverse else ".weight_scale", ".weight_zero_point"


def _beside(storage: Storage, columns: int) -> tuple[tuple[str, int], ...]:
    """Suffix and bytes of everything counted in a storage's `extra_bytes`."""
    extra = storage.extra_bytes
    if not extra:
        return ()
    scheme = storage.scheme
    if scheme.startswith("nvfp4"):
        return ((".weight_global_scale", extra // 2), (".input_global_scale", extra // 2))
    if scheme.startswith("gptq"):
        return ((".g_idx", extra),)
    if scheme.startswith("fp8") or extra < _SHAPE_BYTES:
        return ((".input_scale", extra),)
    if extra in (_SHAPE_BYTES, 2 * _SHAPE_BYTES):
        return ((".weight_shape", extra),)
    order = columns * _FP32_BYTES
    return ((".weight_shape", extra - order), (".weight_g_idx", order))


def _packed(storage: Storage) -> bool:
    return storage.scheme.startswith("nvfp4") or (
        storage.scheme.startswith("int") and storage.extra_bytes >= _SHAPE_BYTES
    )
