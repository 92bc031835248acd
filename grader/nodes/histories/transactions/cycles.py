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
from grader.nodes.histories.transactions.ways import Step, shortest

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
        found = shortest(part.ways(own, part.rooms(own)), _between(part, edge, own, weak))  # type: ignore[arg-type]
        if found:
            yield _anomaly(graph, kind + scope.suffix, found, edge, own)  # type: ignore[arg-type]
    plain: tuple[Kind, ...] = ("ww", "wr", *scope.orders)
    single = search.closed(part, plain, rooms)
    old: set[tuple[int, int]] = set()
    if scope.weaker is not None:
        old = set(search.closed(part, ("ww", "wr", *scope.weaker), part.rooms(DATA + scope.weaker)))
    found = shortest(part.ways(plain, rooms), [pair for pair in single if pair not in old])
    if found:
        yield _anomaly(graph, f"G-single{scope.suffix}", found, "rw", plain)
    pure = _pure(part, scope, rooms, plain, single)
    if not pure:
        return
    way = search.nonadjacent(part, plain, pure)
    if way:
        yield _anomaly(graph, f"G-nonadjacent{scope.suffix}", way, "rw", plain)
    everything = DATA + scope.orders
    candidates = [pair for pair in part.pairs("rw") if search.same(pure, *pair)]
    found = shortest(part.ways(everything, pure), candidates)
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


def _anomaly(graph: Graph, kind: str, cycle: Sequence[Step], first: Kind, kinds: Sequence[Kind]) -> Anomaly:
    """The cycle of these steps, of which the first and those that say so are of the kind `first`, others of `kinds`."""
    edges: list[Edge] = []
    run: list[Edge] = []  # of orders, one after the other
    for at, step in enumerate(cycle):
        allowed = [first] if not at or step.rw else [each for each in kinds if (each in DATA) != step.ordered]
        edge = _edge(graph, step, allowed)
        if step.ordered:
            run.append(edge)
        else:
            edges += [*_merged(graph, run), edge]
            run = []
    edges += _merged(graph, run)
    return Anomaly(kind, tuple(edge.source for edge in edges), tuple(edges))


def _edge(graph: Graph, step: Step, kinds: Sequence[Kind]) -> Edge:
    code = step.source * len(graph.transactions) + step.target
    return graph.edge(next(kind for kind in kinds if code in graph.coded.get(kind, {})), code)


def _merged(graph: Graph, run: list[Edge]) -> list[Edge]:
    """Edges of orders that follow each other as one edge, which says the same without what happened between."""
    if len(run) < 2:
        return run
    if all(edge.kind == "session" for edge in run):
        return [Edge("session", run[0].source, run[-1].target)]
    first, last = graph.named[run[0].source], graph.named[run[-1].target]
    return [Edge("real-time", first.index, last.index)] if first.returned < last.called else run
