"""Cycles of each kind in the graph of a history, each with the smallest witness.

A cycle is named by its edges. Without orders that come from no key:

- G0: ww only. G1c: ww and wr, at least one wr. G-single: exactly one rw.
- G-nonadjacent: two or more rw, no two of them one after the other. G2-item: two or more rw.

G0-process and so on have in addition at least one edge of a session, G0-realtime and so on at least one of real time
(and maybe of sessions). Whether a simple cycle goes through two given edges is NP-hard to decide, hence what
is reported is defined so that it can be exact, as far as levels of isolation tell histories apart:

- G0, G1c, G-single: exactly if there is such a cycle.
- G-nonadjacent, G2-item: exactly if there is such a cycle in a strongly connected component of the whole graph that
  has no cycle with fewer than two rw.
- With a suffix: exactly if there is a cycle through an edge (for G0 a ww, for G1c a wr, for G-single the rw) that no
  cycle of the same kind with a weaker order goes through; for the other two, exactly if there is one in a component
  without any cycle of a weaker order and any with fewer than two rw.

So whatever cycle there is, one is reported that has no more rw and no stronger order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from grader.nodes.histories.transactions import search
from grader.nodes.histories.transactions.dependencies import Graph
from grader.nodes.histories.transactions.parts import DATA, Anomaly, Edge, Kind
from grader.nodes.histories.transactions.search import Part, Rooms

_SCOPES: tuple[tuple[str, tuple[Kind, ...]], ...] = (
    ("", ()),
    ("-process", ("session",)),
    ("-realtime", ("session", "real-time")),
)


@dataclass(frozen=True)
class _Scope:
    """A suffix, the orders that its cycles may have, and those of the next weaker one (None: there is none)."""

    suffix: str
    orders: tuple[Kind, ...]
    weaker: tuple[Kind, ...] | None


def cycles(graph: Graph) -> Iterator[Anomaly]:
    """Each kind of cycle that the graph has, once, the smallest kinds first."""
    part = search.cut(graph)
    if not part.nodes:
        return
    weaker: tuple[Kind, ...] | None = None
    for suffix, orders in _SCOPES:
        present = tuple(kind for kind in orders if graph.coded.get(kind))
        if weaker is None or present != weaker:
            yield from _in_scope(graph, part, _Scope(suffix, present, weaker))
            weaker = present


def _in_scope(graph: Graph, part: Part, scope: _Scope) -> Iterator[Anomaly]:
    rooms = part.rooms(DATA + scope.orders)
    if not rooms:
        return
    for kind, edge, kinds in (("G0", "ww", ("ww",)), ("G1c", "wr", ("ww", "wr"))):
        own, weak = kinds + scope.orders, None if scope.weaker is None else kinds + scope.weaker
        found = part.shortest(_between(part, edge, own, weak), own, part.rooms(own))  # type: ignore[arg-type]
        if found:
            yield _anomaly(graph, kind + scope.suffix, found, edge, own)  # type: ignore[arg-type]
    plain: tuple[Kind, ...] = ("ww", "wr", *scope.orders)
    single = search.closed(part, plain, rooms)
    old: set[tuple[int, int]] = set()
    if scope.weaker is not None:
        old = set(search.closed(part, ("ww", "wr", *scope.weaker), part.rooms(DATA + scope.weaker)))
    found = part.shortest([pair for pair in single if pair not in old], plain, rooms)
    if found:
        yield _anomaly(graph, f"G-single{scope.suffix}", found, "rw", plain)
    pure = _pure(part, scope, rooms, plain, single)
    if not pure:
        return
    way = search.nonadjacent(part, plain, pure)
    if way:
        yield Anomaly(f"G-nonadjacent{scope.suffix}", *_named(graph, way))
    everything = DATA + scope.orders
    found = part.shortest([pair for pair in part.pairs("rw") if search.same(pure, *pair)], everything, pure)
    if found:
        yield _anomaly(graph, f"G2-item{scope.suffix}", found, "rw", everything)


def _between(part: Part, kind: Kind, kinds: Sequence[Kind], weaker: Sequence[Kind] | None) -> list[tuple[int, int]]:
    """The edges of `kind` that are on a cycle of `kinds`, but on none of `weaker`."""
    rooms = part.rooms(kinds)
    old: Rooms = {} if weaker is None else part.rooms(weaker)
    return [pair for pair in part.pairs(kind) if search.same(rooms, *pair) and not search.same(old, *pair)]


def _pure(part: Part, scope: _Scope, rooms: Rooms, plain: Sequence[Kind], single: Iterable[tuple[int, int]]) -> Rooms:
    """The components without cycles of a weaker order, and without any that have fewer than two rw."""
    spoilt = {rooms[node] for node in part.rooms(plain) if node in rooms}
    spoilt |= {rooms[source] for source, _ in single}
    if scope.weaker is not None:
        spoilt |= {rooms[node] for node in part.rooms(DATA + scope.weaker) if node in rooms}
    return {node: room for node, room in rooms.items() if room not in spoilt}


def _anomaly(graph: Graph, kind: str, nodes: Sequence[int], first: Kind, kinds: Sequence[Kind]) -> Anomaly:
    """The cycle through `nodes`, whose first edge is of the kind `first` and the others of `kinds`."""
    allowed = [(first,), *[tuple(kinds)] * (len(nodes) - 1)]
    pairs = zip(nodes, [*nodes[1:], nodes[0]], allowed, strict=True)
    return Anomaly(kind, *_named(graph, [(a, b, _kind(graph, a, b, each)) for a, b, each in pairs]))


def _kind(graph: Graph, source: int, target: int, kinds: Sequence[Kind]) -> Kind:
    code = source * len(graph.transactions) + target
    return next(kind for kind in kinds if code in graph.coded.get(kind, {}))


def _named(graph: Graph, way: Sequence[tuple[int, int, Kind]]) -> tuple[tuple[int, ...], tuple[Edge, ...]]:
    edges = tuple(graph.edge(kind, a * len(graph.transactions) + b) for a, b, kind in way)
    return tuple(edge.source for edge in edges), edges
