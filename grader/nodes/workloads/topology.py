"""Who is whose neighbour, as the broadcast workload tells its nodes: grid, line, tree or total (Maelstrom's names)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

Topology = dict[str, list[str]]


def _of(nodes: Sequence[str], near: Callable[[int, int], bool]) -> Topology:
    """Neighbours are those whose places are near, in whichever order."""
    return {one: [other for j, other in enumerate(nodes) if near(i, j) or near(j, i)] for i, one in enumerate(nodes)}


def grid(nodes: Sequence[str]) -> Topology:
    """Rows and columns, about as many of each: at most four neighbours."""
    side = math.ceil(math.sqrt(len(nodes)))
    return _of(nodes, lambda i, j: j == i + side or (j == i + 1 and j % side != 0))


def line(nodes: Sequence[str]) -> Topology:
    return _of(nodes, lambda i, j: j == i + 1)


def tree(nodes: Sequence[str]) -> Topology:
    """A binary tree; the first node is its root."""
    return _of(nodes, lambda i, j: j in (2 * i + 1, 2 * i + 2))


def total(nodes: Sequence[str]) -> Topology:
    return _of(nodes, lambda i, j: i != j)


TOPOLOGIES: Mapping[str, Callable[[Sequence[str]], Topology]] = {
    "grid": grid, "line": line, "tree": tree, "total": total,
}  # fmt: skip
