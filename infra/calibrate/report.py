"""A calibration for people and as JSON."""

from typing import Any

from infra.calibrate.comparison import Comparison
from infra.calibrate.run import Calibration
from infra.fit_text import table
from serving.measurements import Start


def report_lines(result: Calibration) -> list[str]:
    """What was run, plan against measured, seconds of the start, speed, and what it cannot show."""
    start = result.start
    machine = f"{start.gpus} × {start.gpu}" if result.plan else "the CPU"
    head = f"{start.name} on {machine}, vLLM {start.vllm or 'of unknown version'}"
    lines = [f"{head}{f', driver {start.driver}' if start.driver else ''}"]
    backends = [f"attention {start.backend}"] if start.backend else []
    backends += [f"experts {result.experts_backend}"] if result.experts_backend else []
    if backends:
        lines.append(f"Backends: {', '.join(backends)}.")
    head_row = ("term", "", "planned", "bounds", "measured", "error", "")
    lines += ["", *table([head_row, *(_cells(term) for term in result.terms)], right=(2, 3, 4, 5))]
    if result.plan is None:
        lines.append("There is no GPU here, so nothing but the KV cache has a plan to compare with.")
    elif not start.measured.graphs_estimated_gib and not start.limits.enforce_eager:
        lines.append("This model's runner estimates no CUDA graphs, so none are taken off its KV cache.")
    seconds = ((name, value) for name, value in vars(start.seconds).items() if value is not None)
    lines += ["", "Start: " + ", ".join(f"{_PHASES[name]} {value:.1f} s" for name, value in seconds) + "."]
    if start.speeds:
        rows = [
            (
                f"{speed.requests}",
                _count(speed.prompt_tokens),
                _count(speed.answer_tokens),
                "" if speed.first_token_s is None else f"{speed.first_token_s * 1000:,.0f} ms",
                "" if speed.decode_tokens_per_s is None else f"{speed.decode_tokens_per_s:,.0f}",
            )
            for speed in start.speeds
        ]
        names = ("at once", "prompt", "answer", "first token", "tokens/s together")
        lines += ["", *table([names, *rows], right=(0, 1, 2, 3, 4))]
    if result.cannot_show:
        lines += ["", "What this cannot show:", *(f"  - {words}" for words in result.cannot_show)]
    return lines


def report_mapping(result: Calibration) -> dict[str, Any]:
    """The same as plain JSON, in camelCase."""
    start = result.start
    return {
        "name": start.name,
        "model": start.model,
        "layout": str(start.layout),
        "oneRank": start.one_rank,
        "gpus": start.gpus,
        "gpu": start.gpu,
        "vllm": start.vllm,
        "driver": start.driver,
        "date": start.date,
        "command": start.command,
        "attentionBackend": start.backend,
        "expertsBackend": result.experts_backend,
        "promisesKept": result.kept,
        "terms": [
            {
                "name": term.name,
                "unit": term.unit,
                "planned": round(term.planned, 4),
                "low": round(term.low, 4),
                "high": round(term.high, 4),
                "measured": term.measured,
                "error": None if term.error is None else round(term.error, 6),
                "insideBounds": term.inside,
                "promiseKept": term.kept,
            }
            for term in result.terms
        ],
        "startSeconds": vars(start.seconds),
        "measured": vars(start.measured),
        "speed": [
            {
                "requests": speed.requests,
                "promptTokens": speed.prompt_tokens,
                "answerTokens": speed.answer_tokens,
                "firstTokenSeconds": speed.first_token_s,
                "decodeTokensPerSecond": speed.decode_tokens_per_s,
            }
            for speed in start.speeds
        ],
        "cannotShow": list(result.cannot_show),
    }


def refusal(result: Calibration) -> str:
    """Which promise does not hold, and what it means."""
    broken = [term for term in result.terms if term.kept is False]
    words = "; ".join(
        f"{term.name}: planned {_text(term, term.planned)}, measured {_measured(term)}" for term in broken
    )
    start: Start = result.start
    return (
        f"the plan misses {start.name}: {words}. The figures are those of vLLM {start.vllm} on {start.gpu}; with --into"
        " they are kept, and a plan is to be read with this error until the planner knows of them"
    )


_PHASES = {"load": "weights", "compile": "compile", "graphs": "graphs", "engine": "engine", "ready": "ready after"}


def _cells(term: Comparison) -> tuple[str, ...]:
    verdict = {True: "kept", False: "MISSED", None: ""}[term.kept]
    if not verdict and term.inside is not None:
        verdict = "in bounds" if term.inside else "OUT OF BOUNDS"
    error = "" if term.error is None else f"{term.error:+.2%}"
    bounds = f"{_text(term, term.low)} to {_text(term, term.high)}"
    return term.name, term.unit, _text(term, term.planned), bounds, _measured(term), error, verdict


def _measured(term: Comparison) -> str:
    return "not printed" if term.measured is None else _text(term, term.measured)


def _text(term: Comparison, value: float) -> str:
    return f"{value:,.0f}" if term.unit == "tokens" else f"{value:,.2f}"


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
