"""The cases of gradient_compression, what top-k with error feedback returns, and what comes of usual mistakes, in numpy.

Gradients are drawn without ties but in two cases, of numbers that float32 adds up exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from grader import says
from grader.exercise import Draw
from grader.ranks.program import Strided
from grader.worlds.cases import Case

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Rule:
    """What is sent, what is kept and how it is added up: the defaults are right.

    `selects` is by what: "magnitude", "value" (the sign counts), "smallest", "rank 0" (whose places all use), "mean"
    (the places that the mean over ranks has), "threshold" (the first k that reach the k-th magnitude) or "all". `residual` is "unsent", "none", "everything" (not reduced by
    what was sent), "mean" (reduced by the mean), "added late" (after the selection) "zeroed" (where others have
    sent, too) or "overwritten" (by the next gradient, after the first call). `divides` is by "ranks", "nobody" or "senders"; "last" is by ranks where
    the last that sent counts alone. `keys` are "name", "size" or "nothing".
    """

    selects: str = "magnitude"
    residual: str = "unsent"
    divides: str = "ranks"
    keys: str = "name"
    rounds: str = "down"


@dataclass(frozen=True)
class Job:
    """Gradients for objects with these ratios: of each call which object is meant, the name and each rank's gradient.

    With `one_tensor` the gradients of a name are given in the same tensor. Where a tie leaves open what a call returns,
    `together` all calls return the sum of what is `expected` of each.
    """

    ranks: int
    ratios: tuple[float, ...]
    calls: tuple[tuple[int, str, tuple[Array, ...]], ...]
    expected: list[Array] = field(default_factory=list, compare=False)
    one_tensor: bool = False
    together: bool = False

    def elements(self, call: int) -> int:
        return int(self.calls[call][2][0].size)

    def sent(self, call: int) -> int:
        """How many elements each rank sends."""
        return kept(self.ratios[self.calls[call][0]], self.elements(call))


def kept(ratio: float, elements: int, rounds: str = "down") -> int:
    exact = ratio * elements
    k = {"down": int(exact), "up": int(np.ceil(exact)), "nearest": round(exact)}[rounds]
    return min(max(1, k), elements)


RIGHT = Rule()
UNCLEARED = "The residual still holds what was sent. Set the places that were sent to zero."
HABITS = (
    (Rule(residual="none"), "The residual is missing. Add what is not sent to the next gradient."),
    (Rule(residual="everything"), UNCLEARED),
    (Rule(selects="rank 0"), "All ranks sent the places that rank 0 selected. Let each rank select and send its own."),
    (Rule(divides="nobody"), "This is the sum over the ranks. Divide by the number of ranks."),
    (Rule(divides="senders"), "Each element was divided by the number of ranks that sent it. Divide by N: a rank that "
     "did not send an element contributes 0."),
    (Rule(divides="last"), "Where several ranks sent an element, only the last of them counts. Add all of them."),
    (Rule(selects="all"), "This is the mean of the whole gradients. Use only k elements of each rank."),
    (Rule(selects="value"), "The largest values were selected. Select the largest magnitudes: negative values count."),
    (Rule(selects="threshold"), "The first k elements that reach the k-th magnitude were sent. Where magnitudes are "
     "equal, send the larger ones first, and only then fill up to k."),
    (Rule(selects="smallest"), "The smallest magnitudes were selected. Select the largest."),
    (Rule(selects="mean"), "The k largest of the mean were selected. Let each rank select from its own gradient."),
    (Rule(residual="mean"), "The residual was reduced by the mean of the ranks. Reduce it by what this rank sent."),
    (Rule(residual="zeroed"), "The residual was also set to zero where other ranks sent. Set it to zero only where "
     "this rank sent."),
    (Rule(residual="added late"), "The residual was added after the selection. Add it to the gradient first, then "
     "select."),
    (Rule(keys="nothing"), "The residual of another name was added. Keep one residual for each name."),
    (Rule(keys="size"), "The residual of another name of the same shape was added. Keep one residual for each name."),
    (Rule(rounds="up"), "k was rounded up. Use max(1, int(ratio * numel))."),
    (Rule(rounds="nearest"), "k was rounded to the nearest integer. Use max(1, int(ratio * numel))."),
)  # fmt: skip


def largest(values: Array, k: int) -> Array:
    """The places of the k largest of a vector."""
    return np.argsort(-values, kind="stable")[:k]


SHARED = (
    "This gradient was added to itself, because the residual shares memory with the tensor of the gradients. Keep the "
    "residual in memory of its own."
)


def _places(rule: Rule, sums: list[Array], k: int) -> list[Array]:
    """What each rank sends, of gradients to which the residuals have been added."""
    if rule.selects == "all":
        return [np.arange(one.size) for one in sums]
    if rule.selects == "value":
        return [largest(one, k) for one in sums]
    if rule.selects == "threshold":
        return [np.flatnonzero(np.abs(one) >= np.sort(np.abs(one))[-k])[:k] for one in sums]
    if rule.selects == "smallest":
        return [largest(-np.abs(one), k) for one in sums]
    if rule.selects == "rank 0":
        return [largest(np.abs(sums[0]), k)] * len(sums)
    if rule.selects == "mean":
        return [largest(np.abs(np.sum(sums, axis=0)), k)] * len(sums)
    return [largest(np.abs(one), k) for one in sums]


def outputs(job: Job, rule: Rule = RIGHT) -> list[Array]:
    """What every call returns."""
    residuals: dict[tuple[object, int], Array] = {}
    found: list[Array] = []
    for which, name, gradients in job.calls:
        flat = [gradient.astype(np.float64).reshape(-1) for gradient in gradients]
        size = flat[0].size
        key: object = {"name": (which, name), "size": (which, size), "nothing": which}[rule.keys]
        k = kept(job.ratios[which], size, rule.rounds)
        old = [residuals.get((key, rank), np.zeros(size)) for rank in range(job.ranks)]
        if rule.residual == "overwritten" and sum(one[:2] == (which, name) for one in job.calls[: len(found)]) == 1:
            old = flat
        if any(one.size != size for one in old):
            return found  # this rule cannot go on
        sums = [one + more for one, more in zip(flat, old, strict=True)]
        places = _places(rule, flat if rule.residual == "added late" else sums, k)
        sent = [np.zeros(size) for _ in flat]
        for one, all_of_it, where in zip(sent, sums, places, strict=True):
            one[where] = all_of_it[where]
        count = np.sum([np.bincount(where, minlength=size) for where in places], axis=0)
        by = {"nobody": 1, "senders": np.maximum(count, 1)}.get(rule.divides, job.ranks)
        mean = np.sum(sent, axis=0) / by
        if rule.divides == "last":
            for one, where in zip(sent, places, strict=True):
                mean[where] = one[where] / job.ranks
        for rank, all_of_it in enumerate(sums):
            left = {"none": np.zeros(size), "everything": all_of_it, "mean": all_of_it - mean}
            left["zeroed"] = np.where(count > 0, 0.0, all_of_it)
            residuals[key, rank] = left.get(rule.residual, all_of_it - sent[rank])
        found.append(mean.reshape(gradients[0].shape))
    return found


def without_ties(job: Job) -> bool:
    """Whether there is never a doubt what the k largest are, whatever rounding does."""
    residuals: dict[tuple[int, str, int], Array] = {}
    for number, (which, name, gradients) in enumerate(job.calls):
        k = job.sent(number)
        for rank, gradient in enumerate(gradients):
            total = gradient.astype(np.float64).reshape(-1) + residuals.get((which, name, rank), 0.0)
            by_size = np.sort(np.abs(total))[::-1]
            if k < total.size and by_size[k - 1] - by_size[k] < 1e-5 * by_size[0]:
                return False
            total[largest(np.abs(total), k)] = 0.0
            residuals[which, name, rank] = total
    return True


def habit(job: Job, call: int, got: Array) -> str:
    """The mistake that gives this result, in a sentence; empty for none that is known."""
    habits = (*HABITS, *([(Rule(residual="overwritten"), SHARED)] if job.one_tensor else []))
    found = ((outputs(job, rule), said) for rule, said in habits)
    return next((said for results, said in found if call < len(results) and close(got, results[call])), "")


def close(got: Array, right: Array) -> bool:
    return got.shape == right.shape and bool(np.allclose(got, right, rtol=1e-5, atol=1e-5))


@dataclass(frozen=True)
class Problem:
    """Least squares of which every rank has some of the data; the parameters are in two tensors."""

    inputs: tuple[Array, ...]
    targets: tuple[Array, ...]
    start: Array
    rate: float
    steps: int
    ratio: float
    names: tuple[tuple[str, int], ...]  # and how many of the parameters

    def loss(self, parameters: Array) -> float:
        pairs = zip(self.inputs, self.targets, strict=True)
        return float(np.mean([np.mean((x.astype(np.float64) @ parameters - y) ** 2) / 2 for x, y in pairs]))

    def dense(self) -> Array:
        """The parameters after training with the mean of the whole gradients."""
        w = self.start.astype(np.float64)
        pairs = [(x.astype(np.float64), y) for x, y in zip(self.inputs, self.targets, strict=True)]
        for _ in range(self.steps):
            w = w - self.rate * np.mean([x.T @ (x @ w - y) / len(x) for x, y in pairs], axis=0)
        return w


WEIGHT, BIAS = "layers.0.weight", "layers.0.bias"
LARGE = 98304, 50000  # more than two bytes can count, and more than those of int16
Layout = Callable[[Array], Strided]
Plan = Sequence[tuple[int, str, tuple[int, ...]]]  # of each call: the object, the name, the shape


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check."""
    sizes = ((2, 0.25, 40), (3, 0.3, 33), (3, 0.07, 97), (4, 0.01, 20), (4, 0.29, 100), (2, 1.0, 12), (1, 0.25, 16))
    for ranks, ratio, size in sizes:
        exact = (
            f"int({ratio * size}) = " if ratio == 0.29 else ""
        )  # 28.999999999999996, which is shown: it looks like 29
        label = f"{says.counted(ranks, 'rank')}, {size} elements and ratio {ratio:g}, so k = {exact}{kept(ratio, size)}"
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
    label = f"2 real processes, {LARGE[0]} elements, then {LARGE[1]} of another name, ratio 1/128"
    plan = [(0, name, (size,)) for name, size in zip((WEIGHT, BIAS), LARGE, strict=True)]
    yield _case(draw, "real", label, 2, (1 / 128,), plan, engine="gloo", values=_any)


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
    plan, drawn = [(0, WEIGHT, (24,))] * 4, itertools.count()

    def equal_then_zero(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        signs = generator.choice((-1, 1), shape)
        return np.asarray(2.5 * signs * (next(drawn) < 2), np.float32)  # once for each rank, for the first call

    label = "2 ranks, 24 elements of equal magnitude, and zeros in the next calls, k = 6, 4 calls"
    yield _case(draw, "feedback", label, 2, (0.25,), plan, values=equal_then_zero, ties=True, together=True)


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
    ties: bool = False, one_tensor: bool = False, together: bool = False,
) -> Case:  # fmt: skip
    generator = draw.generator(f"{group} {label}")
    while True:
        calls = tuple((number, name, tuple(values(generator, of) for _ in range(ranks))) for number, name, of in plan)
        job = Job(ranks, ratios, calls, one_tensor=one_tensor, together=together)
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
