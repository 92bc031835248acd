"""What must come of gossip and of local SGD, in numpy, and what usual mistakes come to.

Mixing matrices: Xiao and Boyd 2004, "Fast linear iterations for distributed averaging" (Metropolis weights, and the
rate at which the consensus error shrinks); Boyd, Ghosh, Prabhakar, Shah 2006, "Randomized gossip algorithms" (pairs).
Elastic averaging: Zhang, Choromanska, LeCun 2015, "Deep learning with elastic averaging SGD", section 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Edges = Sequence[tuple[int, int]]


# ---- mixing matrices: row i are the weights with which rank i takes the values of all


def ring(n: int) -> Edges:
    return [(rank, (rank + 1) % n) for rank in range(n if n > 2 else n - 1)]


def star(n: int) -> Edges:
    return [(0, rank) for rank in range(1, n)]


def path(n: int) -> Edges:
    return [(rank, rank + 1) for rank in range(n - 1)]


def complete(n: int) -> Edges:
    return list(itertools.combinations(range(n), 2))


def torus(side: int) -> Edges:
    """A square grid that is wrapped around in both directions, `side` > 2."""
    places = [(row, column) for row in range(side) for column in range(side)]
    right = [(row * side + column, row * side + (column + 1) % side) for row, column in places]
    return right + [(row * side + column, (row + 1) % side * side + column) for row, column in places]


def weighted(n: int, edges: Edges, weights: Sequence[float]) -> Array:
    """The symmetric mixing matrix in which each edge has a weight."""
    matrix = np.eye(n)
    for (one, other), weight in zip(edges, weights, strict=True):
        matrix[one, other] = matrix[other, one] = weight
        matrix[one, one] -= weight
        matrix[other, other] -= weight
    return matrix


def metropolis(n: int, edges: Edges) -> Array:
    """Weights that are 1 / (1 + the larger of both degrees)."""
    degrees = np.bincount(np.asarray(edges).reshape(-1), minlength=n)
    return weighted(n, edges, [1 / (1 + max(degrees[one], degrees[other])) for one, other in edges])


def circulant(n: int, ahead: float, back: float) -> Array:
    """A ring in which what comes from ahead weighs otherwise than what comes from behind."""
    step = np.roll(np.eye(n), 1, axis=1)
    return np.asarray((1 - ahead - back) * np.eye(n) + ahead * step + back * step.T)


def sinkhorn(generator: np.random.Generator, n: int) -> Array:
    """Positive, not symmetric, and doubly stochastic (Sinkhorn 1964)."""
    matrix = generator.uniform(0.1, 1, (n, n))
    for _ in range(500):
        matrix /= matrix.sum(0)
        matrix /= matrix.sum(1, keepdims=True)
    return np.asarray(matrix)


def rate(matrix: Array) -> float:
    """The factor by which a mix shrinks the consensus error at least: 1 - the spectral gap."""
    return float(np.linalg.norm(matrix - 1 / len(matrix), 2))


@dataclass(frozen=True)
class Gossip:
    """Ranks that mix: a matrix for each round, and what each rank starts with, [rank, element]."""

    matrices: tuple[Array, ...]
    start: Array
    shapes: tuple[tuple[int, ...], ...]
    told: tuple[tuple[tuple[tuple[int, ...], tuple[float, ...]], ...], ...]  # [rank][round]: neighbours, weights

    def after(self) -> Array:
        """All values after every round: [round, rank, element]."""
        rows, now = [], self.start.astype(np.float64)
        for matrix in self.matrices:
            now = matrix @ now
            rows.append(now)
        return np.stack(rows)


def uniform(matrix: Array) -> Array:
    """One over the number of those who are mixed, whatever weights were given."""
    linked = ((matrix + matrix.T != 0) | np.eye(len(matrix), dtype=bool)).astype(float)
    return np.asarray(linked / linked.sum(1, keepdims=True))


def misaligned(gossip: Gossip, number: int) -> Array:
    """The matrix in which each rank takes its neighbours by their numbers, and the weights in the order given."""
    matrix = np.array(gossip.matrices[number])
    for rank, rounds in enumerate(gossip.told):
        neighbours, weights = rounds[number]
        matrix[rank, sorted(neighbours)] = weights
    return matrix


def mixing_mistakes(gossip: Gossip, number: int) -> Iterator[tuple[Array, str]]:
    """The matrix of each usual mistake in round `number`, and the sentence that names it."""
    matrix = gossip.matrices[number]
    n, own = len(matrix), np.diag(np.diag(matrix))
    yield np.eye(n), "The mix left the given tensors as they were. Change them in place, by what messages bring."
    everybody = np.full((n, n), 1 / n)
    if np.allclose(uniform(matrix), everybody):  # where all are neighbours, the next two mistakes give the same
        said = "Each rank holds the plain mean of all ranks, without the weights. Multiply each value by its weight."
        yield everybody, said
    yield (
        uniform(matrix),
        "Each rank holds the plain mean of itself and its neighbors, without the weights. Where ranks have different "
        "numbers of neighbors, that changes the mean over all ranks. Multiply each value by its weight.",
    )
    yield everybody, "Each rank holds the mean over all ranks. Mix only the neighbors, each by its weight."
    said = "Each rank added its own value unscaled. Multiply the own value by 1 - the sum of the weights."
    yield matrix - own + np.eye(n), said
    yield matrix - own, "Each rank's own value is missing. Add it, multiplied by 1 - the sum of the weights."
    yield (
        matrix.T,
        "Each value was multiplied by the weight that its SENDER has for the receiver. With asymmetric weights that is "
        "the transposed matrix. Use the receiver's weights: weights[k] is for what neighbours[k] sends.",
    )
    said = "These are the values for sorted neighbors and unsorted weights. weights[k] belongs to neighbours[k]."
    yield misaligned(gossip, number), said
    outside = matrix - own
    said = "Each rank holds the mean of its neighbors alone. Add its own value, times 1 - the sum of the weights."
    yield outside / np.maximum(outside.sum(1, keepdims=True), 1e-9), said


# ---- local SGD


@dataclass(frozen=True)
class Training:
    """Local SGD of all ranks: [rank, element] to start from, [rank, step, element] what each step goes towards."""

    start: Array
    targets: Array
    rate: float
    period: int
    elastic: float | None
    shapes: tuple[tuple[int, ...], ...]
    frozen: tuple[int, ...] = ()  # parameters that require no gradient
    variant: str = ""
    after: tuple[int, ...] | None = None  # the steps after which ranks meet, where they are not what they should be

    @property
    def steps(self) -> int:
        return int(self.targets.shape[1])

    @property
    def meetings(self) -> tuple[int, ...]:
        """After how many steps the ranks are to meet."""
        return tuple(range(self.period, self.steps + 1, self.period))

    def rows(self) -> Array:
        """What every step finds, and what is left in the end: [step, rank, element]."""
        x = self.start.astype(np.float64)
        centre = x[:1]  # one row for all ranks, or one for each where each has its own
        if self.elastic is not None:
            centre = {"mean": x.mean(0, keepdims=True), "own centre": x}.get(self.variant, centre)
            if not self.variant.startswith("own"):
                x = np.broadcast_to(centre, x.shape)
        meetings, rows = self.meetings if self.after is None else self.after, [x]
        for step in range(self.steps):
            x = x - self.rate * (x - self.targets[:, step])
            if step + 1 in meetings:
                x, centre = self._met(x, centre)
            rows.append(x)
        return np.stack(rows)

    def _met(self, x: Array, centre: Array) -> tuple[Array, Array]:
        if self.elastic is None:
            return np.broadcast_to(x.sum(0) if self.variant == "sum" else x.mean(0), x.shape), centre
        force = self.elastic * (x - centre)
        pulled = x if self.variant == "workers stay" else x - force
        drawn = pulled if self.variant == "new workers" else x
        weight = self.elastic / len(x) if self.variant == "mean force" else self.elastic
        moved = centre + weight * (drawn - centre).sum(0, keepdims=True)
        if self.variant == "follows":
            moved = x.mean(0, keepdims=True)
        if self.variant == "new centre":
            pulled = x - self.elastic * (x - moved)
        return pulled, centre if self.variant == "centre stays" else moved


_ELASTIC = {
    "centre stays": "The ranks moved toward the center, but the center never moved. Elastic averaging moves both. Add "
    "elastic x the sum of the differences (rank - center) to the center.",
    "workers stay": "The ranks never moved toward the center. Elastic averaging moves both. Subtract elastic x (rank - "
    "center) from each rank's parameters.",
    "new centre": "The ranks moved toward the NEW center. Compute both updates from the old values.",
    "new workers": "The center moved toward the NEW parameters of the ranks. Compute both updates from the old values.",
    "mean force": "The center moved by elastic x the MEAN of the differences. Move it by elastic x their sum.",
    "follows": "The center became the mean of the ranks. Only move it toward them, by elastic x the sum of the "
    "differences (rank - center).",
    "own start": "Each rank began with its own parameters. Load rank 0's on all ranks first. The center begins there.",
    "own centre": "Each rank began with its own parameters. Load rank 0's on all ranks first. The center begins there.",
    "mean": "The center began as the mean over the ranks. Begin with rank 0's parameters, and load them on all ranks.",
}


def training_mistakes(training: Training) -> Iterator[tuple[Array, str]]:
    """What the ranks' parameters would be by each usual mistake, and the sentence that names it."""
    period, steps = training.period, training.steps
    early = (1, *range(period + 1, steps + 1, period))
    when = f"every {period} steps" if period > 1 else "after every step"
    wanted = f"They must meet {when}."
    said = f"The ranks met {_after(early)}. After local_step(step), step + 1 steps are done. {wanted}"
    yield replace(training, after=early).rows(), said
    late = tuple(range(period + 1, steps + 1, period + 1))
    if late:
        yield replace(training, after=late).rows(), f"The ranks met {_after(late)}. {wanted}"
    for variant, sentence in _ELASTIC.items() if training.elastic is not None else ():
        yield replace(training, variant=variant).rows(), sentence
    yield replace(training, after=tuple(range(1, steps + 1))).rows(), f"The ranks met after every step. {wanted}"
    said = f"Each rank has what its own steps alone give. The ranks' parameters must be averaged {when}."
    yield replace(training, after=()).rows(), said
    yield replace(training, after=(steps,)).rows(), f"The ranks met only once, after the last step. {wanted}"
    yield replace(training, after=training.meetings[:1]).rows(), f"The ranks met once and never again. {wanted}"
    if training.elastic is None:
        yield replace(training, variant="sum").rows(), "The parameters are the SUM over the ranks. Divide by N."
        return
    said = "That is the plain average. With `elastic`, move each rank toward the center, and the center toward them."
    if not training.elastic:
        said = (
            "That is the plain average. elastic = 0.0 is not None: ask `elastic is not None`, and load rank 0's values."
        )
    yield replace(training, elastic=None).rows(), said
    loaded = np.broadcast_to(training.start[0], training.start.shape)
    yield replace(training, elastic=None, start=loaded).rows(), said


def _after(steps: Sequence[int]) -> str:
    more = " and so on" if len(steps) > 2 else ""
    return f"after step{'s' * (len(steps) > 1)} {', '.join(map(str, steps[:2]))}{more}"
