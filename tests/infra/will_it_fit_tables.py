"""The tables of docs/will-it-fit.md, computed by the product; run as a module it writes them into the page."""

import re
from pathlib import Path

from infra.fit_parts import parts_of
from infra.fit_question import FitQuestion, LayoutWish, limits_for, machines_named
from infra.fit_rows import answer
from infra.fit_text import report_lines
from serving.accelerators import instance_shape
from serving.checkpoint.report import bytes_by_kind
from serving.checkpoint.weights import Kind, Shard
from serving.fit.kv_cache import kv_bytes_per_token
from serving.fit.layout import Layout, stages
from serving.fit.limits import EngineLimits
from serving.fit.plan import FitPlan, plan_fit
from serving.fit.sharding import rank_weights
from serving.gpu_boxes import gpu_box
from serving.profiles import load_checkpoint
from serving.units import GIB

PAGE = Path(__file__).parents[2] / "docs" / "will-it-fit.md"
MODEL = load_checkpoint("kimi-k2.5")
LIMITS = limits_for(MODEL, context=None, concurrency=None, kv_cache_dtype="auto")
H200 = instance_shape("p5en.48xlarge")


def gib(count: float, digits: int = 2) -> str:
    return f"{count / GIB:,.{digits}f}"


def markdown(*rows: tuple[str, ...]) -> list[str]:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return [head, "|---|" + "---:|" * (len(rows[0]) - 1), *body]


def weights() -> list[str]:
    (stage,) = stages(MODEL.layers, 1)
    rank = rank_weights(MODEL, Layout(8), stage)
    found: list[tuple[str, ...]] = []
    for kind, total in bytes_by_kind(MODEL).items():
        one = sum(count for name, count in rank.items() if _is(kind, name))
        found.append((kind.value, f"{total:,}", gib(total), gib(one)))
    whole = sum(rank.values())
    return markdown(
        ("what", "bytes", "GiB", "GiB on one of 8 GPUs"),
        *found,
        ("**all**", f"**{MODEL.total_bytes:,}**", f"**{gib(MODEL.total_bytes)}**", f"**{gib(whole)}**"),
    )


def _is(kind: Kind, name: str) -> bool:
    return name == kind.value or (kind is Kind.ATTENTION and name.startswith(f"{kind.value}, "))


def attention() -> list[str]:
    rows: list[tuple[str, ...]] = []
    for tensor in MODEL.tensors:
        if (tensor.kind is Kind.ATTENTION and tensor.module.endswith("_proj")) or "kv_a_proj" in tensor.module:
            divided = 1 if tensor.shard is Shard.REPLICATED else 8
            rows.append(
                (
                    f"`{tensor.module.rpartition('.')[2]}`",
                    f"{tensor.rows:,} × {tensor.columns:,}",
                    "whole" if divided == 1 else "an eighth",
                    gib(tensor.total_bytes),
                    gib(tensor.total_bytes / divided),
                )
            )
    return markdown(("matrix", "a layer", "on a GPU", "GiB, 61 layers", "GiB on one of 8 GPUs"), *rows)


def kv_cache() -> list[str]:
    rows: list[tuple[str, ...]] = []
    for dtype in ("auto", "fp8"):
        limits = EngineLimits(262144, 64, kv_cache_dtype=dtype)
        each = kv_bytes_per_token(MODEL, Layout(8), limits)
        rows.append((dtype, f"{each // MODEL.layers:,}", f"{each:,}", gib(each * 262144)))
    return markdown(("`--kv-cache-dtype`", "bytes a layer", "bytes a token", "GiB, 262,144 tokens"), *rows)


def budget() -> list[str]:
    plan = plan_fit(MODEL, Layout(8), H200, LIMITS)
    rows = [("usable memory", gib(plan.usable_bytes), ""), ("× 0.92, the budget", gib(plan.budget_bytes), "exact")]
    for part in parts_of(plan):
        known = "exact" if part.exact else f"{gib(part.low_bytes)} to {gib(part.high_bytes)}"
        rows.append((part.group.value, gib(part.size_bytes), known))
    rows.append(
        ("used at its peak", gib(plan.peak_used.count), f"{gib(plan.peak_used.low)} to {gib(plan.peak_used.high)}")
    )
    return markdown(("on one GPU", "GiB", "known"), *rows)


def layouts() -> list[str]:
    def row(words: str, plan: FitPlan) -> tuple[str, ...]:
        fits = "fits" if plan.fits else f"lacks {gib(plan.missing_bytes, 1)} GiB"
        tokens = f"{plan.kv_cache_tokens:,}" if plan.fits else "-"
        requests = f"{plan.full_context_requests:.2f}" if plan.fits else "-"
        return words, gib(plan.weights_bytes_per_gpu), tokens, requests, fits

    fp8 = EngineLimits(262144, LIMITS.max_sequences, kv_cache_dtype="fp8")
    h100 = instance_shape("p5.48xlarge")
    return markdown(
        ("layout", "weights a GPU, GiB", "KV tokens", "requests of 262,144", "verdict"),
        row("8 × H200, TP8", plan_fit(MODEL, Layout(8), H200, LIMITS)),
        row("8 × H200, TP8, fp8 KV cache", plan_fit(MODEL, Layout(8), H200, fp8)),
        row("8 × H200, TP8 + DCP8", plan_fit(MODEL, Layout(8, decode_context_parallel=8), H200, LIMITS)),
        row("8 × H200, DP8 + EP", plan_fit(MODEL, Layout(1, data_parallel=8, expert_parallel=True), H200, LIMITS)),
        row("16 × H200, PP2 × TP8", plan_fit(MODEL, Layout(8, pipeline_parallel=2, nodes=2), H200, LIMITS)),
        row("4 × H200, TP4", plan_fit(MODEL, Layout(4), gpu_box("4xH200"), LIMITS)),
        row("8 × H100, TP8", plan_fit(MODEL, Layout(8), h100, LIMITS)),
        row("16 × H100, PP2 × TP8", plan_fit(MODEL, Layout(8, pipeline_parallel=2, nodes=2), h100, LIMITS)),
    )


def machines() -> list[str]:
    question = FitQuestion(MODEL, "Kimi K2.5", LIMITS, LayoutWish(vision_mode="data"), machines_named([]))
    lines = report_lines(answer(question))
    return ["```", *lines[: lines.index("", 2)], "```"]


TABLES = {
    "weights": weights,
    "attention": attention,
    "kv-cache": kv_cache,
    "budget": budget,
    "layouts": layouts,
    "machines": machines,
}
MARK = re.compile(r"<!-- computed: ([a-z-]+) -->\n(.*?)\n<!-- end -->", re.DOTALL)


def written() -> str:
    """The page with every table computed anew."""

    def computed(found: re.Match[str]) -> str:
        return f"<!-- computed: {found[1]} -->\n" + "\n".join(TABLES[found[1]]()) + "\n<!-- end -->"

    return MARK.sub(computed, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
