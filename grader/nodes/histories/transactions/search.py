"""Searching a graph of transactions: components, which edges a way of others closes, cycles without adjacent rw."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import rustworkx

from grader.nodes.histories.transactions.dependencies import Graph
from grader.nodes.histories.transactions.parts import DATA, Kind
from grader.nodes.histories.transactions.ways import Step, Ways, shortest

Rooms = dict[int, int]  # by node: its strongly connected component; nodes that are one of their own are left out
Pair = tuple[int, int]

_ABREAST = 1024  # sources whose reach is found together


@dataclass
class Part:
    """The edges of a graph that are on cycles: by kind and source, the targets."""

    nodes: list[int]
    out: dict[Kind, dict[int, list[int]]]
    _rooms: dict[frozenset[Kind], Rooms] = field(default_factory=dict)

    def pairs(self, kind: Kind) -> Iterable[Pair]:
        return ((source, target) for source, targets in self.out.get(kind, {}).items() for target in targets)

    def rooms(self, kinds: Sequence[Kind]) -> Rooms:
        """The components of the graph with edges of these kinds only."""
        asked = frozenset(kinds)
        if asked not in self._rooms:
            self._rooms[asked] = components(chain.from_iterable(self.pairs(kind) for kind in kinds), self.nodes)
        return self._rooms[asked]

    def following(self, kinds: Sequence[Kind], rooms: Rooms) -> dict[int, dict[int, None]]:
        """By node, where edges of `kinds` lead to in its component."""
        found: dict[int, dict[int, None]] = {node: {} for node in rooms}
        for kind in kinds:
            for source, targets in self.out.get(kind, {}).items():
                room = rooms.get(source)
                if room is not None:
                    found[source].update((target, None) for target in targets if rooms.get(target) == room)
        return found

    def ways(self, kinds: Sequence[Kind], rooms: Rooms) -> Ways:
        data = [kind for kind in kinds if kind in DATA]
        orders = [kind for kind in kinds if kind not in DATA]
        return Ways(self.following(data, rooms), self.following(orders, rooms) if orders else {})


def same(rooms: Rooms, one: int, other: int) -> bool:
    room = rooms.get(one)
    return room is not None and rooms.get(other) == room


def components(edges: Iterable[Pair], nodes: Sequence[int]) -> Rooms:
    """The strongly connected components of two nodes and more."""
    place = {node: at for at, node in enumerate(nodes)}
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from(nodes)
    graph.extend_from_edge_list([(place[a], place[b]) for a, b in edges])
    parts = [sorted(part) for part in rustworkx.strongly_connected_components(graph) if len(part) > 1]
    return {nodes[at]: room for room, part in enumerate(sorted(parts)) for at in part}


def cut(graph: Graph) -> Part:
    """Of a graph, all that is on cycles."""
    count = len(graph.transactions)
    whole = rustworkx.PyDiGraph()
    whole.add_nodes_from(range(count))
    for coded in graph.coded.values():
        whole.extend_from_edge_list([divmod(code, count) for code in coded])
    room_of = [-1] * count
    for room, part in enumerate(rustworkx.strongly_connected_components(whole)):
        if len(part) > 1:
            for node in part:
                room_of[node] = room
    out: dict[Kind, dict[int, list[int]]] = {}
    for kind, coded in graph.coded.items():
        own = out[kind] = {}
        for code in coded:
            source, target = divmod(code, count)
            if room_of[source] >= 0 and room_of[source] == room_of[target]:
                own.setdefault(source, []).append(target)
    return Part([node for node in range(count) if room_of[node] >= 0], out)


def closed(part: Part, kinds: Sequence[Kind], rooms: Rooms, abreast: int = _ABREAST) -> list[Pair]:
    """The rw edges from whose target a way of `kinds` leads back to their source; `abreast` of them are followed at
    once, as bits, along a topological order."""
    ways = part.following(kinds, rooms)
    if not any(ways.values()):
        return []
    inner = components(((a, b) for a, targets in ways.items() for b in targets), list(rooms))
    name = {node: -1 - inner[node] if node in inner else node for node in rooms}  # components are numbered downwards
    place = _in_order(ways, name)
    found, asked = [], []
    for source, target in part.pairs("rw"):
        if same(rooms, source, target):
            start, goal = place[name[target]], place[name[source]]
            if start == goal:
                found.append((source, target))
            elif start < goal:
                asked.append((start, goal, (source, target)))
    following: list[list[int]] = [[] for _ in range(len(place))]
    for node, targets in ways.items():
        following[place[name[node]]] += [place[name[target]] for target in targets]
    asked.sort()
    return found + [
        pair for at in range(0, len(asked), abreast) for pair in _reached(following, asked[at : at + abreast])
    ]


def _reached(following: list[list[int]], asked: Sequence[tuple[int, int, Pair]]) -> list[Pair]:
    """Of pairs with a start and a goal, both places in a topological order, those with a way between."""
    masks: dict[int, int] = {}
    bits: dict[int, int] = {}
    for start, _, _ in asked:
        if start not in bits:
            bits[start] = 1 << len(bits)
            masks[start] = bits[start]
    last = max(goal for _, goal, _ in asked)
    for at in range(asked[0][0], last):
        mask = masks.get(at)
        if mask:
            for target in following[at]:
                if at < target <= last:
                    masks[target] = masks.get(target, 0) | mask
    return [pair for start, goal, pair in asked if masks.get(goal, 0) & bits[start]]


def _in_order(ways: dict[int, dict[int, None]], name: dict[int, int]) -> dict[int, int]:
    """By name, its place in a topological order in which nodes with small numbers come early."""
    coming: dict[int, int] = dict.fromkeys(name.values(), 0)
    first: dict[int, int] = {}
    members: dict[int, list[int]] = {}
    for node, own in name.items():
        members.setdefault(own, []).append(node)
        first[own] = min(first.get(own, node), node)
    for node, targets in ways.items():
        for target in targets:
            if name[target] != name[node]:
                coming[name[target]] += 1
    ready = [(first[own], own) for own, count in coming.items() if not count]
    heapq.heapify(ready)
    place: dict[int, int] = {}
    while ready:
        _, own = heapq.heappop(ready)
        place[own] = len(place)
        for node in members[own]:
            for target in ways[node]:
                other = name[target]
                if other != own:
                    coming[other] -= 1
                    if not coming[other]:
                        heapq.heappush(ready, (first[other], other))
    return place


def nonadjacent(part: Part, kinds: Sequence[Kind], rooms: Rooms) -> list[Step]:
    """The shortest cycle in one component without two rw one after the other; empty if there is none.

    A walk that repeats a transaction can be parted there into two, one of which still is such a walk. So the shortest
    closed walk goes through no transaction twice.
    """
    plain, rw = part.ways(kinds, rooms), part.following(("rw",), rooms)
    # a node is entered by rw (odd), from which no rw leads on, or by something else (even)
    even = {node: {2 * to: None for to in targets} for node, targets in plain.data.items()}
    data = {2 * node: {**even[node], **{2 * to + 1: None for to in rw[node]}} for node in rooms}
    data |= {2 * node + 1: even[node] for node in rooms}
    orders = {
        2 * node + odd: {2 * to: None for to in targets} for node, targets in plain.orders.items() for odd in (0, 1)
    }
    inner = components(((a, b) for ways in (data, orders) for a, targets in ways.items() for b in targets), list(data))
    if not inner:
        return []
    inside = Ways(_within(data, inner), _within(orders, inner))
    candidates = [(a, b) for a, targets in inside.data.items() for b in targets if b % 2]
    return _simple([Step(one.source // 2, one.target // 2, one.ordered, one.target % 2 == 1)
                    for one in shortest(inside, candidates)])  # fmt: skip


def _within(ways: dict[int, dict[int, None]], rooms: Rooms) -> dict[int, dict[int, None]]:
    return {
        node: {to: None for to in targets if same(rooms, node, to)} for node, targets in ways.items() if node in rooms
    }


def _simple(way: list[Step]) -> list[Step]:
    """A closed walk without two rw one after the other, parted until it goes through no node twice."""
    at: dict[int, int] = {}
    for place, step in enumerate(way):
        if step.source in at:
            inner, outer = way[at[step.source] : place], way[: at[step.source]] + way[place:]
            return _simple(outer if inner[0].rw and inner[-1].rw else inner)
        at[step.source] = place
    return way
