"""The page that `dormouse load --html` writes: four plots and the table, self-contained, without a script."""

from html import escape
from importlib import resources

from infra.load.plot import Line, chart
from infra.load.report import LoadReport, cells, columns


def load_page(report: LoadReport) -> str:
    """The whole page as HTML."""
    style = (resources.files("infra") / "data" / "load_page.css").read_text(encoding="utf-8")
    mark = "" if report.verdict.kept is None else " yes" if report.passed else " no"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            (
                '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
                f"<title>{escape(report.model)} under load</title><style>{style}</style></head>"
            ),
            "<body><main>",
            f"<h1>{escape(report.model)} under load</h1>",
            f'<p class="verdict{mark}">{escape(report.verdict_sentence())}</p>',
            f"<p>{escape(report.knee_sentence())} {escape(report.cost_sentence())}</p>",
            (
                f"<p>{escape(report.url)}, {escape(report.date)}: random prompts of {report.input_tokens:,} tokens, answers "
                f"of {report.output_tokens:,}, sent by {escape(report.tool)}.</p>"
            ),
            f'<div class="plots">{"".join(_plots(report))}</div>',
            _table(report),
            "<ul class='notes'>" + "".join(f"<li>{escape(note)}</li>" for note in report.all_notes()) + "</ul>",
            "</main></body></html>",
            "",
        ]
    )


def _plots(report: LoadReport) -> list[str]:
    labels = [one.level.label for one in report.results]
    across = "requests at once" if report.kind == "concurrency" else "requests asked for, per second"
    found = report.knee
    mark = None if found is None else (report.results.index(found), "knee")
    throughput = [one.figures.output_tokens_per_s if one.figures else None for one in report.results]
    plots = [
        chart(
            "Output tokens per second",
            labels,
            [Line("output tokens/s", "throughput", throughput)],
            unit="",
            across=across,
            mark=mark,
        )
    ]
    for name, title in (("ttft", "Time to first token"), ("itl", "Between tokens")):
        promise = next((one for one in report.promises if one.name == name), None)
        limit = None if promise is None else (promise.limit_ms, f"promised at p{promise.rank}")
        lines = [
            Line(
                f"p{rank}",
                f"p{rank}",
                [one.figures.latency_ms[name][rank] if one.figures else None for one in report.results],
            )
            for rank in (50, 95, 99)
        ]
        plots.append(chart(title, labels, lines, unit=" ms", across=across, mark=mark, limit=limit))
    shares = [None if one.server.kv_cache_share is None else 100 * one.server.kv_cache_share for one in report.results]
    if any(share is not None for share in shares):
        preempted = sum(one.server.preemptions or 0 for one in report.results)
        title = f"KV cache at its fullest ({preempted:,} preemptions)"
        plots.append(chart(title, labels, [Line("KV cache", "kv", shares)], unit=" %", across=across, top=100.0))
    return plots


def _table(report: LoadReport) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns(report))
    body: list[str] = []
    for one in report.results:
        row = cells(report, one)
        if one.figures is None:
            body.append(
                f'<tr><td>{escape(row[0])}</td><td class="wide" colspan="{len(row) - 1}">{escape(one.cut)}</td></tr>'
            )
            continue
        mark = ' class="at-knee"' if one is report.knee else ""
        body.append(f"<tr{mark}>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>")
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
        "<p>Latencies in milliseconds. KV, waiting and preempted are the server's own figures while the level ran.</p>"
    )
