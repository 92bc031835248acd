"""The cases of gradient_compression. Gradients are drawn without ties, of numbers that float32 adds up exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from grader.exercise import Draw
from grader.exercises.gradient_compression.compression import Array, Job, Problem, kept, outputs, without_ties
from grader.ranks.program import Strided
from grader.worlds.cases import Case

WEIGHT, BIAS = "layers.0.weight", "layers.0.bias"
LARGE = 98304  # more than int16 can count
Layout = Callable[[Array], Strided]
Plan = Sequence[tuple[int, str, tuple[int, ...]]]  # of each call: the object, the name, the shape


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check."""
    for ranks, ratio, size in ((2, 0.25, 40), (3, 0.3, 33), (3, 0.07, 97), (4, 0.01, 20), (4, 0.2, 64), (2, 1.0, 12)):
        label = f"{ranks} ranks, {size} elements and ratio {ratio:g}, so k = {kept(ratio, size)}"
        yield _case(draw, "first_step", label, ranks, (ratio,), [(0, WEIGHT, (size,))])
    label = "2 ranks, 20 elements of which 3 are not zero, k = 5"
    yield _case(draw, "first_step", label, 2, (0.25,), [(0, WEIGHT, (20,))], values=_few, ties=True)
    yield from _feedback(draw)
    for ranks, ratio, size in ((2, 0.0625, 4096), (3, 0.03, 50), (4, 0.03125, 1600)):
        label = f"{ranks} ranks, {size} elements, k = {kept(ratio, size)}, 3 calls"
        yield _case(draw, "bytes", label, ranks, (ratio,), [(0, WEIGHT, (size,))] * 3)
    for ranks in (3, 4):
        label = f"{ranks} ranks, 400 elements, k = 200"
        yield _case(draw, "agreement", label, ranks, (0.5,), [(0, WEIGHT, (400,))] * 2, values=_any)
    yield _training(draw)
    yield from _shapes(draw)
    plan = [(0, name, (size,)) for name, size in ((WEIGHT, 48), (BIAS, 20)) * 3]
    yield _case(draw, "real", "2 real processes, names in turn", 2, (0.1,), plan, engine="gloo")
    label = f"2 real processes, {LARGE} elements, k = {LARGE // 128}"
    yield _case(draw, "real", label, 2, (1 / 128,), [(0, WEIGHT, (LARGE,))] * 2, engine="gloo", values=_any)


def _feedback(draw: Draw) -> Iterator[Case]:
    plan = [(0, WEIGHT, (40,))] * 5
    yield _case(draw, "feedback", "2 ranks, one name, 5 calls", 2, (0.16,), plan)
    order = (WEIGHT, BIAS, BIAS, WEIGHT, WEIGHT, BIAS, WEIGHT, WEIGHT, BIAS, BIAS)
    plan = [(0, name, (30,)) for name in order]
    yield _case(draw, "feedback", "3 ranks, two names of one shape", 3, (0.15,), plan)
    plan = [(0, name, (56 if name == WEIGHT else 9,)) for name in order]
    yield _case(draw, "feedback", "4 ranks, two names of different shapes", 4, (0.12,), plan)
    plan = [(number % 2, name, (28,)) for number, name in enumerate((WEIGHT, WEIGHT, BIAS, BIAS) * 3)]
    yield _case(draw, "feedback", "2 ranks, two objects that are given the same names", 2, (0.2, 0.4), plan)
    plan = [(0, WEIGHT, (40,))] * 3
    yield _case(draw, "feedback", "2 ranks, 3 calls with the same tensor", 2, (0.16,), plan, one_tensor=True)


def _shapes(draw: Draw) -> Iterator[Case]:
    """A matrix, and gradients whose elements do not lie one after the other in memory."""
    layouts: tuple[tuple[str, tuple[int, ...], Layout], ...] = (
        ("a matrix", (6, 7), Strided.of),
        ("a transposed matrix", (7, 6), _transposed),
        ("every other column of a matrix", (5, 8), _every_other),
        ("a tensor of 3 dimensions, exchanged", (4, 3, 5), _transposed),
    )
    for number, (what, shape, layout) in enumerate(layouts):
        ranks = 2 + number % 2
        label = f"{ranks} ranks, {what}, 3 calls"
        yield _case(draw, "shapes", label, ranks, (0.17,), [(0, WEIGHT, shape)] * 3, layout=layout)


def _transposed(values: Array) -> Strided:
    stored = Strided.of(np.ascontiguousarray(values.T))
    return Strided(stored.storage, values.shape, tuple(reversed(stored.stride)))


def _every_other(values: Array) -> Strided:
    rows, columns = values.shape
    storage = np.full((rows, 2 * columns), 77, values.dtype)
    storage[:, 1::2] = values
    return Strided(storage.reshape(-1), values.shape, (2 * columns, 2), 1)


def _exact(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A few large and many small numbers, none zero, multiples of 2**-14 below 64: sums of a dozen are exact."""
    drawn = np.clip(generator.normal(0, 1, shape) ** 3, -60, 60)
    drawn += np.copysign(1 / 64, drawn)
    return (np.round(drawn * 2**14) / 2**14).astype(np.float32)


def _any(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers whose sum depends on the order in which they are added."""
    return generator.normal(0, 1, shape).astype(np.float32)


def _few(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Zeros but for one of the first places and two of the last: most elements are equally large."""
    drawn = np.zeros(shape, np.float32)
    drawn[[1, -5, -2]] = _exact(generator, (3,))
    return drawn


def _case(
    draw: Draw, group: str, label: str, ranks: int, ratios: tuple[float, ...], plan: Plan, engine: str = "sim",
    layout: Layout = Strided.of, values: Callable[[np.random.Generator, tuple[int, ...]], Array] = _exact,
    ties: bool = False, one_tensor: bool = False,
) -> Case:  # fmt: skip
    generator = draw.generator(f"{group} {label}")
    while True:
        calls = tuple((number, name, tuple(values(generator, of) for _ in range(ranks))) for number, name, of in plan)
        job = Job(ranks, ratios, calls, one_tensor=one_tensor)
        if ties or without_ties(job):
            break
    job.expected.extend(outputs(job))
    arguments: tuple[tuple[Any, ...], ...] = tuple(
        (list(ratios), [[which, name, layout(gradients[rank])] for which, name, gradients in calls], one_tensor)
        for rank in range(ranks)
    )
    return Case(group, label, arguments, "TopKAllReduce", engine, expected=job, by="reduce_all")


def _training(draw: Draw) -> Case:
    """Every rank's data ask for other parameters, so that gradients do not vanish where their mean does."""
    generator = draw.generator("training")
    names = ((WEIGHT, 40), (BIAS, 24))
    size = sum(elements for _, elements in names)
    common = generator.normal(size=size)
    inputs = tuple(generator.normal(size=(64, size)).astype(np.float32) for _ in range(4))
    targets = tuple((x @ (common + generator.normal(size=size))).astype(np.float32) for x in inputs)
    problem = Problem(inputs, targets, np.zeros(size, np.float32), 0.05, 160, 0.125, names)
    more = [list(one) for one in names], problem.rate, problem.steps
    arguments = tuple(
        (problem.ratio, *map(Strided.of, (problem.start, x, y)), *more) for x, y in zip(inputs, targets, strict=True)
    )
    label = f"4 ranks that fit {size} parameters, ratio {problem.ratio:g}"
    return Case("convergence", label, arguments, "TopKAllReduce", expected=problem, by="train")
