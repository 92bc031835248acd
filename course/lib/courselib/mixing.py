"""Gossip in numpy: who is whose neighbour, mixing matrices and their spectral gap, and how rumours spread."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Graph = list[list[int]]  # the neighbours of each rank, sorted; links go both ways


def ring(n: int) -> Graph:
    return _graph(n, [(rank, (rank + 1) % n) for rank in range(n)])


def torus(n: int) -> Graph:
    """A square grid whose edges wrap around. Raises ValueError where `n` is no square."""
    side = math.isqrt(n)
    if side * side != n:
        raise ValueError(f"a square torus has a square number of ranks, not {n}")
    links = [(r * side + c, r * side + (c + 1) % side) for r in range(side) for c in range(side)]
    return _graph(n, links + [(r * side + c, (r + 1) % side * side + c) for r in range(side) for c in range(side)])


def complete(n: int) -> Graph:
    """The mesh: each with each."""
    return _graph(n, [(a, b) for a in range(n) for b in range(a)])


def tree(n: int) -> Graph:
    """A binary tree with rank 0 as its root."""
    return _graph(n, [(rank, (rank - 1) // 2) for rank in range(1, n)])


def star(n: int) -> Graph:
    """A server, rank 0, and n - 1 that talk to it alone."""
    return _graph(n, [(rank, 0) for rank in range(1, n)])


def random_regular(n: int, degree: int = 4, seed: int = 0) -> Graph:
    """A connected graph in which each rank has `degree` neighbours: the union of degree/2 random rings.

    Raises ValueError for an odd degree, or more than about half of what `n` allows.
    """
    if degree % 2 or degree > n // 2:
        raise ValueError(f"no union of rings on {n} ranks with {degree} neighbours each")
    random = np.random.default_rng([n, degree, seed])
    while True:  # rings that share a link are drawn again
        links = set[tuple[int, int]]()
        for _ in range(degree // 2):
            order = random.permutation(n).tolist()
            links |= {(min(a, b), max(a, b)) for a, b in zip(order, [*order[1:], order[0]], strict=True)}
            if len(links) % n:
                break
        else:
            return _graph(n, sorted(links))


def _graph(n: int, links: Sequence[tuple[int, int]]) -> Graph:
    found: list[set[int]] = [set() for _ in range(n)]
    for a, b in links:
        if a != b:
            found[a].add(b)
            found[b].add(a)
    return [sorted(each) for each in found]


def links(graph: Graph) -> int:
    """How many links there are, each counted once."""
    return sum(map(len, graph)) // 2


def diameter(graph: Graph) -> int:
    """The most hops between any two ranks."""
    return max(max(_hops(graph, rank)) for rank in range(len(graph)))


def _hops(graph: Graph, start: int) -> list[int]:
    hops = [-1] * len(graph)
    hops[start], queue = 0, [start]
    for rank in queue:
        for other in graph[rank]:
            if hops[other] < 0:
                hops[other] = hops[rank] + 1
                queue.append(other)
    return hops


def metropolis(graph: Graph) -> Array:
    """Doubly stochastic weights, 1 / (1 + the greater degree of the two) (Xiao, Boyd and Kim 2007, section 2.2)."""
    matrix = np.zeros((len(graph), len(graph)))
    for rank, others in enumerate(graph):
        for other in others:
            matrix[rank, other] = 1 / (1 + max(len(others), len(graph[other])))
    return matrix + np.diag(1 - matrix.sum(axis=1))


def plain_average(graph: Graph) -> Array:
    """Row-stochastic weights: each takes the plain mean of itself and its neighbours."""
    matrix = np.eye(len(graph))
    for rank, others in enumerate(graph):
        matrix[rank, others] = 1
    mean: Array = matrix / matrix.sum(axis=1, keepdims=True)
    return mean


def second(matrix: Array) -> float:
    """The second largest modulus of an eigenvalue: the factor by which errors shrink in a round, in the end."""
    values = np.linalg.eigvalsh(matrix) if np.allclose(matrix, matrix.T) else np.linalg.eigvals(matrix)
    return float(np.sort(np.abs(values))[-2])


def gap(matrix: Array) -> float:
    """The spectral gap: 1 minus `second`."""
    return 1 - second(matrix)


def weights_of(matrix: Array, rank: int) -> tuple[list[int], list[float]]:
    """From whom a rank takes, and with what weights, without itself."""
    others = [int(other) for other in np.flatnonzero(matrix[rank]) if other != rank]
    return others, [float(matrix[rank, other]) for other in others]


def errors(matrix: Array, start: Array, rounds: int) -> list[float]:
    """The consensus error before each round and after the last: how far the ranks are from the mean of the start.

    It is the root of the mean square, as a share of that before the first round.
    """
    x, found = start.astype(float), list[float]()
    for _ in range(rounds + 1):
        found.append(float(np.sqrt(np.mean((x - start.mean()) ** 2))))
        x = matrix @ x
    return [error / found[0] for error in found]


def calls(n: int, rounds: int, seed: int) -> NDArray[np.intp]:
    """calls[round, rank]: whom a rank calls in a round, drawn evenly from the others."""
    drawn = np.random.default_rng([n, seed]).integers(1, n, size=(rounds, n))
    return (drawn + np.arange(n)) % n


def partners(n: int, rounds: int, seed: int, rank: int) -> list[list[int]]:
    """With whom a rank talks in each round: whom it calls, and then those that call it (see `calls`)."""
    return [[int(called[rank]), *map(int, np.flatnonzero(called == rank))] for called in calls(n, rounds, seed)]


def informed(n: int, how: str, seed: int, rounds: int = 200) -> list[int]:
    """How many know rank 0's rumour before each round, until all do. `how`: "push", "pull" or "push-pull".

    In each round every rank calls one other (`calls`). With push the caller tells what it knew when the round began,
    with pull it is told what the called one knew.
    """
    knows, found = np.zeros(n, dtype=bool), [1]
    knows[0] = True
    for called in calls(n, rounds, seed):
        before = knows.copy()
        if "push" in how:
            knows[called[before]] = True
        if "pull" in how:
            knows |= before[called]
        found.append(int(knows.sum()))
        if knows.all():
            return found
    raise ValueError(f"{rounds} rounds are not enough")
