"""What train() must come to, and what the usual mistakes come to: two linear layers, in numpy, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Batch = tuple[
    Array, Array
]  # inputs [B, in], of which the sign of the first number chooses a layer, and targets [B, out]
Gradients = list[Any]  # arrays, or None: of left.weight, left.bias, right.weight, right.bias, idle.weight, idle.bias
Combine = Callable[
    [list[Gradients], Sequence[int]], Gradients
]  # of the ranks' gradients, and the sizes of their batches


@dataclass(frozen=True)
class How:
    lr: float
    momentum: float
    decay: float


def _added_up(gradients: list[Gradients], weights: Sequence[float], share: bool = False) -> Gradients:
    """Each parameter's weighted sum over the ranks that have a gradient, with `share` divided by their number; None
    where none has."""
    summed: Gradients = []
    for place in range(len(gradients[0])):
        parts = [w * each[place] for w, each in zip(weights, gradients, strict=True) if each[place] is not None]
        summed.append(np.sum(parts, axis=0) / (len(parts) if share else 1) if parts else None)
    return summed


def mean(gradients: list[Gradients], _: Sequence[int]) -> Gradients:
    """Their plain mean; None counts as zeros, unless all are."""
    return _added_up(gradients, [1 / len(gradients)] * len(gradients))


def total(gradients: list[Gradients], _: Sequence[int]) -> Gradients:
    return _added_up(gradients, [1.0] * len(gradients))


def by_size(gradients: list[Gradients], sizes: Sequence[int]) -> Gradients:
    return _added_up(gradients, [size / sum(sizes) for size in sizes])


def of_those_that_have_one(gradients: list[Gradients], _: Sequence[int]) -> Gradients:
    return _added_up(gradients, [1.0] * len(gradients), share=True)


MISTAKES: tuple[tuple[str, Combine], ...] = (
    ("These are the parameters of training with the sum of the gradients. Divide the sum by the number of ranks.", total),
    ("These are the parameters of training with each rank's gradient weighted by its batch size. Every rank's gradient "
     "has the same weight here.", by_size),
    ("These are the parameters of a mean over only those ranks that have a gradient. Count None as zeros: divide by "
     "the number of ranks.", of_those_that_have_one),
)  # fmt: skip


def uses(batch: Batch, place: int) -> bool:
    """Whether the batch gives the parameter at `place` a gradient."""
    return place < 4 and bool(batch[0][0, 0] > 0) == (place < 2)


def loss_and_gradients(parameters: Sequence[Array], batch: Batch) -> tuple[float, Gradients]:
    """The mean squared error over all elements, and its gradients."""
    x, y = batch
    first = 0 if uses(batch, 0) else 2
    off = x @ parameters[first].T + parameters[first + 1] - y
    gradients: Gradients = [None] * len(parameters)
    gradients[first] = (2 * off / off.size).T @ x
    gradients[first + 1] = (2 * off / off.size).sum(0)
    return float(np.mean(off**2)), gradients


def train(
    parameters: Sequence[Array], how: How, batches: Sequence[Sequence[Batch]], combine: Combine = mean,
    keep: bool = False, zeros: bool = False,
) -> tuple[list[Array], list[list[float]]]:  # fmt: skip
    """The parameters after all steps, and the ranks' losses of each step; `batches[rank][step]`. With `keep` gradients
    of earlier steps stay, and each step's are added to them. With `zeros` a parameter that has had a gradient has zeros
    in place of None from then on."""
    now = [parameter.copy() for parameter in parameters]
    moving: list[Array | None] = [None] * len(now)
    held: list[Gradients] = [[None] * len(now) for _ in batches]
    losses = []
    for step in range(len(batches[0])):
        found = [loss_and_gradients(now, mine[step]) for mine in batches]
        gradients = [each for _, each in found]
        if keep:
            gradients = [
                [_added(a, b) for a, b in zip(old, new, strict=True)] for old, new in zip(held, gradients, strict=True)
            ]
        losses.append([loss for loss, _ in found])
        combined = combine(gradients, [len(mine[step][0]) for mine in batches])
        held = [list(combined) for _ in batches]
        for place, gradient in enumerate(combined):
            if gradient is None and zeros and moving[place] is not None:
                gradient = np.zeros_like(now[place])
            if gradient is None:
                continue
            gradient = gradient + how.decay * now[place]
            before = moving[place]
            step_of = gradient if before is None else how.momentum * before + gradient
            moving[place], now[place] = step_of, now[place] - how.lr * step_of
    return now, losses


def _added(old: Array | None, new: Array | None) -> Array | None:
    return new if old is None else old if new is None else old + new


def mean_loss(losses: Sequence[Sequence[float]], batches: Sequence[Sequence[Batch]]) -> float:
    """Over all samples of all ranks."""
    sizes = [[len(mine[step][0]) for mine in batches] for step in range(len(losses))]
    return float(np.average(np.array(losses), weights=np.array(sizes)))
