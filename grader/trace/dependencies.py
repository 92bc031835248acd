"""The picture of a cycle of transactions: a box for each, with what it did, and an arrow for each dependency.

The transactions stand one below the other in the cycle's direction; the last arrow leads back to the top. An arrow that
somebody claims and that is none is red and dashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grader.trace import style
from grader.trace.labels import fit, width, wrap
from grader.trace.paper import Heading
from grader.trace.style import BAD, COMPUTE, INK, LEGEND_ROW, MESSAGE, PALE, QUIET, SOFT, WAIT, text

COLORS = {"ww": COMPUTE, "wr": MESSAGE, "rw": WAIT, "": BAD}
WORDS = {
    "ww": "ww: appended the next version",
    "wr": "wr: read what the other appended last",
    "rw": "rw: missed the version that the other appended",
    "": "no such dependency",
}
WIDE, BOX, LINE = 1000, 420, 16.0


@dataclass(frozen=True)
class Box:
    """A transaction: its name, and its operations, those in `told` in bold."""

    name: str
    operations: Sequence[str]
    told: frozenset[int] = frozenset()
    failed: bool = False


@dataclass(frozen=True)
class Arrow:
    """From the box with this number to the one with that: kind "ww", "wr" or "rw", "" where there is none; and why."""

    source: int
    target: int
    kind: str
    words: str


@dataclass
class Dependencies:
    """All of it. `outcome` is the run that it is of."""

    boxes: Sequence[Box]
    arrows: Sequence[Arrow]
    title: str = ""
    subtitle: str = ""
    outcome: Any = None

    def _repr_svg_(self) -> str:
        return svg(self)


def svg(picture: Dependencies) -> str:
    """The picture, as SVG text."""
    heading = Heading.of(picture.title, picture.subtitle, WIDE)
    y = 26.0 + heading.height
    body = heading.draw()
    tops: list[tuple[float, float]] = []  # of each box, and how tall it is
    gap = 56.0
    for box in picture.boxes:
        lines = _lines(box)
        tall = 14 + LINE * len(lines)
        tops.append((y, tall))
        edge, dash = (BAD, ' stroke-dasharray="4 3"') if box.failed else (QUIET, "")
        body.append(
            f'<rect x="92" y="{y:.1f}" width="{BOX}" height="{tall:.1f}" rx="5" fill="{PALE}" stroke="{edge}"{dash}/>'
        )
        body.append(text(84, y + tall / 2 + 4, box.name, 12.5, BAD if box.failed else INK, "end", ' font-weight="600"'))
        for at, words in enumerate(lines):
            body.append(f'<g transform="translate(102 {y + 19 + LINE * at:.1f})">{words}</g>')
        y += tall + gap
    bottom = y - gap
    for arrow in picture.arrows:
        body += _arrow(picture, arrow, tops)
    kinds = dict.fromkeys(arrow.kind for arrow in picture.arrows)
    entries = [(style.arrow(COLORS[kind], "" if kind else "5 3"), WORDS[kind]) for kind in sorted(kinds, reverse=True)]
    rows = style.legend_rows(entries, WIDE - 32)
    body += style.legend(rows, 16, bottom + 30)
    return style.document(WIDE, bottom + 36 + LEGEND_ROW * len(rows), picture.title, body)


def _lines(box: Box) -> list[str]:
    """The operations, as many in a row as there is room for."""
    rows: list[str] = []
    row, used = "", 0.0
    for at, operation in enumerate(box.operations or ["no operations"]):
        words = fit(operation, 11.5, BOX - 24)
        wide = width(words, 11.5) + 16
        if row and used + wide > BOX - 12:
            rows.append(row)
            row, used = "", 0.0
        bold = ' font-weight="700"' if at in box.told else ""
        row += text(used, 0, words, 11.5, INK if at in box.told else SOFT, more=bold)
        used += wide
    return [*rows, row]


def _arrow(picture: Dependencies, arrow: Arrow, tops: Sequence[tuple[float, float]]) -> list[str]:
    color = COLORS[arrow.kind]
    dash = "" if arrow.kind else ' stroke-dasharray="5 3"'
    line = f'fill="none" stroke="{color}" stroke-width="1.8"{dash}'
    names = f"{picture.boxes[arrow.source].name} → {picture.boxes[arrow.target].name}"
    label = f"{names}  {arrow.kind}: {arrow.words}" if arrow.kind else f"{names}: {arrow.words}"
    if arrow.target == arrow.source + 1:
        y, end = tops[arrow.source][0] + tops[arrow.source][1], tops[arrow.target][0]
        found = [f'<path d="M118 {y + 1:.1f}V{end - 6:.1f}" {line}/>', style.head(118, end - 1, 0, 1, color)]
        rows = wrap(label, 11, BOX - 30, 3)
        top = (y + end) / 2 + 4 - 7 * (len(rows) - 1)
        return found + [text(132, top + 14 * at, row, 11, color) for at, row in enumerate(rows)]
    # back to one above: along the right side
    y = tops[arrow.source][0] + tops[arrow.source][1] / 2
    end = tops[arrow.target][0] + tops[arrow.target][1] / 2
    right, x = 92 + BOX, WIDE - 96.0
    found = [
        f'<path d="M{right + 1} {y:.1f}H{x}V{end:.1f}H{right + 8}" {line}/>',
        style.head(right + 2, end, -1, 0, color),
    ]
    rows = wrap(label, 11, x - right - 28, 3)
    return found + [text(right + 16, end + 16 + 14 * at, row, 11, color) for at, row in enumerate(rows)]
