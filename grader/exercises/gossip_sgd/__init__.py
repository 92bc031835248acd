"""mix(parameters, neighbours, weights) and local_sgd(model, steps, period, elastic): SGD without a centre, or seldom.

Decentralised SGD mixes with neighbours by a doubly stochastic matrix (Lian et al. 2017, "Can decentralized algorithms
outperform centralized algorithms?"); local SGD averages every so many steps (Stich 2019, "Local SGD converges fast and
communicates little"), or is drawn to a centre (Zhang, Choromanska, LeCun 2015, "Elastic averaging SGD").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks
from grader.exercises.gossip_sgd import judging, mixing, training
from grader.exercises.gossip_sgd.mixing import Array, Edges, Gossip, Training
from grader.ranks.program import Function, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Ranks

SHAPES = ((4, 3), (5,), (2, 1, 3), (), (1,))
RATE = 0.3


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check."""
    yield from _exact(draw)
    for n in (3, 4, 5):
        yield _pairs(draw, n)
    yield _mix(draw, "mean", 4, "a star with Metropolis weights", [mixing.metropolis(4, mixing.star(4))] * 12)
    yield _mix(draw, "consensus", 9, "a 3 x 3 torus", [mixing.metropolis(9, mixing.torus(3))] * 26)
    yield _mix(draw, "consensus", 9, "a ring of 9", [mixing.metropolis(9, mixing.ring(9))] * 24)
    yield _mix(draw, "consensus", 5, "a star of 5", [mixing.metropolis(5, mixing.star(5))] * 30)
    shapes = (5, "a ring", mixing.ring(5)), (4, "a star", mixing.star(4)), (9, "a torus", mixing.torus(3))
    for n, what, edges in shapes:
        yield _mix(draw, "traffic", n, what, [mixing.metropolis(n, edges)], "float32", ((32, 8), (64,), (16, 16)))
    for n, steps, period, dtype in ((2, 6, 2, "float64"), (3, 9, 3, "float32"), (4, 8, 4, "float64")):
        yield _train(draw, "average", n, steps, period, None, dtype)
    for n, steps, period in ((2, 7, 3), (3, 4, 1), (4, 3, 5), (4, 11, 4)):
        yield _train(draw, "periods", n, steps, period, None)
    yield _train(draw, "periods", 3, 8, 3, 0.2)
    for n, steps, period, elastic in ((2, 8, 2, 0.3), (3, 9, 3, 0.2), (4, 6, 1, 0.1), (4, 9, 3, 0.15), (3, 4, 2, 0.0)):
        dtype, frozen = "float32" if n == 2 else "float64", (1,) if steps == 6 else ()
        yield _train(draw, "elastic", n, steps, period, elastic, dtype, frozen=frozen)
    yield _train(draw, "elastic", 3, 2, 4, 0.2)  # no meeting: rank 0's parameters are loaded all the same
    edges = mixing.ring(3)
    yield _mix(draw, "real_mix", 3, "a ring of 3 real processes", [_uneven(draw, 3, edges)] * 3, engine="gloo")
    big = ((300, 200), (200,))
    yield _mix(draw, "real_mix", 3, "a path of 3 real processes", [_uneven(draw, 3, mixing.path(3))], "float32", big,
               "gloo")  # fmt: skip
    yield _train(draw, "real_training", 3, 6, 2, None, engine="gloo")
    yield _train(draw, "real_training", 3, 4, 4, 0.2, "float32", engine="gloo")


def _exact(draw: Draw) -> Iterator[Case]:
    """One mix on each topology; weights are drawn where nothing else is said."""
    drawn: tuple[tuple[int, str, Edges, str], ...] = (
        (3, "a path of 3", mixing.path(3), "float32"),
        (4, "a star of 4", mixing.star(4), "float64"),
        (5, "a ring of 5", mixing.ring(5), "float64"),
        (5, "all linked to all", mixing.complete(5), "float32"),
        (9, "a 3 x 3 torus", mixing.torus(3), "float64"),
    )
    for n, what, edges, dtype in drawn:
        yield _mix(draw, "exact", n, f"{what}, uneven weights", [_uneven(draw, n, edges)], dtype)
    for n, what, edges, dtype in drawn[1:3]:
        yield _mix(draw, "exact", n, f"{what}, Metropolis weights", [mixing.metropolis(n, edges)], dtype)
    for n in (4, 5):
        ahead, back = draw.generator(f"circulant {n}").uniform((0.1, 0.35), (0.2, 0.5))
        matrix = mixing.circulant(n, float(ahead), float(back))
        yield _mix(draw, "exact", n, f"a ring of {n}, one side weighs more", [matrix])
    matrix = mixing.circulant(4, 0.4, 0.0)
    yield _mix(draw, "exact", 4, "a ring of 4, each takes from one side only (the other side's weight is 0)", [matrix])
    matrix = mixing.sinkhorn(draw.generator("sinkhorn"), 3)
    yield _mix(draw, "exact", 3, "all of 3 linked, weights not symmetric", [matrix])


def _uneven(draw: Draw, n: int, edges: Edges) -> Array:
    """Symmetric weights of which no two are alike, and each rank keeps some of its own."""
    degree = int(np.bincount(np.asarray(edges).reshape(-1)).max())
    drawn = draw.generator(f"weights {n} {edges}").uniform(0.3, 0.9, len(edges)) / degree
    return mixing.weighted(n, edges, [float(weight) for weight in drawn])


def _pairs(draw: Draw, n: int) -> Case:
    """In each round some meet, two by two; who is left over has nobody."""
    generator = draw.generator(f"pairs {n}")
    matrices = []
    for _ in range(16):
        order = [int(rank) for rank in generator.permutation(n)]
        pairs = list(zip(order[::2], order[1::2], strict=False))[: 1 + int(generator.integers(0, 2))]
        matrices.append(mixing.weighted(n, pairs, [float(w) for w in generator.uniform(0.2, 0.45, len(pairs))]))
    return _mix(draw, "mean", n, f"pairs of {n} ranks, others in each round", matrices)


def _mix(
    draw: Draw, group: str, n: int, what: str, matrices: Sequence[Array], dtype: str = "float64",
    shapes: tuple[tuple[int, ...], ...] = SHAPES, engine: str = "sim",
) -> Case:  # fmt: skip
    """Rounds of mix; every rank is told its neighbours in an order of its own."""
    label = f"{what}, {dtype}"
    generator = draw.generator(f"{group} {label}")
    start = _start(generator, n, shapes, dtype)
    told = tuple(tuple(_row(generator, matrix, rank) for matrix in matrices) for rank in range(n))
    arguments: list[tuple[Any, ...]] = []
    for rank in range(n):
        rounds = [[list(neighbours), list(weights)] for neighbours, weights in told[rank]]
        arguments.append((_tensors(start[rank], shapes), rounds))
    expected = Gossip(tuple(matrices), start, shapes, told)
    return Case(group, label, tuple(arguments), "mix", engine, expected=expected, by="gossip")


def _row(generator: np.random.Generator, matrix: Array, rank: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    linked = (matrix[rank] != 0) | (matrix[:, rank] != 0)  # it takes from them, or they take from it
    others = [int(other) for other in generator.permutation(len(matrix)) if other != rank and linked[other]]
    return tuple(others), tuple(float(matrix[rank, other]) for other in others)


def _start(generator: np.random.Generator, n: int, shapes: tuple[tuple[int, ...], ...], dtype: str) -> Array:
    size = sum(int(np.prod(shape)) for shape in shapes)
    return np.asarray(generator.uniform(-2, 2, (n, size)).astype(dtype))


def _tensors(row: Array, shapes: tuple[tuple[int, ...], ...]) -> list[Strided]:
    parts = np.split(row, np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1])
    return [Strided.of(np.array(part.reshape(shape))) for part, shape in zip(parts, shapes, strict=True)]


def _train(
    draw: Draw, group: str, n: int, steps: int, period: int, elastic: float | None, dtype: str = "float64",
    engine: str = "sim", frozen: tuple[int, ...] = (),
) -> Case:  # fmt: skip
    """All begin alike, but for elastic averaging, where rank 0's parameters are to be loaded by all.

    `frozen` parameters require no gradient; the local steps change them all the same.
    """
    told = f"local_sgd(model, {steps}, {period}{'' if elastic is None else f', elastic={elastic}'})"
    label = f"{told} on {n} {'real processes' if engine == 'gloo' else 'ranks'}, {dtype}"
    label += ", one parameter requires no gradient" if frozen else ""
    generator = draw.generator(f"{group} {label}")
    start = _start(generator, n, SHAPES, dtype)
    if elastic is None:
        start = np.repeat(start[:1], n, 0)
    targets = np.stack([_start(generator, steps, SHAPES, dtype) for _ in range(n)])
    arguments = tuple(
        (_tensors(start[rank], SHAPES), RATE, Strided.of(targets[rank]), steps, period, elastic, list(frozen))
        for rank in range(n)
    )
    expected = Training(start, targets.astype(np.float64), RATE, period, elastic, SHAPES, frozen)
    return Case(group, label, arguments, "local_sgd", engine, expected=expected, by="train",
                simulated=group == "periods")  # fmt: skip


EXERCISE = Exercise(
    name="gossip_sgd",
    chapter="10",
    title="Gossip, local SGD and elastic averaging",
    minutes=45,
    difficulty=2,
    world=Ranks(
        (
            Function("mix", ("parameters", "neighbours", "weights")),
            Function("local_sgd", ("model", "steps", "period", "elastic")),
        ),
        cases,
        limits=checks.TRAINING,
    ),
    checks=(
        Check("exact", "A mix is a row of the mixing matrix times the old values", 4, judging.exact),
        Check("mean", "The mean over all ranks is kept, also where a rank meets nobody", 3, judging.mean),
        Check("consensus", "Consensus as fast as the spectral gap says", 3, judging.consensus),
        Check("neighbours", "Each tensor once to each neighbor, and to nobody else", 2, judging.neighbours_only),
        Check("average", "Local SGD: the plain average", 3, partial(training.trained, group="average")),
        Check("periods", "Communication after steps period, 2 period, ... alone", 3, training.periods),
        Check("elastic", "Elastic averaging draws both sides", 4, partial(training.trained, group="elastic")),
        Check("real", "Both on 3 real processes", 2, training.real),
    ),
)
