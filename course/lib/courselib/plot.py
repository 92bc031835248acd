"""Plots of a chapter's own numbers as SVG: lines and points on linear or logarithmic axes, and bars.

The SVG needs no script and no font of its own, so it shows in every notebook front end and prints. Series differ in
dash and in the shape of their points, not in colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#7b4ea3", "#5c6b78")  # told apart also by most colour-blind readers
DASHES = ("", "7 4", "2 3", "9 3 2 3", "12 5")
WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM = 680, 360, 74, 24, 52
MARKED = 16  # longer lines are drawn without their own points
INK, FAINT, GRID, PAPER = "#1f2933", "#616e7c", "#e4e7eb", "#ffffff"
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))

Points = Sequence[tuple[float, float]]


def si(value: float, unit: str = "", digits: int = 3) -> str:
    """`value` with a decimal prefix: si(0.00021, "s") is "210 µs". Without a unit: thousands, "20k"."""
    if value == 0:
        return f"0 {unit}".strip()
    value = float(f"{value:.{digits}g}")
    scale, prefix = next(((s, p) for s, p in PREFIXES if abs(value) >= s * (1 - 1e-9)), PREFIXES[-1])
    if not unit and scale < 1:
        scale, prefix = 1.0, ""
    number = f"{value / scale:.10g}"
    return f"{number} {prefix}{unit}" if unit else f"{number}{prefix}"


@dataclass(frozen=True)
class Plot:
    """A finished picture."""

    svg: str = field(repr=False)
    title: str

    def _repr_html_(self) -> str:
        return f'<div style="background:#fff;color:{INK}">{self.svg}</div>'


@dataclass(frozen=True)
class Axis:
    """Where a value lies between `low` and `high`, as a share of the axis, and where it has its ticks."""

    low: float
    high: float
    log: bool = False
    unit: str = ""

    def share(self, value: float) -> float:
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """At most about eight round numbers."""
        if not self.log:
            step = next(s for s in _round_numbers(1e-12) if (self.high - self.low) / s <= 6)
            return [step * k for k in range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)]
        decades = math.log10(self.high / self.low)
        every = max(1, math.ceil(decades / 7))
        first = math.ceil(math.log10(self.low) - 1e-9)
        powers = range(first, math.floor(math.log10(self.high) + 1e-9) + 1)
        if decades > 3.2:
            return [10.0**power for power in powers if (power - first) % every == 0]
        finer = (m * 10.0**power for power in range(first - 1, powers.stop + 1) for m in (1, 2, 5))
        return [tick for tick in finer if self.low * (1 - 1e-9) <= tick <= self.high * (1 + 1e-9)]


def _round_numbers(start: float) -> Iterator[float]:
    while True:
        yield from (start, 2 * start, 5 * start)
        start *= 10


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
    return Plot(_document(title, parts, top + HEIGHT), title)


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
        parts.append(_text(x, bottom + 16, si(tick, unit), "middle"))
    for row, (name, value) in enumerate(values.items()):
        y, end = 57 + 26 * row, left + room * axis.share(value)
        parts.append(_text(left - 8, y + 4, name, "end", INK, 12))
        if log:
            parts.append(f'<path d="M{left:.1f} {y}H{end:.1f}" stroke="{FAINT}" stroke-dasharray="2 3"/>')
            parts.append(_mark(0, end, y, COLOURS[0], f"{escape(name)}: {si(value, unit)}"))
        else:
            parts.append(f'<path d="M{left:.1f} {y}H{end:.1f}" stroke="{COLOURS[0]}" stroke-width="18"/>')
        parts.append(_text(end + 9, y + 4, si(value, unit), "start", INK, 12))
    if log:
        parts.append(_text(left + room, bottom + 34, "logarithmic", "end"))
    return Plot(_document(title, parts, bottom + (44 if log else 14)), title)


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
            yield _text(px, bottom + 16, si(tick, self.across.unit), "middle")
        for tick in self.up.ticks():
            _, py = self.at((self.across.high, tick))
            yield f'<line x1="{LEFT}" y1="{py:.1f}" x2="{right}" y2="{py:.1f}" stroke="{GRID}"/>'
            yield _text(LEFT - 8, py + 4, si(tick, self.up.unit), "end")
        yield f'<path d="M{LEFT} {self.top}V{bottom}H{right}" fill="none" stroke="{FAINT}"/>'
        scales = {(True, True): "both scales logarithmic", (True, False): "logarithmic across",
                  (False, True): "logarithmic up"}.get((self.across.log, self.up.log), "")  # fmt: skip
        yield _text((LEFT + right) / 2, bottom + 36, x, "middle", INK, 12)
        yield _text(right, bottom + 36, scales, "end")
        middle = (self.top + bottom) / 2
        yield f'<g transform="translate(16 {middle:.0f}) rotate(-90)">{_text(0, 0, y, "middle", INK, 12)}</g>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = FAINT, size: int = 11) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{escape(text)}</text>'
    )


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
    return [line if dash is not None else "", mark, _text(x + 38, y + 4, name, "start", INK)]


def _document(title: str, parts: Sequence[str], height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} '
        f'{height:.0f}" role="img" aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="12" '
        f'fill="{INK}"><rect width="100%" height="100%" fill="{PAPER}"/>'
        f'<text x="16" y="24" font-size="15" font-weight="600">{escape(title)}</text>{"".join(parts)}</svg>'
    )
