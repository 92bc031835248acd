"""The picture of a job on several workers: what each did over time, as bars; what was lost is red."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from grader.trace import style
from grader.trace.labels import fit, width
from grader.trace.paper import Heading
from grader.trace.style import BAD, BAD_PALE, GRID, INK, LEGEND_ROW, MOVING, MOVING_EDGE, PALE, QUIET, SOFT, text

Became = Literal["done", "died", "failed", "still", "again"]
LEFT, WIDE, ROW, TALL = 74, 1000, 34, 22
_LOOKS: dict[Became, tuple[str, str, str]] = {  # fill, edge, dashes
    "done": (MOVING, MOVING_EDGE, ""), "again": (style.WAIT_PALE, style.WAIT, ""), "died": (BAD_PALE, BAD, ""),
    "failed": (BAD_PALE, BAD, "3 2"), "still": (PALE, QUIET, "5 3"),
}  # fmt: skip
_WORDS: dict[Became, str] = {
    "done": "a task that is done", "again": "submitted again", "died": "lost with its worker",
    "failed": "raised an error", "still": "stands still",
}  # fmt: skip


@dataclass(frozen=True)
class Bar:
    """One task on one lane; times in seconds."""

    lane: str
    begin: float
    end: float
    text: str
    became: Became = "done"


@dataclass
class Chart:
    """All of it, lanes from top to bottom. `gone` says when a lane's worker was killed, `came` when one joined."""

    lanes: tuple[str, ...]
    bars: list[Bar] = field(default_factory=list)
    gone: dict[str, float] = field(default_factory=dict)
    came: dict[str, float] = field(default_factory=dict)
    end: float = 0.0
    title: str = ""
    subtitle: str = ""
    unit: str = " s"  # of what bars are long in
    words: dict[Became, str] = field(default_factory=lambda: dict(_WORDS))  # of the legend
    lines: bool = True  # whether a lane goes on where it has no bar
    cross: str = "its worker is killed"  # in the legend
    outcome: Any = None  # the run that it is of

    def _repr_svg_(self) -> str:
        return svg(self)


def svg(chart: Chart) -> str:
    """The picture, as SVG text."""
    heading = Heading.of(chart.title, chart.subtitle, WIDE)
    top = 40.0 + heading.height
    bottom = top + ROW * len(chart.lanes)
    left = max([LEFT, *(int(30 + width(lane, 12)) for lane in chart.lanes)])
    scale = (WIDE - left - 24) / (chart.end or 1.0)

    def x(time: float) -> float:
        return round(left + scale * time, 1)

    body = heading.draw()
    for second in range(0, int(chart.end) + 1, _step(chart.end)):
        body.append(f'<path d="M{x(second)} {top}V{bottom}" stroke="{GRID}"/>')
        unit = chart.unit if second == 0 or chart.unit == " s" else ""
        body.append(text(x(second), top - 6, f"{second:,}{unit}", 10, SOFT, more=' text-anchor="middle"'))
    for number, lane in enumerate(chart.lanes):
        y = top + ROW * number
        middle = y + ROW / 2
        until = x(chart.gone.get(lane, chart.end))
        if chart.lines:
            body.append(f'<path d="M{left} {middle}H{until}" stroke="{QUIET}"/>')
        body.append(text(16, middle + 4, lane, 12, INK, more=' font-weight="600"'))
        bars = [bar for bar in chart.bars if bar.lane == lane]
        for bar in bars:
            body += _drawn(bar, x(bar.begin), x(bar.end), y + (ROW - TALL) / 2, alone=len(bars) == 1)
        if lane in chart.came:
            body.append(_arrow(x(chart.came[lane]) - 9, middle))
        if lane in chart.gone:
            body.append(style.cross(x(chart.gone[lane]), middle))
    used = [became for became in _LOOKS if any(bar.became == became for bar in chart.bars)]
    entries = [(_box(1, -12, 24, 14, became), chart.words[became]) for became in used]
    if chart.gone:
        entries.append((style.cross(12, -4), chart.cross))
    if chart.came:
        entries.append((_arrow(8, -4), "joins"))
    legend = style.legend_rows(entries, WIDE - 32)
    body += style.legend(legend, 16, bottom + 26)
    return style.document(WIDE, bottom + 30 + LEGEND_ROW * len(legend), chart.title, body)


def _step(end: float) -> int:
    """A round number, of which there are at most twelve."""
    step = 1
    while end / step > 12:
        step *= 5 if str(step)[0] == "2" and end / step <= 60 else 2 if str(step)[0] != "2" else 5
    return step


def _drawn(bar: Bar, begin: float, end: float, y: float, alone: bool) -> list[str]:
    found = [_box(begin, y, max(2.0, end - begin), TALL, bar.became)]
    label, at = fit(bar.text, 10.5, end - begin - 6) if end - begin > 20 else "", begin + 4
    if alone and label != bar.text and WIDE - end > end - begin:
        label, at = fit(bar.text, 10.5, WIDE - end - 20), max(end, begin + 2) + 6  # beside it, where there is room
    if label:
        colour = BAD if bar.became in ("died", "failed") else INK
        found.append(text(at, y + 15, label, 10.5, colour))
    return found


def _arrow(x: float, y: float) -> str:
    """Into a lane, from the left."""
    return f'<path d="M{x - 6:.1f} {y - 6:.1f}l12 6l-12 6z" fill="{MOVING_EDGE}"/>'


def _box(x: float, y: float, wide: float, tall: float, became: Became) -> str:
    fill, edge, dashes = _LOOKS[became]
    more = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<rect x="{x}" y="{y}" width="{round(wide, 1)}" height="{tall}" rx="3" fill="{fill}" stroke="{edge}"{more}/>'
    )
