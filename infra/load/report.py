"""A load report: everything that a sweep found, as sentences, a table, JSON and CSV."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.load.judgement import Cost, Promise, Verdict, costs, judge, knee, misses
from infra.load.levels import LevelKind
from infra.load.measured import LATENCIES, LATENCY_NAMES, PERCENTILES, LevelResult
from infra.load.run import SweepOutcome

_COLUMNS = (
    "req/s", "output tok/s", "TTFT p50", "p95", "ITL p50", "p95", "end to end p95", "failed", "KV", "waiting", "preempted",
)  # fmt: skip


@dataclass(frozen=True)
class LoadReport:
    """One sweep with what it means.

    - `url`, `model`, `input_tokens`, `output_tokens`: what was asked, of whom. `date`: when, in UTC.
    - `usd_per_hour`: what the machines cost, None where nobody said; `price_words`: whose price that is.
    - `at`: the level at which the promises have to hold; None is the highest.
    """

    url: str
    model: str
    kind: LevelKind
    input_tokens: int
    output_tokens: int
    date: str
    outcome: SweepOutcome
    promises: tuple[Promise, ...] = ()
    at: float | None = None
    usd_per_hour: float | None = None
    price_words: str = ""
    tool: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def results(self) -> tuple[LevelResult, ...]:
        """The levels' results, lowest first."""
        return self.outcome.results

    @property
    def verdict(self) -> Verdict:
        """Whether the promised latencies hold."""
        return judge(self.results, self.promises, self.at)

    @property
    def knee(self) -> LevelResult | None:
        """Where more load stops paying."""
        return knee(self.results)

    @property
    def costs(self) -> tuple[Cost, ...]:
        """Dollars for a million tokens, level by level; empty without a price."""
        return () if self.usd_per_hour is None else costs(self.results, self.usd_per_hour)

    @property
    def passed(self) -> bool:
        """Whether something was measured, requests succeeded, and every promise holds."""
        answered = any(one.figures is not None and one.figures.completed for one in self.results)
        return answered and self.verdict.kept is not False

    def knee_sentence(self) -> str:
        """Where the knee is, in words."""
        found = self.knee
        if found is not None and found.figures is not None:
            return (
                f"The knee is at {found.level}: {found.figures.output_tokens_per_s:,.0f} output tokens/s; "
                "beyond it throughput grows slower than the square root of the load."
            )
        measured = [one for one in self.results if one.figures is not None]
        if len(measured) < 2:
            return "No knee can be told from fewer than two measured levels."
        return f"No knee up to {measured[-1].level}: throughput still grows with the load."

    def verdict_sentence(self) -> str:
        """The verdict on the promises, in words."""
        verdict = self.verdict
        if verdict.kept is None:
            return (
                "No latency was promised (--slo-ttft-ms, --slo-itl-ms, --slo-tpot-ms, --slo-e2e-ms), so none is judged."
            )
        held = f"they hold up to {verdict.holds_up_to}" if verdict.holds_up_to else "they hold at no level"
        where = f"at {verdict.at}" if verdict.at else "at the level that counts"
        if verdict.kept:
            return f"SLO kept {where}: {'; '.join(map(str, self.promises))}."
        return f"SLO missed {where}: {'; '.join(verdict.misses)}; {held}."

    def cost_sentence(self) -> str:
        """The best price of a million tokens, in words."""
        if not self.costs:
            return "What a million tokens costs is unknown: --usd-per-hour or --stack tells what the machines cost."
        best = min(self.costs, key=lambda one: one.usd_per_million_output)
        return (
            f"At {best.level} a million output tokens costs ${best.usd_per_million_output:,.2f}, a million tokens of prompts "
            f"and answers ${best.usd_per_million_total:,.2f} ({self.price_words}, busy all the time)."
        )

    def all_notes(self) -> tuple[str, ...]:
        """What a reader has to know besides."""
        return (*self.outcome.notes, *self.notes)


def columns(report: LoadReport) -> tuple[str, ...]:
    """The heads of `cells`."""
    first = "at once" if report.kind == "concurrency" else "asked req/s"
    return (first, *_COLUMNS, *(("$/M output",) if report.costs else ()))


def cells(report: LoadReport, result: LevelResult) -> tuple[str, ...]:
    """One level as the cells of a table's row; milliseconds and tokens per second."""
    figures, server = result.figures, result.server
    if figures is None:
        return (result.level.label, result.cut, *[""] * (len(columns(report)) - 2))
    ttft, itl, whole = (figures.latency_ms[name] for name in ("ttft", "itl", "e2el"))
    price = next((one for one in report.costs if one.level == result.level), None)
    return (
        result.level.label,
        f"{figures.requests_per_s:,.2f}",
        f"{figures.output_tokens_per_s:,.0f}",
        _ms(ttft[50]), _ms(ttft[95]), _ms(itl[50]), _ms(itl[95]), _ms(whole[95]),
        str(figures.failed),
        "?" if server.kv_cache_share is None else f"{server.kv_cache_share:.0%}",
        "?" if server.waiting is None else str(server.waiting),
        "?" if server.preemptions is None else str(server.preemptions),
        *(() if not report.costs else ("?",) if price is None else (f"{price.usd_per_million_output:,.2f}",)),
    )  # fmt: skip


def report_lines(report: LoadReport) -> list[str]:
    """The report for a terminal."""
    asked = f"prompts of {report.input_tokens:,} tokens, answers of {report.output_tokens:,}"
    lines = [f"{report.model} at {report.url}: {asked}; latencies in ms"]
    rows = [columns(report), *(cells(report, one) for one in report.results)]
    whole = [row for row, one in zip(rows[1:], report.results, strict=True) if one.figures is not None]
    widths = [max(len(row[index]) for row in (rows[0], *whole)) for index in range(len(rows[0]))]
    lines.append("  " + "  ".join(text.rjust(width) for text, width in zip(rows[0], widths, strict=True)))
    for row, one in zip(rows[1:], report.results, strict=True):
        if one.figures is None:
            lines.append(f"  {row[0].rjust(widths[0])}  {one.cut}")
            continue
        mark = "  < knee" if report.knee is one else ""
        lines.append("  " + "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) + mark)
    lines += [report.knee_sentence(), report.verdict_sentence(), report.cost_sentence()]
    return lines + [f"note: {note}" for note in report.all_notes()]


def report_mapping(report: LoadReport) -> dict[str, Any]:
    """The report as plain JSON, in camelCase; null where nobody knows."""
    verdict, found = report.verdict, report.knee
    return {
        "url": report.url,
        "model": report.model,
        "date": report.date,
        "tool": report.tool,
        "kind": report.kind,
        "inputTokens": report.input_tokens,
        "outputTokens": report.output_tokens,
        "passed": report.passed,
        "levels": [_level_mapping(report, one) for one in report.results],
        "knee": None if found is None else found.level.value,
        "slo": None
        if verdict.kept is None
        else {
            "kept": verdict.kept,
            "promises": [str(one) for one in report.promises],
            "at": verdict.at.value if verdict.at else report.at,
            "holdsUpTo": verdict.holds_up_to.value if verdict.holds_up_to else None,
            "misses": list(verdict.misses),
        },
        "usdPerHour": report.usd_per_hour,
        "notes": list(report.all_notes()),
    }


def report_csv(report: LoadReport) -> str:
    """One line for each level, every percentile in its own column."""
    rows = [_flat(report, one) for one in report.results]
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _level_mapping(report: LoadReport, result: LevelResult) -> dict[str, Any]:
    figures, server = result.figures, result.server
    price = next((one for one in report.costs if one.level == result.level), None)
    return {
        "value": result.level.value,
        "requests": result.level.requests,
        "cut": result.cut or None,
        "completed": figures.completed if figures else None,
        "failed": figures.failed if figures else None,
        "durationS": round(figures.duration_s, 3) if figures else None,
        "requestsPerS": figures.requests_per_s if figures else None,
        "outputTokensPerS": figures.output_tokens_per_s if figures else None,
        "totalTokensPerS": figures.total_tokens_per_s if figures else None,
        "latencyMs": {name: {f"p{rank}": figures.latency_ms[name][rank] for rank in PERCENTILES} for name in LATENCIES}
        if figures
        else None,
        "kvCacheShare": server.kv_cache_share,
        "running": server.running,
        "waiting": server.waiting,
        "preemptions": server.preemptions,
        "prefixHitShare": server.prefix_hit_share,
        "usdPerMillionOutputTokens": price.usd_per_million_output if price else None,
        "usdPerMillionTokens": price.usd_per_million_total if price else None,
        "misses": list(misses(result, report.promises)),
    }


def _flat(report: LoadReport, result: LevelResult) -> Mapping[str, object]:
    row = _level_mapping(report, result)
    latency: dict[str, dict[str, float]] = row.pop("latencyMs") or {}
    del row["misses"]
    spread = {
        f"{name}_p{rank}_ms": latency.get(name, {}).get(f"p{rank}") for name in LATENCY_NAMES for rank in PERCENTILES
    }
    return {report.kind: row.pop("value"), **row, **spread}


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
