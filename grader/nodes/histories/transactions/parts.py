"""What the passes over a history hand on: anomalies that need no cycle, and edges between transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from grader.nodes.histories.history import Key
from grader.nodes.histories.transactions.transaction import Transaction

Kind = Literal["ww", "wr", "rw", "session", "real-time"]
DATA: tuple[Kind, ...] = ("ww", "wr", "rw")

Why = tuple[Any, ...]  # a key and elements of it; empty for orders that come from no key


@dataclass(frozen=True, slots=True)
class Edge:
    """`source` (an index) came before `target` in every order that explains the history.

    - ww: `source` wrote elements[0] of `key`, and `target` elements[1], a later version of it.
    - wr: `target` read elements[0], which `source` wrote.
    - rw: `source` read elements[0] (None: nothing was there yet), and `target` wrote elements[1], a later version.
    - session: one process ran both, `source` first. real-time: `source` had ended when `target` began.
    """

    kind: Kind
    source: int
    target: int
    key: Key = None
    elements: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that a history shows and isolation levels forbid.

    For a cycle, `indices` are the transactions in its direction, and `edges` as many: edges[i] leads from indices[i] to
    the next one. For all others `edges` is empty, and `key` and `elements` say what was seen:

    - G1a, G1b: indices (reader, writer), elements (the value,); internal: indices (reader,), elements (the own value,)
    - torn-append: indices (reader, writer), elements (the value that is not where its transaction put it,)
    - unwritten: indices (reader,), elements (the value,); duplicate-elements: indices (reader,), elements (the value,)
    - incompatible-order: indices (reader, reader), elements (what one read, what the other read)
    - cyclic-versions: indices of the transactions that put the versions in order, elements the versions
    - lost-update: indices (writer, writer), elements (what both read, what one wrote, what the other wrote)
    """

    kind: str
    indices: tuple[int, ...]
    edges: tuple[Edge, ...] = ()
    key: Key = None
    elements: tuple[Any, ...] = ()


@dataclass
class Seen:
    """What a pass collects. Of each kind of anomaly the first is kept; an edge goes from one place in `transactions`
    to another, and is a number, source * len(transactions) + target."""

    transactions: Sequence[Transaction]
    anomalies: dict[str, Anomaly] = field(default_factory=dict)
    edges: dict[Kind, dict[int, Why]] = field(default_factory=dict)

    def edges_of(self, kind: Kind) -> dict[int, Why]:
        return self.edges.setdefault(kind, {})

    def note(self, kind: str, places: Sequence[int], key: Key, *elements: Any) -> None:
        if kind not in self.anomalies:
            indices = tuple(self.transactions[at].index for at in places)
            self.anomalies[kind] = Anomaly(kind, indices, (), key, elements)
