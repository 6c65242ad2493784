"""The answer of `dormouse fit` in words: a table over machines, one machine's plan, the modules of a checkpoint."""

from collections.abc import Sequence

from infra.fit_parts import WEIGHT_GROUPS, Group
from infra.fit_rows import FitReport, FitRow
from serving.checkpoint.model import CheckpointModel
from serving.checkpoint.report import bytes_by_kind, quantisation_report
from serving.units import GIB, gb_text, gib_text

_HEADINGS = ("machine", "GPUs", "layout", "weights/GPU", "KV tokens", "requests", "$/hour", "verdict")
_RIGHT_ALIGNED = (3, 4, 5, 6)
_NAME_WIDTH = 44


def report_lines(report: FitReport) -> list[str]:
    """The table over machines, what would work for those that fail, and where the numbers come from."""
    question = report.question
    limits = question.limits
    head = (
        f"{question.title}: {gb_text(question.model.total_bytes)} of weights ({question.model.quantisation});"
        f" {limits.context_tokens:,} tokens a request, KV cache {limits.kv_cache_dtype},"
        f" {limits.gpu_memory_utilization:.0%} of each GPU"
    )
    lines = [head, "", *table([_HEADINGS, *((*row.cells(), row.verdict()) for row in report.rows)])]
    reasons = [f"  {row.machine_text} {row.layout_text}: {'; '.join(row.faults)}" for row in report.rows if row.faults]
    if reasons:
        lines += ["", "What stands against a layout:", *reasons]
    works = [f"  {row.machine_text}: {row.nearest[0]}" for row in report.rows if row.nearest and not row.serves]
    if works:
        lines += ["", "Nearest that works, for those that lack memory:", *works]
    return [*lines, "", report.sentence(), *report.notes()]


def row_lines(report: FitReport, row: FitRow) -> list[str]:
    """One machine's plan in full: every part on the fullest GPU, then what is left for requests."""
    question = report.question
    verdict = "fits" if row.serves else "does not fit"
    lines = [
        (
            f"{question.title} ({gb_text(question.model.total_bytes)}) {verdict} on {row.machine_text} ({row.gpus_text}),"
            f" {row.layout_text}. On the fullest GPU:"
        ),
        *_pairs(
            [
                ("usable memory", gib_text(row.usable_bytes, 2)),
                (
                    "vLLM may plan with",
                    f"{gib_text(row.budget_bytes, 2)} ({question.limits.gpu_memory_utilization:.0%})",
                ),
                ("weights", gib_text(row.weights_bytes, 2)),
            ]
        ),
    ]
    for part in row.parts:
        if part.size_bytes <= 0:
            continue
        indent = "  " if part.group in WEIGHT_GROUPS else ""
        text = gib_text(part.size_bytes, 2)
        if not part.exact:
            how = "what is left" if part.group is Group.KV_CACHE else "measured"
            text += f", {how} ({part.low_bytes / GIB:.2f} to {part.high_bytes / GIB:.2f})"
        lines += _pairs([(indent + part.group.value, text)])
    if row.serves or row.kv_cache_tokens > 0:
        lines.append(
            f"The KV cache holds {row.kv_cache_tokens:,} tokens: {row.requests:.2f} requests of"
            f" {question.limits.context_tokens:,} tokens at once."
        )
    if row.plan.experts_backend:
        other = row.plan.other_experts_backend
        instead = f"; --moe-backend {other} pads otherwise" if other else ""
        lines.append(f"Packed experts run on {row.plan.experts_backend}, whose padding is counted{instead}.")
    lines += row.safety_lines()
    if row.missing_bytes:
        lines.append(f"Each GPU lacks {gib_text(row.missing_bytes, 2)}.")
    lines += [f"Nearest that works: {text}" for text in row.nearest]
    return lines


def module_lines(model: CheckpointModel) -> list[str]:
    """Which modules are quantised and which are not, with bytes, then the bytes of each kind."""
    rows = quantisation_report(model)
    body = [
        (
            row.module,
            row.kind.value,
            "quantised" if row.quantised else "not",
            row.scheme,
            f"{row.count:,}",
            f"{row.total_bytes:,}",
        )
        for row in rows
    ]
    quantised = sum(row.total_bytes for row in rows if row.quantised)
    kinds = [(kind.value, f"{count:,}", f"{count / GIB:.3f}") for kind, count in bytes_by_kind(model).items()]
    return [
        f"{model.name}: {model.architecture}, {model.quantisation}, {model.total_bytes:,} bytes",
        "",
        *table([("module", "for", "quantised", "stored as", "count", "bytes"), *body], right=(4, 5)),
        "",
        *table([("kind", "bytes", "GiB"), *kinds, ("total", f"{model.total_bytes:,}", f"{model.total_bytes / GIB:.3f}")],
               right=(1, 2)),
        "",
        f"Quantised: {gb_text(quantised)}; not: {gb_text(model.total_bytes - quantised)}.",
    ]  # fmt: skip


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = _RIGHT_ALIGNED) -> list[str]:
    """Rows as aligned text, two spaces apart; the columns in `right` end in line."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(widths[column]) if column in right else cell.ljust(widths[column])
            for column, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]


def _pairs(rows: Sequence[tuple[str, str]]) -> list[str]:
    return [f"  {name:<{_NAME_WIDTH}}{value}" for name, value in rows]
