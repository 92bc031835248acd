"""What every picture of a chapter is made of: colours, numbers with their units, axes, words, and the SVG around them.

The SVG needs no script and no font of its own, so it shows in every notebook front end and prints.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from grader.trace import dark, moments

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#7b4ea3", "#5c6b78")  # told apart also by most colour-blind readers
INK, FAINT, GRID, PAPER = "#1f2933", "#616e7c", "#e4e7eb", "#ffffff"
FILLS = (  # of boxes, and the ink on them: told apart by lightness, too
    ("#0072b2", PAPER),
    ("#f6c48c", INK),
    ("#8fd3b6", INK),
    ("#7b4ea3", PAPER),
    ("#dfe3e8", INK),
    ("#b23a00", PAPER),
)
WIDTH = 680
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


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
        stepped = moments.script() if "<metadata>" in self.svg else ""
        return dark.in_notebooks(self.svg) + dark.framed(self.svg) + stepped


class Drawn(ABC):
    """Something that happened, shown as its picture where it is the last value of a cell."""

    @abstractmethod
    def picture(self) -> Plot: ...

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()


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


def caption(x: float, y: float, text: str, anchor: str, colour: str = FAINT, size: int = 11) -> str:
    """One line of text that begins, ends or has its middle (`anchor`) at x."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{escape(text)}</text>'
    )


def document(title: str, parts: Sequence[str], height: float) -> str:
    """The whole SVG: the parts below their title."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} '
        f'{height:.0f}" role="img" aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="12" '
        f'fill="{INK}"><rect width="100%" height="100%" fill="{PAPER}"/>'
        f'<text x="16" y="24" font-size="15" font-weight="600">{escape(title)}</text>{"".join(parts)}</svg>'
    )
