"""Cycles in graphs of transactions, and which kinds of edges make one a witness of a class."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import rustworkx

WW, WR, RW = "ww", "wr", "rw"
KINDS = (WW, WR, RW)
Edges = Mapping[tuple[int, int], Mapping[str, Any]]  # by source and target: the kinds of edges, each with why it is one


def components(edges: Edges, kinds: Iterable[str]) -> list[set[int]]:
    """The strongly connected components of two or more transactions, in edges of these kinds."""
    wanted = set(kinds)
    pairs = [pair for pair, there in edges.items() if wanted & there.keys()]
    nodes = sorted({node for pair in pairs for node in pair})
    places = {node: place for place, node in enumerate(nodes)}
    graph = rustworkx.PyDiGraph(multigraph=False)
    graph.add_nodes_from(nodes)
    graph.add_edges_from_no_data([(places[a], places[b]) for a, b in pairs])
    parts = rustworkx.strongly_connected_components(graph)
    return sorted(
        ({nodes[i] for i in part} for part in parts if len(part) > 1), key=lambda part: (len(part), min(part))
    )


def cycle(inside: Edges, first: str, others: Sequence[str]) -> list[int] | None:
    """A short cycle that begins with an edge of kind `first` and goes on with edges of kinds `others`."""
    wanted = set(others)
    best: list[int] | None = None
    for nodes in components(inside, {first, *others}):
        successors: dict[int, list[int]] = defaultdict(list)
        starts: dict[int, list[int]] = defaultdict(list)
        for (source, target), kinds in inside.items():
            if source in nodes and target in nodes:
                if wanted & kinds.keys():
                    successors[source].append(target)
                if first in kinds:
                    starts[target].append(source)
        for tries, (target, sources) in enumerate(starts.items()):
            if best is not None and (len(best) == 2 or tries > 50):
                break
            cycle = _closed(successors, target, set(sources), len(best) if best else None)
            best = cycle or best
        if best is not None:
            return best
    return best


def chosen(name: str, steps: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """A kind of edge for each step, so that the cycle is of class `name`; None where no choice fits."""
    if not all(steps):
        return None
    if name == "G0":
        return [WW] * len(steps) if all(WW in step for step in steps) else None
    if name == "G1c":
        if all(WW in step or WR in step for step in steps) and any(WR in step for step in steps):
            return [WR if WR in step else WW for step in steps]
        return None
    with_rw = [RW in step for step in steps]
    only_rw = [set(step) == {RW} for step in steps]
    if name == "G2-item":
        return [RW if RW in step else next(iter(step)) for step in steps] if sum(with_rw) >= 2 else None
    if name == "G-single" and any(with_rw) and sum(only_rw) <= 1:
        at = only_rw.index(True) if any(only_rw) else with_rw.index(True)
        return [RW if i == at else (WR if WR in step else WW) for i, step in enumerate(steps)]
    return None


def _closed(successors: Mapping[int, Sequence[int]], start: int, ends: set[int], below: int | None) -> list[int] | None:
    """The shortest path from `start` to one of `ends`, of fewer than `below` transactions."""
    before = {start: start}
    lengths, queue = {start: 1}, deque([start])
    while queue:
        node = queue.popleft()
        if node in ends:
            path = [node]
            while path[-1] != start:
                path.append(before[path[-1]])
            return path[::-1]
        if below is not None and lengths[node] + 1 >= below:
            continue
        for target in successors.get(node, ()):
            if target not in before:
                before[target], lengths[target] = node, lengths[node] + 1
                queue.append(target)
    return None
