"""Who sent how much to whom: a small matrix with its scale, the totals of every rank beside it."""

from __future__ import annotations

import math
from collections import defaultdict

from grader import says
from grader.trace.events import SEND
from grader.trace.scene import Scene
from grader.trace.style import BAND_INK, MESSAGE, QUIET, SOFT, text

SIDE, TOTALS = 224, 34
WIDTH = SIDE + TOTALS + 36
MOST_CELLS = 64  # a side
_SHADES = ("#dbe8fa", "#b5d0f3", "#8ab4ea", "#5b94dc", "#3375c6", "#17549f", "#0b3570")


def draw(scene: Scene, left: float, top: float) -> tuple[list[str], float]:
    """The matrix with its corner at (left, top), in pixels, and how far down it reaches."""
    n = scene.ranks
    many = -(-n // MOST_CELLS)
    cells = -(-n // many)
    sent: dict[tuple[int, int], int] = defaultdict(int)
    count = 0
    for op in scene.trace.all_operations():
        if op.kind == SEND:
            sent[op.rank // many, op.peer // many] += op.size
            count += 1
    if not sent:
        return _collectives(scene, left, top), top
    left += 36
    each = SIDE / cells
    below = top + each * cells
    body = [
        text(left - 36, top - 28, "bytes from rank (down) to rank (across)", 11, SOFT),
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{each * cells:.1f}" height="{each * cells:.1f}" fill="none" '
        f'stroke="{QUIET}"/>',
    ]
    body += _shaded(sent, left, top, each)
    body += _numbers(n, many, cells, left, top, each)
    body += _totals(sent, cells, left, top, each)
    y = below + TOTALS + 16
    low, high = _ends(sent)
    for at, shade in enumerate(_SHADES if low < high else _SHADES[-1:]):
        body.append(f'<rect x="{left + 15 * at:.1f}" y="{y - 9:.1f}" width="15" height="10" fill="{shade}"/>')
    told = f"{says.size(low)} to {says.size(high)}" if low < high else says.size(high)
    body.append(text(left + (15 * 7 if low < high else 15) + 8, y, told, 11, SOFT))
    y += 17
    total = sum(sent.values())
    body.append(text(left, y, f"{says.size(total)} in {says.counted(count, 'message')}", 11, MESSAGE))
    body += _collectives(scene, left, y + 16)
    return body, y + 16


def _collectives(scene: Scene, left: float, y: float) -> list[str]:
    if not scene.bands:
        return []
    most = max(band.size for band in scene.bands)
    each_rank = f", up to {says.size(most)} per rank" if most else ""
    words = f"{says.counted(len(scene.bands), 'collective')}{each_rank}"
    return [text(left, y, words, 11, BAND_INK)]


def _ends(sent: dict[tuple[int, int], int]) -> tuple[int, int]:
    """The least and the most bytes that any two ranks exchanged."""
    return min(sent.values()), max(sent.values())


def _shaded(sent: dict[tuple[int, int], int], left: float, top: float, each: float) -> list[str]:
    """One path a shade; shades are steps of the logarithm where sizes differ much."""
    if not sent:
        return []
    low, high = _ends(sent)
    paths: dict[int, list[str]] = defaultdict(list)
    for (source, target), size in sorted(sent.items()):
        if high <= low:
            share = 1.0
        elif low > 0 and high > 16 * low:
            share = math.log(size / low) / math.log(high / low)
        else:
            share = (size - low) / (high - low)
        shade = min(int(share * len(_SHADES)), len(_SHADES) - 1)
        paths[shade].append(f"M{left + each * target:.1f} {top + each * (source + 0.5):.1f}h{each:.1f}")
    return [
        f'<path d="{"".join(paths[shade])}" stroke="{_SHADES[shade]}" stroke-width="{each:.2f}" fill="none"/>'
        for shade in sorted(paths)
    ]


def _numbers(n: int, many: int, cells: int, left: float, top: float, each: float) -> list[str]:
    step = next(step for step in (1, 2, 4, 8, 16, 32, 64) if step * each >= 24 or step == 64)
    body = []
    for at in range(0, cells, step):
        middle = each * (at + 0.5)
        if middle < SIDE - 14 or at == 0:  # clear of the word over the totals
            body.append(text(left + middle, top - 6, str(at * many), 10, SOFT, "middle"))
        body.append(text(left - 6, top + middle + 3.5, str(at * many), 10, SOFT, "end"))
    return body


def _totals(sent: dict[tuple[int, int], int], cells: int, left: float, top: float, each: float) -> list[str]:
    """Bars: what every rank sent, to the right, and what it was sent, below."""
    out, into = [0] * cells, [0] * cells
    for (source, target), size in sent.items():
        out[source] += size
        into[target] += size
    most = max([*out, *into, 1])
    right, below = left + each * cells + 3, top + each * cells + 3
    rows = [f"M{right:.1f} {top + each * (at + 0.5):.1f}h{_reach(out[at], most)}" for at in range(cells) if out[at]]
    columns = [
        f"M{left + each * (at + 0.5):.1f} {below:.1f}v{_reach(into[at], most)}" for at in range(cells) if into[at]
    ]
    bars = f'<path d="{"".join(rows + columns)}" stroke="{MESSAGE}" stroke-width="{each * 0.8:.2f}" fill="none"/>'
    return [
        bars,
        text(right, top - 6, "sent", 10, SOFT),
        text(left - 6, below + 12, "got", 10, SOFT, "end"),
    ]


def _reach(size: int, most: int) -> str:
    return f"{max(1.0, (TOTALS - 6) * size / most):.1f}"
