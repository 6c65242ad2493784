"""A small line chart as inline SVG: one point for each level, evenly spaced, an optional limit and an optional mark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# Of the drawing, in its own units; the browser scales it.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 520, 270, 76, 20, 34, 44


@dataclass(frozen=True)
class Line:
    """One line: `style` names its colour in the style sheet; a value of None leaves a gap."""

    name: str
    style: str
    values: Sequence[float | None]


def chart(
    title: str,
    labels: Sequence[str],
    lines: Sequence[Line],
    *,
    unit: str,
    across: str,
    limit: tuple[float, str] | None = None,
    mark: tuple[int, str] | None = None,
    top: float | None = None,
) -> str:
    """The chart as an `<svg>`.

    - `labels`: the levels. `unit`: of the values, behind each tick. `across`: what the levels are.
    - `limit`: a value to stay below, and its name. `mark`: the index of a level to point out, and its name.
    - `top`: the highest value of the axis; None is a little above the data.
    """
    values = [one for line in lines for one in line.values if one is not None]
    highest = top if top is not None else max([*values, limit[0] if limit else 0.0, 1e-9]) * 1.08
    step = _step(highest)
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at_x(index: int) -> float:
        return _LEFT + (wide * (index + 0.5) / max(1, len(labels)))

    def at_y(value: float) -> float:
        return _TOP + (1 - min(value, highest) / highest) * high

    out: list[str] = []
    for index in range(math.floor(highest / step + 1e-9) + 1):
        y = at_y(index * step)
        out.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" class="tick"/>')
        out.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" class="end">{index * step:,.10g}{unit}</text>')
    for index, label in enumerate(labels):
        out.append(f'<text x="{at_x(index):.1f}" y="{_HEIGHT - 24}" class="middle">{escape(label)}</text>')
    out.append(f'<text x="{_LEFT + wide / 2}" y="{_HEIGHT - 6}" class="middle">{escape(across)}</text>')
    if mark is not None:
        x = at_x(mark[0])
        out.append(
            f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_TOP + high}" class="knee"/>'
            f'<text x="{x + 5:.1f}" y="{_TOP + 8}">{escape(mark[1])}</text>'
        )
    if limit is not None:
        y = at_y(limit[0])
        out.append(
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" class="limit"/>'
            f'<text x="{_LEFT + 4}" y="{y - 5:.1f}" class="limit-text">{escape(limit[1])}</text>'
        )
    for line in lines:
        for run in _runs(line.values):
            points = " ".join(f"{at_x(index):.1f},{at_y(value):.1f}" for index, value in run)
            out.append(f'<polyline points="{points}" class="s-{line.style}"/>')
            out.extend(
                f'<circle cx="{at_x(index):.1f}" cy="{at_y(value):.1f}" r="4" class="d-{line.style}">'
                f"<title>{escape(line.name)}, {escape(labels[index])}: {value:,.4g}{unit}</title></circle>"
                for index, value in run
            )
    out.append(_legend(lines))
    return (
        f'<figure style="margin:0"><h2>{escape(title)}</h2><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">{"".join(out)}</svg></figure>'
    )


def _legend(lines: Sequence[Line]) -> str:
    out: list[str] = []
    x = float(_LEFT)
    for line in lines:
        out.append(
            f'<circle cx="{x + 5:.1f}" cy="14" r="5" class="d-{line.style}"/>'
            f'<text x="{x + 15:.1f}" y="18">{escape(line.name)}</text>'
        )
        x += 32 + 6.6 * len(line.name)
    return "".join(out)


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The points of a line, broken where values are missing."""
    runs: list[list[tuple[int, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((index, value))
    return [run for run in runs if run]


def _step(highest: float) -> float:
    """The distance of ticks: 1, 2 or 5 times a power of ten, at most six of them."""
    power = 10.0 ** math.floor(math.log10(highest))
    return next(
        power * factor for factor in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0) if highest / (power * factor) <= 6.000001
    )
