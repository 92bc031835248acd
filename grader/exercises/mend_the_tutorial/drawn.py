"""The calls that are made on ranks, with fresh inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from grader import says
from grader.exercise import Draw
from grader.exercises.mend_the_tutorial.training import Array, Batch, How
from grader.ranks.program import Strided
from grader.worlds.cases import Case

IN, OUT, CLASSES = 3, 2, 5
ANYTHING = (-1, -100, CLASSES, 10**12)  # labels that do not count
SHAPES = ((OUT, IN), (OUT,)) * 3


def on(draw: Draw, n: int, engine: str) -> Iterator[Case]:
    """All cases with that many ranks; on real processes one of each kind."""
    who = says.counted(n, "rank") if engine == "sim" else f"{n} real processes"
    every = engine == "sim"
    for count in (0, 1, 6) if every else (6,):
        yield _labels(draw, n, engine, f"{who}, {says.counted(count, 'label')}", count)
    for what in ("large counts", "small counts") if every else ("large counts",):
        yield _counts(draw, n, engine, f"{who}, {what}")
    if n == 1:
        yield from (_served(draw, dtype) for dtype in ("float64", "float32"))
        yield _kept(draw)
    yield _trained(draw, n, engine, f"{who}, plain SGD", How(0.1, 0.0, 0.0))
    if n > 1:
        yield _trained(draw, n, engine, f"{who}, SGD with momentum and weight decay", How(0.1, 0.9, 0.2))
    for shape in ((7,), (3, 4), (2, 2, 3)) if every else ((3, 4),):
        tokens = " x ".join(map(str, shape))
        yield _masked(draw, n, engine, f"{who}, {tokens} tokens on each", shape)
        if every and len(shape) == 2:
            if n > 1:
                yield _masked(draw, n, engine, f"{who}, {tokens} tokens on each, none counts on rank 1", shape, (1,))
            yield _masked(draw, n, engine, f"{who}, {tokens} tokens on each, none counts", shape, range(n))


def _labels(draw: Draw, n: int, engine: str, label: str, count: int) -> Case:
    random = draw.generator(f"labels {label}")
    values = random.integers(2**61, 2**62, count) * 2 + 1  # odd, of 63 bits: no floating-point number holds them
    values[::2] *= -1
    given = [(Strided.of(values), count), *[(None, count)] * (n - 1)]
    return Case("share_labels", label, tuple(given), "share_labels", engine, expected=values)


def _counts(draw: Draw, n: int, engine: str, label: str) -> Case:
    random = draw.generator(f"counts {label}")
    values = random.integers(2**60, 2**61, n) * 2 + 1 if "large" in label else random.integers(0, 3, n)
    counts = [int(value) for value in values]
    return Case("gather_counts", label, tuple((each,) for each in counts), "gather_counts", engine, expected=counts)


def _served(draw: Draw, dtype: str) -> Case:
    """Rounds in which some gradients are None, each once after a round in which it was not."""
    label = f"a model of {dtype}"
    random = draw.generator(f"served {label}")
    shapes = ((3, 2), (4,), (2, 2))
    values = [random.standard_normal(shape).astype(dtype) for shape in shapes]
    missing = ((), (1,), (0, 2), ())
    gradients = [
        [None if place in gone else random.standard_normal(shape).astype(dtype) for place, shape in enumerate(shapes)]
        for gone in missing
    ]
    rates = [0.5, 0.25, 0.125, 1.0]
    given: Any = (
        [*map(Strided.of, values)],
        [[each if each is None else Strided.of(each) for each in one] for one in gradients],
        rates,
    )
    return Case("parameter_server", label, (given,), "ParameterServer", by="serve", expected=(values, gradients, rates))


def _trained(draw: Draw, n: int, engine: str, label: str, how: How) -> Case:
    """Ranks whose batches differ in size, and choose another layer in every step. In the last step all of them choose the
    same one: with momentum and decay, zeros for the other one are not the same as None. With momentum they all do so in
    the first step, too: which layers have gradients is not what it was there."""
    together, steps = ((0, 3), 4) if how.momentum else ((2,), 3)
    random = draw.generator(f"trained {label}")
    parameters = [random.standard_normal(shape) for shape in SHAPES]
    batches = [
        [
            _batch(random, 1 + (3 * rank + 2 * step) % 5, (rank + step) % 2 == 0 or step in together)
            for step in range(steps)
        ]
        for rank in range(n)
    ]
    given = tuple(
        (
            [*map(Strided.of, parameters)],
            [how.lr, how.momentum, how.decay],
            [[Strided.of(x), Strided.of(y)] for x, y in mine],
        )
        for mine in batches
    )
    return Case("train", label, given, "train", engine, by="trained", expected=(parameters, how, batches))


def _batch(random: np.random.Generator, size: int, left: bool) -> Batch:
    x = random.standard_normal((size, IN))
    x[0, 0] = abs(x[0, 0]) + 0.1 if left else -abs(x[0, 0]) - 0.1
    return x, random.standard_normal((size, OUT))


def _masked(draw: Draw, n: int, engine: str, label: str, shape: tuple[int, ...], without: Sequence[int] = ()) -> Case:
    random = draw.generator(f"masked {label}")
    given: list[tuple[Array, Array, Array]] = []
    for rank in range(n):
        mask = random.random(shape) < (0.3 + 0.5 * rank / n)
        mask.flat[rank % mask.size], mask.flat[(rank + 1) % mask.size] = True, False
        mask &= rank not in without
        labels = np.where(mask, random.integers(0, CLASSES, shape), random.choice(ANYTHING, shape))
        given.append((random.standard_normal((*shape, CLASSES)), labels, mask))
    arguments = tuple(tuple(map(Strided.of, each)) for each in given)
    return Case("masked_loss", label, arguments, "masked_loss", engine, by="masked", expected=given)


def _kept(draw: Draw) -> Case:
    random = draw.generator("kept")
    state = (
        random.standard_normal((3, 3)).astype(np.float32), random.standard_normal(3), random.integers(1, 2**40, 1),
        random.random(4) < 0.5,
    )  # fmt: skip
    given = ([Strided.of(each) for each in state],)
    return Case("snapshot", "a model with buffers and a shared weight", (given,), "snapshot", by="kept", expected=state)
