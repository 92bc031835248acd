"""A histogram of points as SVG that takes its colours from the page's style."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from grader.classroom.pages.classwide import Bin
from grader.classroom.pages.words import number

_WIDTH, _HEIGHT, _LEFT, _TOP, _FLOOR = 460, 176, 4, 18, 128


def histogram(bins: Sequence[Bin], mean: float, whole: bool) -> Markup:
    """The bins as bars with their counts, and where the mean lies. `whole` says that all points are whole numbers."""
    if not bins:
        return Markup()
    room = (_WIDTH - 2 * _LEFT) / len(bins)
    most = max(each.count for each in bins) or 1
    parts = [f'<path class="floor" d="M{_LEFT} {_FLOOR}.5H{_WIDTH - _LEFT}"/>']
    told = []
    for at, each in enumerate(bins):
        x, tall = _LEFT + room * at, (_FLOOR - _TOP) * each.count / most
        words = _words(each, whole)
        full = " full" if each.low == each.high else ""
        middle = x + room / 2
        if each.count:
            parts.append(
                f'<rect class="column{full}" x="{x + room * 0.1:.1f}" y="{_FLOOR - tall:.1f}" width="{room * 0.8:.1f}" '
                f'height="{tall:.1f}" rx="2"/><text class="count" x="{middle:.1f}" y="{_FLOOR - tall - 4:.1f}">'
                f"{each.count}</text>"
            )
            told.append(f"{words} points: {each.count}")
        parts.append(f'<text class="tick" x="{middle:.1f}" y="{_FLOOR + 14}">{words}</text>')
    x = _LEFT + room * _place(bins, mean)
    told_at, below = min(max(x, 40), _WIDTH - 40), _HEIGHT - 4
    parts.append(
        f'<path class="mean" d="M{x:.1f} {_FLOOR + 20}l-4 7h8z"/>'
        f'<text class="tick" x="{told_at:.1f}" y="{below}">mean {number(round(mean, 1))}</text>'
    )
    return Markup(
        '<div class="scroll plain" tabindex="0" role="group" aria-label="Histogram">'
        f'<svg class="histogram" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="How many reached how many points. {"; ".join(told)}">{"".join(parts)}</svg></div>'
    )


def _words(each: Bin, whole: bool) -> str:
    """A bin's label: "4", "4–5", or where there are fractions "4–6"."""
    last = each.high - 1 if whole else each.high
    return number(each.low) if last <= each.low else f"{number(each.low)}–{number(last)}"


def _place(bins: Sequence[Bin], value: float) -> float:
    """Where a number of points lies, in bins from the left."""
    for at, each in enumerate(bins):
        if each.low == each.high or value < each.high:
            share = (value - each.low) / (each.high - each.low) if each.high > each.low else 0.5
            return at + min(max(share, 0.0), 1.0)
    return len(bins) - 0.5
