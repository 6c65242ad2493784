"""What people read of a checkpoint: bytes by kind, and which modules are quantised and which are not."""

from dataclasses import dataclass

from serving.checkpoint.model import CheckpointModel
from serving.checkpoint.weights import Kind


@dataclass(frozen=True)
class QuantisationRow:
    """Modules that are alike: their path's pattern, what they are for, and how they are stored."""

    module: str
    kind: Kind
    quantised: bool
    scheme: str
    count: int
    total_bytes: int


def quantisation_report(model: CheckpointModel) -> tuple[QuantisationRow, ...]:
    """One row for each pattern of modules, the largest first; the rows' bytes add up to the model's."""
    rows = (
        QuantisationRow(
            module=tensor.module,
            kind=tensor.kind,
            quantised=tensor.quantised,
            scheme=tensor.storage.scheme,
            count=tensor.count,
            total_bytes=tensor.total_bytes,
        )
        for tensor in model.tensors
    )
    return tuple(sorted(rows, key=lambda row: (-row.total_bytes, row.module)))


def bytes_by_kind(model: CheckpointModel) -> dict[Kind, int]:
    """Bytes of each kind that the model has; the scales of routed experts are counted on their own."""
    found: dict[Kind, int] = {}
    for tensor in model.tensors:
        total = tensor.total_bytes
        if tensor.kind is Kind.ROUTED_EXPERTS:
            scales = tensor.count * tensor.storage.scale_bytes_total(tensor.rows, tensor.columns)
            if scales:
                found[Kind.EXPERT_SCALES] = found.get(Kind.EXPERT_SCALES, 0) + scales
            total -= scales
        found[tensor.kind] = found.get(tensor.kind, 0) + total
    return {kind: found[kind] for kind in Kind if kind in found}
