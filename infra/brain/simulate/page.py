"""The page that `dormouse simulate --html` writes: the frontier, the days, the table; self-contained, without a script."""

import math
from collections.abc import Sequence
from datetime import timedelta
from html import escape
from importlib import resources
from zoneinfo import ZoneInfo

from infra.brain.simulate.comparison import Comparison, Row

# Of the drawings, in their own units; the browser scales them.
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 1080, 420, 66, 46, 14, 24
_DAY_LEFT, _DAY_HEIGHT, _DAY_STEP = 92, 20, 27
_MOST_DAYS = 28
_MOST_MULTIPLE = 2.0


def simulation_page(compared: Comparison) -> str:
    """The whole page as HTML."""
    style = (resources.files("infra") / "data" / "simulation_page.css").read_text(encoding="utf-8")
    first = compared.services[0]
    many = len(compared.services) > 1
    what = f"mean of {len(compared.services)} services" if many else escape(first.name)
    wake = compared.question.wake_s / 60
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            (
                '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
                f"<title>Sleeping, simulated</title><style>{style}</style></head>"
            ),
            "<body><main>",
            "<h1>What sleeping would have cost, and whom it would have delayed</h1>",
            f'<p class="verdict">{_code(compared.recommendation())}</p>',
            (
                f'<p class="soft">Simulated: {first.days:,.1f} days of past traffic ({what}), a wake takes {wake:g} '
                "minutes, decided by the code that runs in the brain, which learns as it goes and sees no future.</p>"
            ),
            "<h2>Cost against delay</h2>",
            _frontier(compared),
            f"<h2>Day by day: {escape(first.name)}, {escape(compared.question.policy_name)}</h2>",
            _key(),
            _days(compared),
            "<h2>All policies</h2>",
            _table(compared),
            "</main></body></html>",
            "",
        ]
    )


def _code(text: str) -> str:
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def _frontier(compared: Comparison) -> str:
    """Paid time over delayed share: left and low is good."""
    lines = {kind: sorted(compared.of(kind), key=lambda row: row.multiple) for kind in ("bound", "timer", "learned")}
    drawn = [row for rows in lines.values() for row in rows] + [compared.chosen]
    drawn = [row for row in drawn if row.multiple <= _MOST_MULTIPLE] or drawn
    low = math.floor(min(row.multiple for row in drawn) * 20 - 0.2) / 20
    high = math.ceil(max(row.multiple for row in drawn) * 20 + 0.2) / 20
    top = max(max(row.delayed_share for row in drawn) * 1.08, 1e-4)
    across, up = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at(row: Row) -> tuple[float, float]:
        x = _LEFT + (min(row.multiple, high) - low) / (high - low) * across
        return x, _TOP + (1 - min(row.delayed_share, top) / top) * up

    out: list[str] = []
    step = next((one for one in (0.05, 0.1, 0.2, 0.5, 1, 2, 5) if (high - low) / one <= 12), 10)
    for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        x = _LEFT + (index * step - low) / (high - low) * across
        out.append(f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_TOP + up}" class="tick"/>')
        out.append(f'<text x="{x:.1f}" y="{_TOP + up + 18}" class="axis middle">{index * step:.2f}</text>')
    rise = next((one for one in (1e-4, 1e-3, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if top / one <= 8), 0.5)
    for index in range(math.floor(top / rise) + 1):
        y = _TOP + (1 - index * rise / top) * up
        out.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" class="tick"/>')
        out.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" class="axis end">{index * rise * 100:.3g} %</text>')
    out.append(
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" class="axis end">paid time ÷ the least with which nobody would '
        "have been delayed, had all been foreseen</text>"
        f'<text x="{_LEFT + 6}" y="{_TOP + 12}" class="axis">requests delayed</text>'
    )
    named = {"bound": "all foreseen", "timer": "fixed timers", "learned": "learned"}
    for kind, rows in lines.items():
        points = [at(row) for row in rows if row.multiple <= high]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" class="curve {kind}"/>')
        if kind != "bound":
            out.extend(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" class="dot {kind}"><title>{escape(_hover(row))}</title>'
                "</circle>"
                for row, (x, y) in zip([row for row in rows if row.multiple <= high], points, strict=True)
            )
    for index, (kind, name) in enumerate(reversed(named.items())):
        out.append(
            f'<text x="{_WIDTH - _RIGHT - 8}" y="{_TOP + 22 + 20 * index}" class="{kind} end">'
            f"{'– –' if kind == 'bound' else '●'} {name}</text>"
        )
    x, y = at(compared.chosen)
    out.append(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7" class="dot chosen"><title>{escape(_hover(compared.chosen))}</title></circle>'
        f'<text x="{x + 12:.1f}" y="{y - 8:.1f}">{escape(compared.question.policy_name)}</text>'
    )
    label = "Delayed requests over paid time: learned policies, fixed timers, and the bound with all foreseen"
    return (
        f'<div class="scroll"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}" class="frontier">\n'
        f"{''.join(out)}\n</svg></div>"
    )


def _hover(row: Row) -> str:
    return f"{row.name}: {row.multiple:.3f}, {row.delayed_share:.2%} delayed, {row.wakes_per_day:.1f} wakes a day"


def _key() -> str:
    kinds = (("up", "awake and paid"), ("asleep", "asleep"), ("busy", "requests"), ("delayed", "requests delayed"))
    items = (
        f'<li><svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true"><rect width="14" height="14" rx="3" '
        f'class="{kind}"/></svg>{text}</li>'
        for kind, text in kinds
    )
    return f'<ul class="key">{"".join(items)}</ul>'


def _days(compared: Comparison) -> str:
    """One line a day, in the team's time zone: the machine's state, and over it the requests on a logarithmic scale."""
    service, spells = compared.services[0], compared.outcome.spells
    zone = ZoneInfo(compared.question.zone)
    begin = service.start.astimezone(zone)
    first_s = begin.hour * 3600 + begin.minute * 60 + begin.second
    per_day = 86400 / service.bucket_s
    skipped = first_s / service.bucket_s
    total = len(service.requests)
    days = min(_MOST_DAYS, math.ceil((total + skipped) / per_day))
    width = _WIDTH - _DAY_LEFT - 24
    out: list[str] = []
    wake_ticks = max(1, round(compared.question.wake_s / service.bucket_s))
    peak = math.log1p(max(service.requests))

    def pieces(start: float, end: float) -> list[tuple[int, float, float]]:
        found: list[tuple[int, float, float]] = []
        at = start + skipped
        stop = min(end + skipped, days * per_day)
        while at < stop - 1e-9:
            day = int(at // per_day)
            until = min(stop, (day + 1) * per_day)
            found.append((day, (at - day * per_day) / per_day * width, (until - at) / per_day * width))
            at = until
        return found

    def boxes(start: float, end: float, kind: str, share: float = 1.0) -> None:
        for day, x, wide in pieces(start, end):
            tall = _DAY_HEIGHT * share
            y = day * _DAY_STEP + _DAY_HEIGHT - tall + 4
            out.append(
                f'<rect x="{_DAY_LEFT + x:.1f}" y="{y:.1f}" width="{wide:.2f}" height="{tall:.1f}" class="{kind}"/>'
            )

    boxes(0, total, "asleep")
    late: set[int] = set()
    state = [False] * total
    for spell in spells:
        boxes(spell.start, spell.end, "up")
        if spell.why != "start":
            late.update(range(spell.start, min(spell.start + wake_ticks, total)))
        for tick in range(spell.start, spell.end):
            state[tick] = True
    # Neighbours that are drawn alike are one box, so that a page of minutes stays small.
    group = max(1, 300 // service.bucket_s)
    shown = min(total, int(days * per_day - skipped) + 1)
    for at in range(0, shown, group):
        slots = range(at, min(at + group, total))
        busiest = max(service.requests[slot] for slot in slots)
        if busiest > 0:
            hit = any(service.requests[slot] > 0 and (slot in late or not state[slot]) for slot in slots)
            boxes(at, slots[-1] + 1, "delayed" if hit else "busy", 0.25 + 0.65 * math.log1p(busiest) / peak)
    for day in range(days):
        date = (begin + timedelta(days=day)).strftime("%a %d %b")
        out.append(f'<text x="0" y="{day * _DAY_STEP + 18}" class="axis">{date}</text>')
    for hour in range(0, 25, 3):
        x = _DAY_LEFT + hour / 24 * width
        out.append(f'<text x="{x:.1f}" y="{days * _DAY_STEP + 18}" class="axis middle">{hour:02d}:00</text>')
    cut = f'<p class="soft">The first {_MOST_DAYS} days.</p>' if total + skipped > _MOST_DAYS * per_day else ""
    label = "Each day as a line: asleep, awake, requests and delayed requests"
    return (
        f'<div class="scroll"><svg viewBox="0 0 {_WIDTH} {days * _DAY_STEP + 26}" role="img" aria-label="{label}" '
        f'class="days">\n{"".join(out)}\n</svg></div>{cut}'
    )


def _table(compared: Comparison) -> str:
    usd = compared.question.usd_per_hour
    names = ["policy", "awake", "÷ foreseen", "delayed", "wakes a day", *(["$ a day"] if usd else [])]
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(_line(row, usd) for row in compared.rows if row.kind != "bound")
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _line(row: Row, usd_per_hour: float | None) -> str:
    cells: Sequence[str] = (
        row.name,
        f"{row.awake_share:.1%}",
        f"{row.multiple:.3f}",
        f"{row.delayed_share:.2%}",
        f"{row.wakes_per_day:.1f}",
        *([f"{row.awake_share * 24 * usd_per_hour:,.2f}"] if usd_per_hour else []),
    )
    mark = ' class="chosen"' if row.kind == "chosen" else ""
    return f"<tr{mark}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
