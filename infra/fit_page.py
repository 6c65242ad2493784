"""The page that `dormouse fit --html` writes: one bar for each machine, self-contained, without a script."""

from collections.abc import Sequence
from html import escape
from importlib import resources

from infra.fit_parts import Group, Part
from infra.fit_rows import FitReport, FitRow
from infra.machine_prices import usd_text
from serving.units import GIB, gb_text, gib_text

# Of the drawing, in its own units; the browser scales it.
_LEFT, _BAR, _RIGHT, _ROW, _THICK = 176, 700, 204, 58, 26
_LETTER = 8.0
_WIDTH = _LEFT + _BAR + _RIGHT


def fit_page(report: FitReport) -> str:
    """The whole page as HTML."""
    style = (resources.files("infra") / "data" / "fit_page.css").read_text(encoding="utf-8")
    title = f"{report.question.title}: will it fit?"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            (
                f'<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
                f"<title>{escape(title)}</title><style>{style}</style></head>"
            ),
            "<body><main>",
            _head(report),
            _legend(report.rows),
            _bars(report.rows),
            _table(report),
            _notes(report),
            "</main></body></html>",
            "",
        ]
    )


def _head(report: FitReport) -> str:
    question = report.question
    limits = question.limits
    asked = "one request" if question.concurrency == 1 else f"{question.concurrency:,} requests"
    facts = (
        f"{gb_text(question.model.total_bytes)} of weights, {escape(question.model.quantisation)}. Asked for: {asked} of"
        f" {limits.context_tokens:,} tokens, KV cache {limits.kv_cache_dtype}, vLLM planning with"
        f" {limits.gpu_memory_utilization:.0%} of each GPU."
    )
    verdict = escape(report.sentence())
    mark = "yes" if report.fits else "no"
    return f'<h1>{escape(question.title)}</h1>\n<p class="verdict {mark}">{verdict}</p>\n<p>{facts}</p>'


def _legend(rows: Sequence[FitRow]) -> str:
    present = {part.group for row in rows for part in row.parts if part.size_bytes > 0}
    items = [
        f'<li><svg width="14" height="14" aria-hidden="true"><rect width="14" height="14" rx="3" {_paint(group)}/></svg>'
        f"{escape(group.value)}</li>"
        for group in Group
        if group in present
    ]
    items.append('<li><svg width="14" height="14" aria-hidden="true"><rect width="14" height="14" rx="3"'
                 ' class="missing"/></svg>missing</li>')  # fmt: skip
    items.append('<li><svg width="14" height="14" aria-hidden="true"><line x1="7" y1="0" x2="7" y2="14"'
                 ' class="budget"/></svg>what vLLM may plan with</li>')  # fmt: skip
    return f'<ul class="legend" aria-label="colours">{"".join(items)}</ul>'


def _bars(rows: Sequence[FitRow]) -> str:
    planned = [row for row in rows if row.parts]
    if not planned:
        return ""
    longest = max(max(row.usable_bytes, row.needed_bytes) for row in planned)
    scale = _BAR / longest
    height = _ROW * len(planned) + 30
    drawn = [_bar(row, index * _ROW, scale) for index, row in enumerate(planned)]
    step = next(gib for gib in (10, 20, 40, 80, 160) if longest / GIB / gib <= 9)
    ticks = [
        f'<line x1="{_LEFT + at * GIB * scale:.1f}" y1="0" x2="{_LEFT + at * GIB * scale:.1f}" y2="{height - 24}"'
        f' class="tick"/><text x="{_LEFT + at * GIB * scale:.1f}" y="{height - 6}" class="axis">{at} GiB</text>'
        for at in range(0, int(longest / GIB) + 1, step)
    ]
    label = f"Memory of one GPU on {len(planned)} machines, filled from the left"
    return (
        f'<div class="scroll"><svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}" class="bars">\n'
        '<defs><pattern id="lack" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="7" height="7" class="lack-ground"/><rect width="3" height="7" class="lack-stripe"/></pattern>'
        f"</defs>\n{''.join(ticks)}\n{chr(10).join(drawn)}\n</svg></div>"
    )


def _bar(row: FitRow, top: int, scale: float) -> str:
    y = top + 14
    out = [
        f"<g><title>{escape(_hover(row))}</title>",
        f'<text x="0" y="{y + 11}" class="name">{escape(row.machine_text)}</text>',
        f'<text x="0" y="{y + 27}" class="small">{escape(_under(row))}</text>',
        f'<rect x="{_LEFT}" y="{y}" width="{row.usable_bytes * scale:.1f}" height="{_THICK}" rx="4" class="ground"/>',
    ]
    x = float(_LEFT)
    end = _LEFT + row.usable_bytes * scale
    for part in row.parts:
        if part.size_bytes <= 0 or (row.missing_bytes and part.group is Group.OUTSIDE):
            continue
        width = part.size_bytes * scale
        inside = max(0.0, min(width, end - x))
        if inside > 0:
            # A hairline keeps neighbours apart.
            out.append(
                f'<rect x="{x:.1f}" y="{y}" width="{max(0.4, inside - 0.8):.1f}" height="{_THICK}"'
                f" {_paint(part.group)}><title>{escape(_part_text(part))}</title></rect>"
            )
        x += width
    budget = _LEFT + row.budget_bytes * scale
    if row.missing_bytes:
        # Whatever lies beyond the line that vLLM plans with is what the GPU would have to have more.
        out.append(
            f'<rect x="{budget:.1f}" y="{y}" width="{row.missing_bytes * scale:.1f}" height="{_THICK}" class="missing">'
            f"<title>{gib_text(row.missing_bytes)} missing</title></rect>"
        )
    out.append(_room_text(row, budget, y, scale))
    out.append(
        f'<line x1="{end:.1f}" y1="{y - 4}" x2="{end:.1f}" y2="{y + _THICK + 4}" class="edge"/>'
        f'<line x1="{budget:.1f}" y1="{y - 4}" x2="{budget:.1f}" y2="{y + _THICK + 4}" class="budget"/>'
    )
    mark = "yes" if row.serves else "no"
    out.append(
        f'<text x="{_WIDTH}" y="{y + 11}" class="result {mark}">{escape(row.verdict())}</text>'
        f'<text x="{_WIDTH}" y="{y + 27}" class="small end">{escape(_right(row))}</text></g>'
    )
    return "".join(out)


def _room_text(row: FitRow, budget: float, y: int, scale: float) -> str:
    """What the KV cache holds, written into its bar where there is room for it."""
    room = next((part.size_bytes for part in row.parts if part.group is Group.KV_CACHE), 0) * scale
    if row.faults or row.kv_cache_tokens == 0 or row.missing_bytes:
        return ""
    texts = (f"{row.kv_cache_tokens:,} tokens · {row.requests:,.1f} requests", f"{row.kv_cache_tokens:,} tokens")
    text = next((one for one in texts if len(one) * _LETTER < room), "")
    return f'<text x="{budget - room / 2:.1f}" y="{y + 17.5}" class="room">{text}</text>' if text else ""


def _table(report: FitReport) -> str:
    head = "".join(
        f"<th>{name}</th>"
        for name in ("machine", "GPUs", "layout", "weights a GPU", "KV tokens", "requests", "$ an hour", "verdict")
    )
    body: list[str] = []
    for row in report.rows:
        cells = (*row.cells(), row.verdict())
        mark = "yes" if row.serves else "no"
        tds = "".join(f"<td>{escape(cell)}</td>" for cell in cells[:-1])
        body.append(f'<tr>{tds}<td class="{mark}">{escape(cells[-1])}{_reasons(row)}</td></tr>')
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def _reasons(row: FitRow) -> str:
    lines = [*row.faults, *([f"works: {row.nearest[0]}"] if row.nearest and not row.serves else [])]
    return "".join(f'<br><span class="why">{escape(line)}</span>' for line in lines)


def _notes(report: FitReport) -> str:
    return "<ul class='notes'>" + "".join(f"<li>{escape(note)}</li>" for note in report.notes()) + "</ul>"


def _paint(group: Group) -> str:
    return f'class="g-{group.name.lower().replace("_", "-")}"'


def _part_text(part: Part) -> str:
    if part.exact:
        return f"{part.group.value}: {gib_text(part.size_bytes, 2)}, exact"
    low, high = part.low_bytes / GIB, part.high_bytes / GIB
    return f"{part.group.value}: {gib_text(part.size_bytes, 2)}, measured: {low:.2f} to {high:.2f}"


def _hover(row: FitRow) -> str:
    return "\n".join([f"{row.machine_text}, {row.layout_text}", *(_part_text(part) for part in row.parts)])


def _under(row: FitRow) -> str:
    return f"{row.gpus_text} · {row.layout_text}"


def _right(row: FitRow) -> str:
    if row.price is None:
        return "price unknown"
    block = ", block" if row.price.purchase == "capacity-block" else ""
    return f"{usd_text(row.usd_per_hour)} an hour{block}"
