"""What a pipeline's step must come to: the whole model on the whole batch, in numpy and in float64.

Each stage is a linear layer, with tanh after it in all but the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from grader import says

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Plan:
    """One step: stages, micro-batches of `rows` samples, and the seconds of a micro-batch's forward and backward."""

    stages: int
    micro_batches: int
    rows: int
    loss: str  # "mse" or "cross_entropy"
    activation: tuple[int, ...]  # the shape of one sample's activations, at every boundary
    features: tuple[int, int]  # of the inputs and of the outputs
    forward: float = 0.0
    backward: float = 0.0  # where the pass is cut in two: of the inputs' part
    weight_pass: float = 0.0  # of the weights' part, where it is

    @property
    def batch(self) -> int:
        return self.micro_batches * self.rows

    @property
    def work(self) -> float:
        """Seconds that a stage computes."""
        return self.micro_batches * (self.forward + self.backward + self.weight_pass)

    @property
    def bubble(self) -> float:
        """The part of the time in which a stage waits, in a perfect schedule."""
        return (self.stages - 1) / (self.micro_batches + self.stages - 1)

    def told(self, rank: int) -> dict[str, Any]:
        """What the harness is told."""
        return {
            "last": rank == self.stages - 1, "micro_batches": self.micro_batches, "loss": self.loss,
            "activation": list(self.activation), "forward": self.forward / self.rows,
            "backward": self.backward / self.rows, "weight_pass": self.weight_pass / self.rows,
        }  # fmt: skip

    def sizes(self, rank: int) -> tuple[int, int]:
        """The features that go into a stage, and that come out."""
        wide = self.activation[-1]
        return self.features[0] if rank == 0 else wide, self.features[1] if rank == self.stages - 1 else wide


@dataclass(frozen=True)
class Given:
    """A step's numbers. Gradients are told as one row: the weight's, then the bias's."""

    plan: Plan
    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    inputs: Array
    targets: Array

    @cached_property
    def _passed(self) -> list[list[tuple[Array, Array]]]:
        """What goes into each stage and what comes out, for each micro-batch: [stage][micro-batch]."""
        found: list[list[tuple[Array, Array]]] = []
        going = np.split(self.inputs.astype(np.float64), self.plan.micro_batches)
        for rank, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            sums = [x @ weight.T.astype(np.float64) + bias for x in going]
            outputs = sums if rank == self.plan.stages - 1 else [np.tanh(y) for y in sums]
            found.append(list(zip(going, outputs, strict=True)))
            going = outputs
        return found

    @cached_property
    def losses(self) -> Array:
        """Each micro-batch's mean loss."""
        return np.array([self._loss(y, t)[0] for (_, y), t in zip(self._passed[-1], self._goals, strict=True)])

    @property
    def _goals(self) -> list[Array]:
        return np.split(self.targets, self.plan.micro_batches)

    def _loss(self, y: Array, target: Array) -> tuple[float, Array]:
        """The mean loss of a micro-batch, and its gradient."""
        if self.plan.loss == "mse":
            return float(((y - target) ** 2).mean()), 2 * (y - target) / y.size
        odds = np.exp(y - y.max(1, keepdims=True))
        odds /= odds.sum(1, keepdims=True)
        chosen = np.eye(y.shape[1])[target]
        return float(-np.log((odds * chosen).sum(1)).mean()), (odds - chosen) / len(y)

    @cached_property
    def _returned(self) -> list[list[Array]]:
        """The gradient of each stage's output, for each micro-batch's own loss: [stage][micro-batch]."""
        back = [self._loss(y, t)[1] for (_, y), t in zip(self._passed[-1], self._goals, strict=True)]
        found = [back]
        for rank in range(self.plan.stages - 1, 0, -1):
            inner = [self._inner(rank, k, grad) for k, grad in enumerate(back)]
            back = [grad @ self.weights[rank].astype(np.float64) for grad in inner]
            found.insert(0, back)
        return found

    def _inner(self, rank: int, micro_batch: int, grad: Array) -> Array:
        """From the gradient of a stage's output to that of its linear layer's."""
        return grad if rank == self.plan.stages - 1 else grad * (1 - self._passed[rank][micro_batch][1] ** 2)

    def _row(self, rank: int, micro_batch: int, grad: Array, other: int | None = None) -> Array:
        """One micro-batch's gradients, or what they are with the input of an `other` one."""
        inner = self._inner(rank, micro_batch, grad)
        x = self._passed[rank][micro_batch if other is None else other][0]
        flat = inner.reshape(-1, inner.shape[-1])
        return np.concatenate([(flat.T @ x.reshape(-1, x.shape[-1])).reshape(-1), flat.sum(0)])

    def each(self, rank: int) -> Array:
        """A stage's gradients, for each micro-batch's own loss: [micro-batch, element]."""
        return np.stack([self._row(rank, k, grad) for k, grad in enumerate(self._returned[rank])])

    def right(self, rank: int) -> Array:
        """A stage's gradients for the mean loss of the batch."""
        return np.asarray(self.each(rank).mean(0))

    def mistakes(self, rank: int) -> Iterator[tuple[Array, str]]:
        """What a stage's gradients would be by each of the usual mistakes, and the sentence that names it."""
        m, each, right = self.plan.micro_batches, self.each(rank), self.right(rank)
        if m == 1:
            return
        yield (
            m * right,
            f"All gradients are {m} times too large, because they are the sum over the micro-batches. Divide each loss "
            f"by {m} before it goes backward.",
        )
        yield right / m, f"All gradients are {m} times too small. Divide by the number of micro-batches only once."
        if self.plan.stages != m:
            for factor in (self.plan.stages, 1 / self.plan.stages):
                told = f"All gradients are off by a factor of {self.plan.stages}, the number of stages."
                yield factor * right, f"{told} Divide each loss by {m}, the number of micro-batches."
        for k in range(m):
            for part in (each[k], each[k] / m):
                yield part, f"This is the gradient of micro-batch {k} alone. Add up the gradients of all {m}."
        if m > 2:
            for k in range(m):
                for part in (m * right - each[k], right - each[k] / m):
                    yield part, f"The gradient of micro-batch {k} is missing. Add up the gradients of all {m}."
        for several in range(2, m - 1):
            for gone in (range(several), range(m - several, m)):
                rest = m * right - each[list(gone)].sum(0)
                for part in (rest, rest / m):
                    whose = says.listed(gone)
                    yield part, f"The gradients of micro-batches {whose} are missing. Add up the gradients of all {m}."
        if rank == self.plan.stages - 1:
            pairs = zip(self._passed[rank], reversed(self._goals), strict=True)
            grads = [self._loss(y, target)[1] for (_, y), target in pairs]
            told = "The targets were paired with the outputs in reverse order. Give each micro-batch its own targets."
        else:
            grads = self._returned[rank][::-1]
            told = (
                "Gradients went backward through the activations of other micro-batches, in reverse order. Take them "
                "in the order in which the next stage sends them."
            )
        yield np.mean([self._row(rank, k, grad) for k, grad in enumerate(grads)], 0), told
        if rank > 0:
            yield (
                np.mean([self._row(rank, k, grad, m - 1) for k, grad in enumerate(self._returned[rank])], 0),
                "The last micro-batch's input was used for all micro-batches. Receive each activation into a buffer of "
                "its own, because the backward passes of earlier micro-batches still need theirs.",
            )


def near(got: Array, right: Array, times: float = 1.0) -> bool:
    """Equal but for what float32 loses, or for so many times as much."""
    allowed = times * 2e-5 * float(np.abs(right).max())
    return got.shape == right.shape and bool(np.allclose(got, right, rtol=times * 2e-4, atol=allowed))


def proportional(got: Array, right: Array) -> bool:
    """Equal but for what float32 loses, and for a factor."""
    length = float(np.linalg.norm(got) * np.linalg.norm(right))
    return got.shape == right.shape and bool(0 < length < np.inf) and float(got @ right) > 0.9999 * length
