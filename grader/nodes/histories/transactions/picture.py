"""The picture of an anomaly: a card for each transaction with what it did, one below the other, and between two cards
why the upper one came before the lower one. A cycle's last step leads back to the top.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from grader.nodes.histories.history import called
from grader.nodes.histories.transactions import telling
from grader.nodes.histories.transactions.parts import Anomaly, Edge, Kind
from grader.nodes.histories.transactions.transaction import Op, Transaction
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

_LEFT, _WIDE, _ROW, _GAP = 84.0, 700.0, 19.0, 56.0
_HEAD, _FOOT = 25.0, 8.0
_MOST_OPS, _MOST_CARDS = 9, 12
COLOURS: dict[Kind, str] = {"ww": BAND_EDGE, "wr": MESSAGE, "rw": WAIT, "session": QUIET, "real-time": SOFT}
_DASHED = {"rw": "5 3", "session": "2 3", "real-time": "2 3"}
_MEANS = {
    "ww": "ww: wrote a version, which the next one replaced",
    "wr": "wr: wrote what the next one read",
    "rw": "rw: did not see what the next one wrote",
    "session": "session: same process, earlier",
    "real-time": "real time: had ended when the next one began",
}


@dataclass(frozen=True)
class _Card:
    """A transaction on the sheet: its operations that are shown, with whether each is part of the anomaly."""

    one: Transaction
    ops: Sequence[tuple[str, bool]]
    left: float
    top: float

    @property
    def height(self) -> float:
        return _HEAD + _ROW * len(self.ops) + _FOOT

    @property
    def middle(self) -> float:
        return self.top + self.height / 2

    @property
    def bottom(self) -> float:
        return self.top + self.height


def svg(anomaly: Anomaly, transactions: Mapping[int, Transaction], title: str) -> str:
    """The picture of one anomaly, as SVG text. `transactions` are by index."""
    heading = Heading(
        wrap(title, 15.5, _LEFT + _WIDE - 70, 2), wrap(telling.sentence(anomaly, transactions), 12, _LEFT + _WIDE, 8)
    )
    top = 36 + heading.height
    cards: list[_Card] = []
    shown_ = anomaly.indices if len(anomaly.indices) <= _MOST_CARDS else anomaly.indices[: _MOST_CARDS - 1]
    left_out = len(anomaly.indices) - len(shown_)
    for index in shown_:
        cards.append(
            _Card(transactions[index], _ops(transactions[index], anomaly), _LEFT if anomaly.edges else 16, top)
        )
        top = cards[-1].bottom + (_GAP if anomaly.edges else 22)
    if left_out:
        top += 22
    body = heading.draw()
    for card in cards:
        body.append(_drawn(card, not anomaly.edges))
    if anomaly.edges:
        body += _arrows(anomaly.edges, cards, left_out, transactions)
        top += 4
    rows = style.legend_rows(_legend(anomaly), _LEFT + _WIDE)
    if anomaly.edges:
        body += style.legend(rows, 16, top + 14)
        top += 14 + LEGEND_ROW * len(rows)
    return style.document(_LEFT + _WIDE + 32, top, heading.heads[0], body)


def _ops(one: Transaction, anomaly: Anomaly) -> list[tuple[str, bool]]:
    """What is told of its operations: where they are many, those of the anomaly and the first others."""
    told = [(at, telling.op(op, 84), _matters(one, op, anomaly)) for at, op in enumerate(one.ops)]
    if len(told) > _MOST_OPS:
        kept = sorted([each for each in told if each[2]][: _MOST_OPS - 1])
        kept += [each for each in told if not each[2]][: _MOST_OPS - 1 - len(kept)]
        rest = len(told) - len(kept)
        return [(words, matters) for _, words, matters in sorted(kept)] + [(f"and {rest} more operations", False)]
    return [(words, matters) for _, words, matters in told]


def _matters(one: Transaction, op: Op, anomaly: Anomaly) -> bool:
    if not anomaly.edges:
        return one.index in anomaly.indices and op.key == anomaly.key
    return any(_in_edge(one, op, edge) for edge in anomaly.edges)


def _in_edge(one: Transaction, op: Op, edge: Edge) -> bool:
    """Whether an edge comes from this operation."""
    if op.key != edge.key or not edge.elements:
        return False
    last = op.value[-1] if isinstance(op.value, tuple) and op.value else None if op.value == () else op.value
    if one.index == edge.source:
        return (op.f == "r") == (edge.kind == "rw") and last == edge.elements[0]
    if one.index == edge.target:
        wanted = edge.elements[0] if edge.kind == "wr" else edge.elements[1]
        return (op.f == "r") == (edge.kind == "wr") and last == wanted
    return False


def _drawn(card: _Card, bad: bool) -> str:
    one = card.one
    shapes = (
        f'<rect x="{card.left:g}" y="{card.top:.1f}" width="{_WIDE:g}" height="{card.height:.1f}" rx="4" fill="{PALE}" '
        f'stroke="{QUIET}" stroke-width="0.9"/>'
    )
    where = f"{called(one.process)}, {_ENDS[one.status]}"
    shapes += text(card.left + 12, card.top + 18, f"T{one.index}", 13, INK, more=' font-weight="600"')
    shapes += text(card.left + 24 + width(f"T{one.index}", 13), card.top + 18, where, 11, SOFT)
    for at, (words, matters) in enumerate(card.ops):
        y = card.top + _HEAD + _ROW * at + 13
        if matters:
            fill, edge = (BAD_PALE, BAD) if bad else (PAPER, QUIET)
            wide = min(1.07 * width(words, 12) + 16, _WIDE - 16)
            shapes += (
                f'<rect x="{card.left + 8:g}" y="{y - 13:.1f}" width="{wide:.1f}" height="17.5" rx="3" fill="{fill}" '
                f'stroke="{edge}" stroke-width="0.8"/>'
            )
        more = ' font-weight="600"' if matters else ""
        shapes += text(card.left + 14, y, fit(words, 12, _WIDE - 32), 12, INK if matters else SOFT, more=more)
    return part(shapes, f"T{one.index} of {where}: {'; '.join(telling.op(op, 200) for op in one.ops)}")


_ENDS = {"ok": "committed", "fail": "failed", "info": "outcome unknown"}


def _arrows(
    edges: Sequence[Edge], cards: Sequence[_Card], left_out: int, transactions: Mapping[int, Transaction]
) -> Iterator[str]:
    """Each edge down to the next card; the last one around, back to the first."""
    x = _LEFT + 34
    for at, card in enumerate(cards[:-1]):
        yield _labelled(edges[at], x, card.bottom, cards[at + 1].top, transactions)
    y = cards[-1].bottom
    if left_out:
        yield text(x + 14, y + 20, f"{left_out} more transactions", 12, SOFT)
        y += 26
    edge = edges[-1]
    colour, dash = COLOURS[edge.kind], _dash(edge.kind)
    turn, back, down = 22.0, _LEFT - 44, y + 26
    first = cards[0].middle
    way = (
        f"M{x:.1f} {y:.1f}V{down - 8:.1f}q0 8 -8 8H{back + 8:.1f}q-8 0 -8 -8V{first + 8:.1f}q0 -8 8 -8H{_LEFT - 5:.1f}"
    )
    shape = f'<path d="{way}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>'
    words = fit(f"{_tag(edge)}: {telling.step(edge, transactions)}", 12, _WIDE - 70)
    label = text(x + turn - 8, down + 4, words, 12, INK)
    yield part(shape + style.head(_LEFT, first, 1, 0, colour, 9) + label, telling.step(edge, transactions))


def _labelled(edge: Edge, x: float, top: float, bottom: float, transactions: Mapping[int, Transaction]) -> str:
    colour = COLOURS[edge.kind]
    shape = (
        f'<path d="M{x:.1f} {top:.1f}V{bottom - 6:.1f}" stroke="{colour}" stroke-width="1.8"{_dash(edge.kind)}/>'
        + style.head(x, bottom, 0, 1, colour, 9)
    )
    words = fit(f"{_tag(edge)}: {telling.step(edge, transactions)}", 12, _WIDE - 70)
    return part(shape + text(x + 14, (top + bottom) / 2 + 4, words, 12, INK), telling.step(edge, transactions))


def _tag(edge: Edge) -> str:
    return "real time" if edge.kind == "real-time" else edge.kind


def _dash(kind: Kind) -> str:
    return f' stroke-dasharray="{_DASHED[kind]}"' if kind in _DASHED else ""


def _legend(anomaly: Anomaly) -> list[tuple[str, str]]:
    used = dict.fromkeys(edge.kind for edge in anomaly.edges)
    return [(style.arrow(COLOURS[kind], _DASHED.get(kind, "")), _MEANS[kind]) for kind in used]
