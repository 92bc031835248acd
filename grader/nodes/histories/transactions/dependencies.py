"""The graph of a history: a node for each transaction that may have taken effect, and edges of what was before what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from grader.nodes.histories.transactions import lists, order, registers
from grader.nodes.histories.transactions.parts import Anomaly, Edge, Kind, Seen, Why
from grader.nodes.histories.transactions.transaction import Transaction, positions


@dataclass(frozen=True)
class Graph:
    """The typed edges between `transactions`, and the anomalies that are no cycle.

    `coded` holds, by kind, the edges as numbers (source * len(transactions) + target, of places in `transactions`) with
    their reason; at most one of a kind from one transaction to another. Failed transactions have no edges, unknown ones
    those that their writes seen by ok reads give, and orders into them.
    """

    transactions: tuple[Transaction, ...]
    coded: dict[Kind, dict[int, Why]]
    anomalies: tuple[Anomaly, ...]

    @cached_property
    def named(self) -> dict[int, Transaction]:
        """The transactions by index."""
        return {one.index: one for one in self.transactions}

    def edges(self, kind: Kind | None = None) -> Iterator[Edge]:
        """All edges, or those of one kind."""
        for each, coded in self.coded.items():
            if kind in (None, each):
                for code in coded:
                    yield self.edge(each, code)

    def edge(self, kind: Kind, code: int) -> Edge:
        source, target = divmod(code, len(self.transactions))
        why = self.coded[kind][code]
        key, elements = (why[0], why[1:]) if why else (None, ())
        return Edge(kind, self.transactions[source].index, self.transactions[target].index, key, elements)


def graph(
    transactions: Sequence[Transaction],
    workload: str = "list-append",
    real_time: bool = False,
    sessions: bool = False,
    linearizable_keys: bool = False,
    unread: bool = False,
) -> Graph:
    """The graph of a history of "list-append" or "rw-register" (see `lists` and `registers` for what is inferred).

    `real_time` adds the order in which transactions ended and began, `sessions` that of each process, both as few
    edges that give the others. `linearizable_keys` is for registers only, `unread` for lists only. Raises ValueError
    for an unknown workload and an index that is there twice, BadRequest for operations of the other workload and a
    value written twice to one key.
    """
    positions(transactions)
    seen = _passed(transactions, workload, linearizable_keys, unread)
    count = len(transactions)
    if sessions:
        seen.edges["session"] = {a * count + b: () for a, b in order.sessions(transactions)}
    if real_time:
        seen.edges["real-time"] = {a * count + b: () for a, b in order.real_time(transactions)}
    return Graph(tuple(transactions), seen.edges, tuple(seen.anomalies.values()))


def _passed(transactions: Sequence[Transaction], workload: str, linearizable_keys: bool, unread: bool) -> Seen:
    if workload == "list-append":
        return lists.passed(transactions, unread)
    if workload == "rw-register":
        return registers.passed(transactions, linearizable_keys)
    raise ValueError(f"no workload is called {workload!r}; there are list-append and rw-register")
