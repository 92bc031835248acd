"""Searching a graph of transactions: components, shortest ways back, and which edges a way of others closes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import rustworkx

from grader.nodes.histories.transactions.dependencies import Graph
from grader.nodes.histories.transactions.parts import Kind

Rooms = dict[int, int]  # by node: its strongly connected component; nodes that are one of their own are left out
Pair = tuple[int, int]

_STEPS = 2_000_000  # that the search for a smaller witness may take, after a first one
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

    def shortest(self, edges: Iterable[Pair], kinds: Sequence[Kind], rooms: Rooms) -> list[int]:
        """The nodes of the shortest cycle of one of `edges`, which begins it, and a way back by `kinds` in one
        component; empty if there is none. After `_STEPS` steps the shortest so far."""
        candidates = list(edges)
        if not candidates:
            return []
        ways = self.following(kinds, rooms)
        for source, target in candidates:
            if source in ways.get(target, ()):
                return [source, target]
        best: list[int] = []
        left = _STEPS
        for source, target in candidates:
            way, steps = _way(ways, target, source, len(best) - 1 if best else len(rooms) + 1)
            left -= steps
            if way:
                best = [source, *way[:-1]]
            if (best and left < 0) or len(best) == 3:
                break
        return best


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


def _way(ways: dict[int, dict[int, None]], start: int, goal: int, most: int) -> tuple[list[int], int]:
    """The shortest way from start to goal of at most `most` nodes, and the steps taken; empty if there is none."""
    came: dict[int, int] = {start: start}
    layer, steps, length = [start], 0, 1
    while layer and length < most:
        following: list[int] = []
        for node in layer:
            steps += len(ways[node])
            for target in ways[node]:
                if target not in came:
                    came[target] = node
                    if target == goal:
                        way = [goal]
                        while way[-1] != start:
                            way.append(came[way[-1]])
                        return way[::-1], steps
                    following.append(target)
        layer, length = following, length + 1
    return [], steps


def closed(part: Part, kinds: Sequence[Kind], rooms: Rooms) -> list[Pair]:
    """The rw edges from whose target a way of `kinds` leads back to their source."""
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
        pair for at in range(0, len(asked), _ABREAST) for pair in _reached(following, asked[at : at + _ABREAST])
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


def nonadjacent(part: Part, kinds: Sequence[Kind], rooms: Rooms) -> list[tuple[int, int, Kind]]:
    """The shortest cycle in one component without two rw one after the other, as (source, target, kind); empty if
    there is none.

    A walk that repeats a transaction can be parted there into two, one of which still is such a walk. So the shortest
    closed walk goes through no transaction twice.
    """
    plain = part.following(kinds, rooms)
    rw = part.following(("rw",), rooms)
    # a node is entered by rw (odd), from which no rw leads on, or by something else (even)
    ways = {
        2 * node: {**{2 * to: None for to in plain[node]}, **{2 * to + 1: None for to in rw[node]}} for node in rooms
    }
    ways |= {2 * node + 1: {2 * to: None for to in plain[node]} for node in rooms}
    inner = components(((a, b) for a, targets in ways.items() for b in targets), list(ways))
    if not inner:
        return []
    inside = Part(list(inner), {"rw": {node: list(ways[node]) for node in inner}})
    steps = [pair for pair in inside.pairs("rw") if pair[1] % 2 and same(inner, *pair)]
    nodes = inside.shortest(steps, ("rw",), inner)
    found: list[tuple[int, int, Kind]] = []
    for a, b in zip(nodes, [*nodes[1:], *nodes[:1]], strict=True):
        source, target = a // 2, b // 2
        plain_ = (kind for kind in kinds if target in part.out.get(kind, {}).get(source, ()))
        found.append((source, target, "rw" if b % 2 else next(plain_)))
    return _simple(found)


def _simple(way: list[tuple[int, int, Kind]]) -> list[tuple[int, int, Kind]]:
    """A closed walk without two rw one after the other, parted until it goes through no node twice."""
    at: dict[int, int] = {}
    for place, (source, _, _) in enumerate(way):
        if source in at:
            inner, outer = way[at[source] : place], way[: at[source]] + way[place:]
            return _simple(outer if inner[0][2] == inner[-1][2] == "rw" else inner)
        at[source] = place
    return way
