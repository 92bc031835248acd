"""Plots of a chapter's own numbers as SVG: lines and points on linear or logarithmic axes, and bars.

Series differ in dash and in the shape of their points, not in colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from courselib.svg import COLOURS, FAINT, GRID, INK, WIDTH, Axis, Plot, caption, document, si

DASHES = ("", "7 4", "2 3", "9 3 2 3", "12 5")
HEIGHT, LEFT, RIGHT, BOTTOM = 360, 74, 24, 52
MARKED = 16  # longer lines are drawn without their own points

Points = Sequence[tuple[float, float]]


def _axis(values: Sequence[float], log: bool, unit: str) -> Axis:
    """An axis that holds the values, with some room; a linear one begins at zero. Raises ValueError if it cannot."""
    low, high = min(values), max(values)
    if not all(map(math.isfinite, values)) or (log and low <= 0) or (not log and low < 0):
        raise ValueError(f"these values cannot be drawn on {'a logarithmic' if log else 'this'} axis: {values}")
    if log:
        room = (high / low) ** 0.03 if high > low else 2.0
        return Axis(low / room, high * room, True, unit)
    return Axis(0.0, 1.04 * high or 1.0, False, unit)


def plot(
    title: str,
    lines: Mapping[str, Points],
    points: Mapping[str, Points] | None = None,
    *,
    x: str = "",
    y: str = "",
    units: tuple[str, str] = ("", ""),
    log: str = "",
) -> Plot:
    """Lines, and points without a line, with a legend; `log` names the logarithmic axes ("x", "y", "xy").

    Short lines show their own points too, unless there are `points` to tell from them.

    `x` and `y` say what the axes show, `units` in what ("s", "B"); tick labels get decimal prefixes.
    Raises ValueError for nothing to draw, and for a value that a logarithmic axis does not have.
    """
    dotted = dict(points or {})
    every = [point for series in (*lines.values(), *dotted.values()) for point in series]
    if not every:
        raise ValueError("nothing to draw")
    across = _axis([point[0] for point in every], "x" in log, units[0])
    up = _axis([point[1] for point in every], "y" in log, units[1])
    top = 40 + 20 * math.ceil((len(lines) + len(dotted)) / 2)
    frame = _Frame(across, up, top)
    parts = [*frame.grid(x, y)]
    for number, (name, series) in enumerate((*lines.items(), *dotted.items())):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        spots = [frame.at(point) for point in series]
        is_line = number < len(lines)
        if is_line:
            path = " ".join(f"{px:.1f},{py:.1f}" for px, py in spots)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" {_dash(dash)}/>')
        marked = not is_line or (not dotted and len(spots) <= MARKED)
        if marked:
            hovers = [f"{escape(name)}: {si(a, units[0])}, {si(b, units[1])}" for a, b in series]
            parts += [_mark(number, px, py, colour, hover) for (px, py), hover in zip(spots, hovers, strict=True)]
        parts += _legend(number, name, colour, dash if is_line else None, marked)
    return Plot(document(title, parts, top + HEIGHT), title)


def bars(title: str, values: Mapping[str, float], *, unit: str = "", log: bool = False) -> Plot:
    """A horizontal bar for each value, in the order given, with its number beside it.

    A bar's length means something only from zero on, so on a logarithmic axis (`log`) a point stands for each value.
    """
    if not values:
        raise ValueError("nothing to draw")
    axis = _axis([*values.values()], log, unit)
    left = 30 + 6.7 * max(map(len, values))
    room, bottom = WIDTH - left - 90, 48 + 26 * len(values)
    parts = [f'<path d="M{left:.1f} 42V{bottom}" stroke="{FAINT}"/>']
    for tick in axis.ticks() if log else ():
        x = left + room * axis.share(tick)
        parts.append(f'<path d="M{x:.1f} 42V{bottom}" stroke="{GRID}"/>')
        parts.append(caption(x, bottom + 16, si(tick, unit), "middle"))
    for row, (name, value) in enumerate(values.items()):
        y, end = 57 + 26 * row, left + room * axis.share(value)
        parts.append(caption(left - 8, y + 4, name, "end", INK, 12))
        if log:
            parts.append(f'<path d="M{left:.1f} {y}H{end:.1f}" stroke="{FAINT}" stroke-dasharray="2 3"/>')
            parts.append(_mark(0, end, y, COLOURS[0], f"{escape(name)}: {si(value, unit)}"))
        else:
            parts.append(f'<path d="M{left:.1f} {y}H{end:.1f}" stroke="{COLOURS[0]}" stroke-width="18"/>')
        parts.append(caption(end + 9, y + 4, si(value, unit), "start", INK, 12))
    if log:
        parts.append(caption(left + room, bottom + 34, "logarithmic", "end"))
    return Plot(document(title, parts, bottom + (44 if log else 14)), title)


@dataclass(frozen=True)
class _Frame:
    across: Axis
    up: Axis
    top: float

    def at(self, point: tuple[float, float]) -> tuple[float, float]:
        inner = HEIGHT - BOTTOM
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * self.across.share(point[0]),
            self.top + inner * (1 - self.up.share(point[1])),
        )

    def grid(self, x: str, y: str) -> Iterator[str]:
        bottom, right = self.top + HEIGHT - BOTTOM, WIDTH - RIGHT
        for tick in self.across.ticks():
            px, _ = self.at((tick, self.up.high))
            yield f'<line x1="{px:.1f}" y1="{self.top}" x2="{px:.1f}" y2="{bottom}" stroke="{GRID}"/>'
            yield caption(px, bottom + 16, si(tick, self.across.unit), "middle")
        for tick in self.up.ticks():
            _, py = self.at((self.across.high, tick))
            yield f'<line x1="{LEFT}" y1="{py:.1f}" x2="{right}" y2="{py:.1f}" stroke="{GRID}"/>'
            yield caption(LEFT - 8, py + 4, si(tick, self.up.unit), "end")
        yield f'<path d="M{LEFT} {self.top}V{bottom}H{right}" fill="none" stroke="{FAINT}"/>'
        scales = {(True, True): "both scales logarithmic", (True, False): "logarithmic across",
                  (False, True): "logarithmic up"}.get((self.across.log, self.up.log), "")  # fmt: skip
        yield caption((LEFT + right) / 2, bottom + 36, x, "middle", INK, 12)
        yield caption(right, bottom + 36, scales, "end")
        middle = (self.top + bottom) / 2
        yield f'<g transform="translate(16 {middle:.0f}) rotate(-90)">{caption(0, 0, y, "middle", INK, 12)}</g>'


def _dash(dash: str) -> str:
    return f'stroke-dasharray="{dash}"' if dash else ""


def _mark(number: int, x: float, y: float, colour: str, hover: str = "") -> str:
    shape = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"',
        f'<rect x="{x - 3.6:.1f}" y="{y - 3.6:.1f}" width="7.2" height="7.2"',
        f'<path d="M{x:.1f} {y - 4.8:.1f}l4.6 8h-9.2z"',
        f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5-5z"',
    )[number % 4]
    return f'{shape} fill="{colour}"><title>{hover}</title></{shape[1:].split()[0]}>'


def _legend(number: int, name: str, colour: str, dash: str | None, marked: bool) -> list[str]:
    x, y = LEFT + 300 * (number % 2), 44 + 20 * (number // 2)
    line = f'<line x1="{x}" y1="{y}" x2="{x + 30}" y2="{y}" stroke="{colour}" stroke-width="2" {_dash(dash or "")}/>'
    mark = _mark(number, x + 15, y, colour) if marked else ""
    return [line if dash is not None else "", mark, caption(x + 38, y + 4, name, "start", INK)]
