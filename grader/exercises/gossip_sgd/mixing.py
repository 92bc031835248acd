"""What must come of gossip and of local SGD, in numpy, and what usual mistakes come to.

Mixing matrices: Xiao and Boyd 2004, "Fast linear iterations for distributed averaging" (Metropolis weights, and the
rate at which the consensus error shrinks); Boyd, Ghosh, Prabhakar, Shah 2006, "Randomized gossip algorithms" (pairs).
Elastic averaging: Zhang, Choromanska, LeCun 2015, "Deep learning with elastic averaging SGD", section 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grader import says

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
    linked = ((matrix != 0) | np.eye(len(matrix), dtype=bool)).astype(float)
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
    yield np.eye(n), "The tensors that were given are as they were: they must be changed in place."
    yield (
        uniform(matrix),
        "That is the plain mean over a rank and its neighbours, without the weights: each row sums to 1, but the "
        "columns do not where degrees differ, so that the mean of all ranks is lost.",
    )
    yield np.full((n, n), 1 / n), "That is the mean of all ranks: a mix takes the neighbours only, by their weights."
    said = "Each rank keeps its own value whole: it must be scaled by 1 - the sum of the weights."
    yield matrix - own + np.eye(n), said
    yield matrix - own, "Each rank's own value is missing: it counts 1 - the sum of the weights."
    yield (
        matrix.T,
        "Each message has the weight that its SENDER has for the receiver: the weights are the receiver's, for what it "
        "hears. Where weights are not symmetric that is another matrix.",
    )
    said = "The weights went to other neighbours: weights[k] is that of neighbours[k], in the order that is given."
    yield misaligned(gossip, number), said
    outside = matrix - own
    said = "That is the mean of the neighbours alone, without the own value."
    yield outside / np.maximum(outside.sum(1, keepdims=True), 1e-9), said


def mixed_up(gossip: Gossip, number: int, before: Array, got: Array, rank: int, near: Callable[..., bool]) -> str:
    """Says which neighbours' values were new already where that explains the values of `rank`."""
    matrix = gossip.matrices[number]
    others = [other for other in range(len(matrix)) if other != rank and matrix[rank, other]]
    for count in range(1, len(others) + 1):
        for chosen in itertools.combinations(others, count):
            values = np.array(before)
            values[list(chosen)] = got[list(chosen)]
            if near(matrix[rank] @ values, got[rank]):
                return ", ".join(map(str, chosen))
    return ""


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
    "centre stays": "The workers are drawn to the centre, but the centre never moves: the elastic force acts on both, "
    "or it is no elastic averaging.",
    "workers stay": "The workers are where no centre draws them: the elastic force acts on both.",
    "new centre": "The workers are drawn to the NEW centre: both updates use the old values.",
    "new workers": "The centre is drawn to the NEW parameters of the workers: both updates use the old values.",
    "mean force": "The centre is drawn by the mean of the differences: it is drawn by their sum.",
    "follows": "The centre became the mean of the workers: it is only drawn to them, by elastic x the sum.",
    "own start": "Each rank began with its own parameters: all load rank 0's, where the centre begins too.",
    "own centre": "Each rank began with its own parameters: all load rank 0's, where the centre begins too.",
    "mean": "The centre began as the mean of the ranks' parameters: it begins as rank 0's, which all load.",
}


def training_mistakes(training: Training) -> Iterator[tuple[Array, str]]:
    """What the ranks' parameters would be by each usual mistake, and the sentence that names it."""
    period, steps = training.period, training.steps
    early = (1, *range(period + 1, steps + 1, period))
    told = says.some(early, 2)
    said = f"The ranks met after steps {told}: step 0 is the first, so that after `step` there were step + 1."
    yield replace(training, after=early).rows(), said
    late = tuple(range(period + 1, steps + 1, period + 1))
    if late:
        said = f"The ranks met after steps {says.some(late, 2)}: a period is {period} steps."
        yield replace(training, after=late).rows(), said
    for variant, sentence in _ELASTIC.items() if training.elastic is not None else ():
        yield replace(training, variant=variant).rows(), sentence
    yield replace(training, after=tuple(range(1, steps + 1))).rows(), "The ranks met after every step."
    yield replace(training, after=()).rows(), "The ranks never met: their parameters are those of each rank alone."
    yield replace(training, after=(steps,)).rows(), "The ranks met once, in the end."
    yield replace(training, after=training.meetings[:1]).rows(), "The ranks met once and never again."
    if training.elastic is None:
        yield replace(training, variant="sum").rows(), "The parameters are the SUM over the ranks: divide by N."
        return
    yield replace(training, elastic=None).rows(), "That is the plain average: with `elastic`, ranks and centre meet."
    loaded = np.broadcast_to(training.start[0], training.start.shape)
    said = "That is the plain average: with `elastic`, each rank and the centre are only drawn to each other."
    yield replace(training, elastic=None, start=loaded).rows(), said
