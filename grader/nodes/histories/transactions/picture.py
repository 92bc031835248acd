"""The picture of an anomaly: its transactions and what leads from one to the next (see `trace.dependencies`)."""

from __future__ import annotations

from collections.abc import Mapping

from grader.nodes.histories.history import called
from grader.nodes.histories.transactions import telling
from grader.nodes.histories.transactions.parts import Anomaly, Edge
from grader.nodes.histories.transactions.transaction import Op, Transaction
from grader.trace import dependencies
from grader.trace.dependencies import ENDS, Arrow, Card, Dependencies

_MOST_OPS, _MOST_CARDS = 9, 12


def svg(anomaly: Anomaly, transactions: Mapping[int, Transaction], title: str) -> str:
    """The picture of one anomaly, as SVG text. `transactions` are by index."""
    indices = anomaly.indices if len(anomaly.indices) <= _MOST_CARDS else anomaly.indices[: _MOST_CARDS - 1]
    arrows = [Arrow(edge.kind, telling.step(edge, transactions)) for edge in anomaly.edges]
    cards = [_card(transactions[index], anomaly) for index in indices]
    left_out = len(anomaly.indices) - len(indices)
    said = telling.sentence(anomaly, transactions)
    return dependencies.svg(Dependencies(cards, arrows, title, said, left_out=left_out))


def _card(one: Transaction, anomaly: Anomaly) -> Card:
    where = f"{called(one.process)}, {ENDS[one.status]}"
    title = f"T{one.index} of {where}: {'; '.join(telling.op(op, 200) for op in one.ops)}"
    return Card(f"T{one.index}", where, _ops(one, anomaly), title)


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
