"""The answers of `dormouse fit` and `dormouse choose` as plain JSON: camelCase, bytes whole, an unknown price null."""

from typing import Any

from infra.choice import Choice
from infra.fit_question import FitQuestion
from infra.fit_rows import FitReport, FitRow
from infra.machine_prices import MachinePrice
from infra.speed_text import estimate_mapping
from serving.checkpoint.model import CheckpointModel
from serving.checkpoint.report import bytes_by_kind, quantisation_report
from serving.fit.layout import Layout
from serving.speed import Estimate


def report_mapping(report: FitReport) -> dict[str, Any]:
    """The table over machines."""
    return {
        **_asked(report.question),
        "fits": report.fits,
        "sentence": report.sentence(),
        "instead": list(report.instead),
        "machines": [row_mapping(row) for row in report.rows],
    }


def row_mapping(row: FitRow) -> dict[str, Any]:
    """One machine."""
    return {
        "machine": row.shape.name,
        "nodes": row.layout.nodes,
        "gpu": row.shape.gpu,
        "gpusPerNode": row.shape.gpus,
        "layout": _layout(row.layout),
        "layoutText": row.layout_text,
        "fits": row.serves,
        "faults": list(row.faults),
        "attentionBackend": row.plan.backend,
        "expertsBackend": row.plan.experts_backend or None,
        "usableBytesPerGpu": row.usable_bytes,
        "usableIsEstimate": row.shape.usable_is_estimate,
        "budgetBytesPerGpu": row.budget_bytes,
        "weightsBytesPerGpu": row.weights_bytes,
        "parts": [
            {
                "name": part.group.value,
                "bytes": part.size_bytes,
                "exact": part.exact,
                "lowBytes": part.low_bytes,
                "highBytes": part.high_bytes,
            }
            for part in row.parts
        ],
        "kvCacheTokens": row.kv_cache_tokens,
        "fullContextRequests": round(row.requests, 3),
        "missingBytesPerGpu": row.missing_bytes,
        "peakUsedBytesPerGpu": row.peak_used_bytes,
        "highestSafeUtilization": row.highest_safe_utilization,
        "proposedUtilization": row.proposed_utilization,
        "usdPerHour": row.usd_per_hour,
        "prices": [_price(price, row.layout.nodes) for price in row.prices],
        "nearest": list(row.nearest),
    }


def choice_mapping(choice: Choice) -> dict[str, Any]:
    """The ranking."""
    return {
        **_asked(choice.question),
        "budgetUsdPerHour": choice.budget_usd_per_hour,
        "offers": [
            {
                "rank": rank,
                "machine": offer.row.shape.name,
                "nodes": offer.row.layout.nodes,
                "purchase": offer.purchase,
                "layout": _layout(offer.row.layout),
                "layoutText": offer.row.layout_text,
                "usdPerHour": offer.usd_per_hour,
                "kvCacheTokens": offer.row.kv_cache_tokens,
                "fullContextRequests": round(offer.row.requests, 3),
                "price": None if offer.price is None else _price(offer.price, offer.row.layout.nodes),
                "estimates": list(offer.estimates),
                "decodeTokensPerSecondEstimate": _estimate(offer.decode_tokens_per_s(choice.question.concurrency)),
                "usdPerMillionTokensEstimate": _estimate(offer.usd_per_million_tokens(choice.question.concurrency)),
            }
            for rank, offer in enumerate(choice.offers, 1)
        ],
        "engine": {"name": choice.advice.engine, "reason": choice.advice.reason, "deployed": "vLLM"},
    }


def modules_mapping(model: CheckpointModel) -> dict[str, Any]:
    """What of a checkpoint is quantised and what not."""
    return {
        "model": model.name,
        "architecture": model.architecture,
        "quantisation": model.quantisation,
        "totalBytes": model.total_bytes,
        "modules": [
            {
                "module": row.module,
                "kind": row.kind.value,
                "quantised": row.quantised,
                "scheme": row.scheme,
                "count": row.count,
                "bytes": row.total_bytes,
            }
            for row in quantisation_report(model)
        ],
        "kinds": [{"kind": kind.value, "bytes": count} for kind, count in bytes_by_kind(model).items()],
    }


def _estimate(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else estimate_mapping(estimate)


def _asked(question: FitQuestion) -> dict[str, Any]:
    limits = question.limits
    return {
        "model": question.model.name,
        "title": question.title,
        "architecture": question.model.architecture,
        "quantisation": question.model.quantisation,
        "weightsBytes": question.model.total_bytes,
        "contextTokens": limits.context_tokens,
        "concurrency": question.concurrency,
        "kvCacheDtype": limits.kv_cache_dtype,
        "maxBatchedTokens": limits.max_batched_tokens,
        "gpuMemoryUtilization": limits.gpu_memory_utilization,
        "region": question.region,
    }


def _layout(layout: Layout) -> dict[str, Any]:
    return {
        "tensorParallel": layout.tensor_parallel,
        "pipelineParallel": layout.pipeline_parallel,
        "dataParallel": layout.data_parallel,
        "expertParallel": layout.expert_parallel,
        "decodeContextParallel": layout.decode_context_parallel,
        "nodes": layout.nodes,
        "visionMode": layout.vision_mode,
        "draft": None if layout.draft is None else layout.draft.name,
    }


def _price(price: MachinePrice, nodes: int) -> dict[str, Any]:
    return {
        "purchase": price.purchase,
        "region": price.region,
        "usdPerHour": round(price.usd_per_hour * nodes, 4),
        "origin": price.price.origin(),
    }
