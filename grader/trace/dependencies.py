"""The picture of an anomaly of transactions: a card for each with what it did, one below the other, and in between why
the upper one came before the lower one. A cycle's last arrow leads back to the top. An arrow that somebody claims and
that is none is red and dashed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grader.trace import style
from grader.trace.labels import fit, width, wrap
from grader.trace.paper import Heading, part
from grader.trace.style import (
    BAD,
    BAD_PALE,
    BAND_EDGE,
    INK,
    LEGEND_ROW,
    MESSAGE,
    PALE,
    PAPER,
    QUIET,
    SOFT,
    WAIT,
    text,
)

ENDS = {"ok": "committed", "fail": "failed", "info": "outcome unknown"}
_LEFT, _WIDE, _ROW, _GAP = 84.0, 700.0, 19.0, 56.0
_HEAD, _FOOT = 25.0, 8.0
_COLOURS = {"ww": BAND_EDGE, "wr": MESSAGE, "rw": WAIT, "session": QUIET, "real-time": SOFT, "": BAD}
_DASHED = {"rw": "5 3", "session": "2 3", "real-time": "2 3", "": "5 3"}
_MEANS = {
    "ww": "ww: wrote a version, which the next one replaced",
    "wr": "wr: wrote what the next one read",
    "rw": "rw: did not see what the next one wrote",
    "session": "session: same process, earlier",
    "real-time": "real time: had ended when the next one began",
    "": "no such dependency",
}


@dataclass(frozen=True)
class Card:
    """A transaction: its name, what else is known of it, and its operations, each with whether the anomaly needs it.
    `title` shows where the pointer rests on it."""

    name: str
    where: str
    operations: Sequence[tuple[str, bool]]
    title: str
    failed: bool = False

    @property
    def height(self) -> float:
        return _HEAD + _ROW * max(1, len(self.operations)) + _FOOT


@dataclass(frozen=True)
class Arrow:
    """From a card to the next one, or from the last one to the first: its kind, "" where there is none; and why."""

    kind: str
    words: str


@dataclass
class Dependencies:
    """All of it: without arrows, with one from each card to the next, or with one more, back to the first.

    `left_out` is how many transactions have no card, before the last arrow; `outcome` is the run that all this is of.
    """

    cards: Sequence[Card]
    arrows: Sequence[Arrow]
    title: str = ""
    subtitle: str = ""
    outcome: Any = None
    left_out: int = 0

    def _repr_svg_(self) -> str:
        return svg(self)


def svg(picture: Dependencies) -> str:
    """The picture, as SVG text."""
    cards, arrows = picture.cards, picture.arrows
    heading = Heading(wrap(picture.title, 15.5, _LEFT + _WIDE - 70, 2), wrap(picture.subtitle, 12, _LEFT + _WIDE, 8))
    body, top = heading.draw(), 36 + heading.height
    left, gap = (_LEFT, _GAP) if arrows else (16, 22)
    tops = []
    for card in cards:
        tops.append(top)
        body.append(_drawn(card, left, top, not arrows))
        top += card.height + gap
    for at, arrow in enumerate(arrows[: len(cards) - 1]):
        body.append(_down(arrow, tops[at] + cards[at].height, tops[at + 1]))
    if picture.left_out:
        top += 22
    if 0 < len(arrows) < len(cards):
        top -= 34
    elif arrows and cards:
        body += _back(arrows[-1], tops[0] + cards[0].height / 2, tops[-1] + cards[-1].height, picture.left_out)
    if arrows:
        used = dict.fromkeys(arrow.kind for arrow in arrows)
        legend = [(style.arrow(_COLOURS[kind], _DASHED.get(kind, "")), _MEANS[kind]) for kind in used]
        rows = style.legend_rows(legend, _LEFT + _WIDE)
        body += style.legend(rows, 16, top + 18)
        top += 18 + LEGEND_ROW * len(rows)
    return style.document(_LEFT + _WIDE + 32, top, "".join(heading.heads[:1]), body)


def _drawn(card: Card, left: float, top: float, bad: bool) -> str:
    edge = f'stroke="{BAD}" stroke-dasharray="4 3"' if card.failed else f'stroke="{QUIET}"'
    shapes = (
        f'<rect x="{left:g}" y="{top:.1f}" width="{_WIDE:g}" height="{card.height:.1f}" rx="4" fill="{PALE}" '
        f'{edge} stroke-width="0.9"/>'
    )
    shapes += text(left + 12, top + 18, card.name, 13, BAD if card.failed else INK, more=' font-weight="600"')
    shapes += text(left + 24 + width(card.name, 13), top + 18, card.where, 11, SOFT)
    for at, (words, matters) in enumerate(card.operations or [("no operations", False)]):
        y = top + _HEAD + _ROW * at + 13
        if matters:
            fill, colour = (BAD_PALE, BAD) if bad else (PAPER, QUIET)
            wide = min(1.07 * width(words, 12) + 16, _WIDE - 16)
            shapes += (
                f'<rect x="{left + 8:g}" y="{y - 13:.1f}" width="{wide:.1f}" height="17.5" rx="3" fill="{fill}" '
                f'stroke="{colour}" stroke-width="0.8"/>'
            )
        more = ' font-weight="600"' if matters else ""
        shapes += text(left + 14, y, fit(words, 12, _WIDE - 32), 12, INK if matters else SOFT, more=more)
    return part(shapes, card.title)


def _down(arrow: Arrow, top: float, bottom: float) -> str:
    """To the next card."""
    x, colour = _LEFT + 34, _COLOURS[arrow.kind]
    shape = (
        f'<path d="M{x:.1f} {top:.1f}V{bottom - 6:.1f}" stroke="{colour}" stroke-width="1.8"{_dash(arrow)}/>'
        + style.head(x, bottom, 0, 1, colour, 9)
    )
    return part(shape + text(x + 14, (top + bottom) / 2 + 4, _label(arrow), 12, INK), arrow.words)


def _back(arrow: Arrow, first: float, last: float, left_out: int) -> Iterator[str]:
    """From below the last card around to the first."""
    x, back, y = _LEFT + 34, _LEFT - 44, last
    if left_out:
        yield text(x + 14, y + 20, f"{left_out} more transactions", 12, SOFT)
        y += 26
    colour, down = _COLOURS[arrow.kind], y + 26
    way = (
        f"M{x:.1f} {y:.1f}V{down - 8:.1f}q0 8 -8 8H{back + 8:.1f}q-8 0 -8 -8V{first + 8:.1f}q0 -8 8 -8H{_LEFT - 5:.1f}"
    )
    shape = f'<path d="{way}" fill="none" stroke="{colour}" stroke-width="1.8"{_dash(arrow)}/>'
    shape += style.head(_LEFT, first, 1, 0, colour, 9)
    yield part(shape + text(x + 14, down + 4, _label(arrow), 12, INK), arrow.words)


def _label(arrow: Arrow) -> str:
    kind = arrow.kind.replace("-", " ")
    return fit(f"{kind}: {arrow.words}" if kind else arrow.words, 12, _WIDE - 70)


def _dash(arrow: Arrow) -> str:
    return f' stroke-dasharray="{_DASHED[arrow.kind]}"' if arrow.kind in _DASHED else ""
