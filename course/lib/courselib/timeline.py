"""Who did what when, as SVG: a row for each rank, stage or link, and boxes along one axis of time.

    timeline("One step", {"rank 0 computes": [(0, 3e-3, "layer 4", "backward")], "rank 0's network": [...]}, unit="s")

Boxes are told apart by lightness and by their labels, not by hue alone; a label that does not fit is in the hover text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from courselib.svg import FAINT, FILLS, GRID, INK, PAPER, WIDTH, Axis, Plot, caption, document, si

Box = tuple[float, float, str, str]  # since, until, label, kind

LANE, GAP, LETTER = 22, 8, 6.3


def timeline(
    title: str,
    rows: Mapping[str, Sequence[Box]],
    *,
    unit: str = "s",
    until: float | None = None,
    kinds: Sequence[str] = (),
) -> Plot:
    """Each row's boxes (since, until, label, kind) on one axis from 0 in `unit`, with a legend of the kinds.

    Boxes of one row that overlap are put below each other. `until` is where the axis ends, and `kinds` the order in
    which kinds take their colours: give both where several pictures are to be compared. Raises ValueError for nothing
    to draw, and for a box that ends before it begins or lies outside of the axis.
    """
    boxes = [box for row in rows.values() for box in row]
    if not boxes:
        raise ValueError("nothing to draw")
    end = max(box[1] for box in boxes) if until is None else until
    for since, to, label, _ in boxes:
        if not 0 <= since <= to <= end * (1 + 1e-9) or not math.isfinite(to):
            raise ValueError(f"the box {label!r} from {since} to {to} does not lie between 0 and {end}")
    order = list(dict.fromkeys([*kinds, *(kind for *_, kind in boxes)]))
    if len(order) > len(FILLS):
        raise ValueError(f"{len(order)} kinds of boxes, and there are {len(FILLS)} colours")
    axis, left = Axis(0.0, end or 1.0, unit=unit), 30 + LETTER * max(map(len, rows))
    room = WIDTH - left - 34
    used = {kind for *_, kind in boxes}
    legend, top = _legend([kind for kind in order if kind in used], order)
    parts, y = [], float(top)
    for name, row in rows.items():
        lanes = _lanes(row)
        height = LANE * max(1, len(lanes))
        parts.append(f'<path d="M{left:.1f} {y + height / 2:.1f}H{left + room:.1f}" stroke="{GRID}"/>')
        parts.append(caption(left - 8, y + height / 2 + 4, name, "end", INK, 12))
        for number, lane in enumerate(lanes):
            for box in lane:
                x1, x2 = (left + room * axis.share(time) for time in box[:2])
                parts.append(_box(box, x1, x2, y + LANE * number, FILLS[order.index(box[3])], unit))
        y += height + GAP
    grid = []
    for tick in axis.ticks():
        x = left + room * axis.share(tick)
        grid.append(f'<path d="M{x:.1f} {top - 4}V{y:.1f}" stroke="{GRID}"/>')
        parts.append(caption(x, y + 14, si(tick, unit) if unit else f"{tick:g}", "middle"))
    parts.append(f'<path d="M{left:.1f} {y:.1f}H{left + room:.1f}" stroke="{FAINT}"/>')
    return Plot(document(title, [*grid, *legend, *parts], y + 26), title)


def _lanes(row: Sequence[Box]) -> list[list[Box]]:
    """The boxes of a row, in as few lanes as hold them without an overlap."""
    lanes: list[list[Box]] = []
    for box in sorted(row, key=lambda box: box[:2]):
        slack = 1e-9 * (1 + abs(box[0]))
        free = next((lane for lane in lanes if lane[-1][1] <= box[0] + slack), None)
        if free is None:
            lanes.append([box])
        else:
            free.append(box)
    return lanes


def _box(box: Box, x1: float, x2: float, y: float, colours: tuple[str, str], unit: str) -> str:
    since, until, label, kind = box
    (fill, ink), wide = colours, max(x2 - x1, 1.5)
    start, length = (si(time, unit) if unit else f"{time:g}" for time in (since, until - since))
    hover = escape(f"{label} ({kind}): from {start}, for {length}")
    fits = label and LETTER * len(label) + 4 <= wide
    text = caption(x1 + wide / 2, y + LANE / 2 + 4, label, "middle", ink) if fits else ""
    return (
        f'<g><title>{hover}</title><rect x="{x1:.2f}" y="{y + 1:.1f}" width="{wide:.2f}" height="{LANE - 2}" rx="2" '
        f'fill="{fill}" stroke="{PAPER}" stroke-width="0.8"/>{text}</g>'
    )


def _legend(shown: Sequence[str], order: Sequence[str]) -> tuple[list[str], int]:
    """A sample of each kind, and where the rows may begin."""
    parts, x, y = [], 16.0, 40
    for kind in shown:
        wide = 34 + LETTER * len(kind)
        if x + wide > WIDTH and x > 16:
            x, y = 16.0, y + 20
        fill = FILLS[order.index(kind)][0]
        parts.append(f'<rect x="{x:.1f}" y="{y - 1}" width="16" height="12" rx="2" fill="{fill}"/>')
        parts.append(caption(x + 22, y + 9, kind, "start", INK))
        x += wide + 8
    return parts, y + 26
