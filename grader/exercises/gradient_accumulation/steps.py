"""What steps with gradient accumulation must come to, and what the usual mistakes come to: in numpy, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Micro = tuple[Array, Array]  # inputs [B, in] and targets: [B] classes, -100 where there is none, or [B, out] values
Weights = Callable[[Sequence[int]], list[float]]  # of the mean losses of micro-batches with so many targets


def by_count(counts: Sequence[int]) -> list[float]:
    """The mean over all targets."""
    return [count / sum(counts) for count in counts]


def _divided_by(number: int) -> Weights:
    """The same weight for all, however many there are."""
    return lambda counts: [1 / number] * len(counts)


MISTAKES: tuple[tuple[str, Weights], ...] = (
    ("This is the result of adding up the micro-batches' mean losses. Weigh each loss by its share of the targets.",
     lambda counts: [1.0] * len(counts)),
    ("This is the result of averaging the micro-batches' mean losses. Weigh each loss by its share of the targets that "
     "count.", lambda counts: [1 / len(counts)] * len(counts)),
    ("This is the result of the last micro-batch's gradients alone. Keep the gradients of the others, too.",
     lambda counts: [0.0] * (len(counts) - 1) + [counts[-1] / sum(counts)]),
    ("This is the result of the last micro-batch alone, with weight 1. Accumulate the gradients of all micro-batches.",
     lambda counts: [0.0] * (len(counts) - 1) + [1.0]),
    ("This is the result of giving every micro-batch the weight of the first one. Weigh each loss by its own share of the "
     "targets that count.", lambda counts: [counts[0] / sum(counts)] * len(counts)),
    *((f"This is the result of adding up the micro-batches' mean losses and dividing by {number} in every step. Weigh each "
       "loss by its share of the targets that count in this step.", _divided_by(number)) for number in range(2, 9)),
)  # fmt: skip


def valid(targets: Array) -> Array:
    """Which targets count."""
    return targets != -100 if targets.dtype.kind == "i" else np.ones(len(targets), bool)


def counted(targets: Array) -> int:
    return int(valid(targets).sum())


def not_minus_100(targets: Array) -> int:
    """How many numbers are not -100, also among values."""
    return int((targets != -100).sum())


def _loss(parameters: Sequence[Array], micro: Micro) -> tuple[float, list[Array]]:
    """The mean loss over the targets that count, and its gradients."""
    w1, b1, w2, b2 = parameters
    counts = valid(micro[1])
    x, targets = micro[0][counts], micro[1][counts]
    if not len(x):
        return 0.0, [np.zeros_like(parameter) for parameter in parameters]
    hidden = np.tanh(x @ w1.T + b1)
    out = hidden @ w2.T + b2
    if targets.dtype.kind == "i":
        shifted = out - out.max(1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        loss = -float(logs[np.arange(len(x)), targets].mean())
        grad = np.exp(logs)
        grad[np.arange(len(x)), targets] -= 1
        grad /= len(x)
    else:
        loss, grad = float(((out - targets) ** 2).mean()), 2 * (out - targets) / targets.size
    through = (grad @ w2) * (1 - hidden**2)
    return loss, [through.T @ x, through.sum(0), grad.T @ hidden, grad.sum(0)]


def train(
    parameters: Sequence[Array], lr: float, batches: Sequence[Sequence[Sequence[Micro]]],
    weights: Weights = by_count, counts: Callable[[Array], int] = counted,
    zeroed: bool = True,
) -> tuple[list[Array], list[list[float]]]:  # fmt: skip
    """The parameters after all steps, and each rank's loss of each; `batches[rank][step]` are micro-batches. The
    weights are made of what `counts` says of each micro-batch's targets. Unless `zeroed`, a step's gradients stay for the
    next one."""
    now = [parameter.copy() for parameter in parameters]
    losses: list[list[float]] = [[] for _ in batches]
    total = [np.zeros_like(parameter) for parameter in now]
    for step in range(len(batches[0])):
        total = [np.zeros_like(each) if zeroed else each for each in total]
        for rank, mine in enumerate(batches):
            parts = [_loss(now, micro) for micro in mine[step]]
            share = weights([counts(targets) for _, targets in mine[step]])
            losses[rank].append(sum(w * loss for w, (loss, _) in zip(share, parts, strict=True)))
            for w, (_, grads) in zip(share, parts, strict=True):
                for sum_, grad in zip(total, grads, strict=True):
                    sum_ += w * grad / len(batches)
        for parameter, grad in zip(now, total, strict=True):
            parameter -= lr * grad
    return now, losses
