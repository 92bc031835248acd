"""A small convex problem for the chapters on training: softmax regression on points made from a seed."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CLASSES, FEATURES, SAMPLES, BATCH, RIDGE = 4, 8, 1024, 8, 1e-2
SIZE = CLASSES * (FEATURES + 1)  # parameters, with a bias for each class


class Softmax:
    """Softmax regression whose samples are dealt out to `workers`, at random or (`own`) each with a class of its own.

    The loss is the mean cross-entropy over all samples plus RIDGE/2 times the squared length of the parameters, so it
    is strongly convex and has one minimum. Features differ in scale by a factor of four. Parameters are one vector of
    SIZE numbers. With `own`, worker i has samples of class i mod CLASSES only, and shares none of them.
    """

    def __init__(self, workers: int = 1, own: bool = False) -> None:
        random = np.random.default_rng(10)
        self.labels = np.arange(SAMPLES) % CLASSES
        centres = random.normal(size=(CLASSES, FEATURES))
        points = (centres[self.labels] + random.normal(size=(SAMPLES, FEATURES))) * np.geomspace(1, 4, FEATURES) / 4
        self.inputs = np.hstack([points, np.ones((SAMPLES, 1))])
        order = random.permutation(SAMPLES)
        if own:
            of_class = [order[self.labels[order] == worker % CLASSES] for worker in range(workers)]
            self.shards = [rows[worker // CLASSES :: -(-workers // CLASSES)] for worker, rows in enumerate(of_class)]
        else:
            self.shards = [order[worker::workers] for worker in range(workers)]

    def loss(self, w: Array, rows: NDArray[np.intp] | None = None) -> float:
        """The loss over all samples, or over some."""
        x, y = (self.inputs, self.labels) if rows is None else (self.inputs[rows], self.labels[rows])
        logs = _log_softmax(x @ w.reshape(FEATURES + 1, CLASSES))
        return float(RIDGE / 2 * w @ w - logs[np.arange(len(y)), y].mean())

    def gradient(self, w: Array, worker: int | None = None, step: int = 0, batch: int | None = BATCH) -> Array:
        """The gradient over all samples, or over a batch of a worker's, which `worker` and `step` decide.

        Without a batch (None) it is over all samples of the worker.
        """
        rows: NDArray[np.intp] = np.arange(SAMPLES) if worker is None else self.shards[worker]
        if worker is not None and batch is not None:
            rows = np.random.default_rng([10, worker, step]).choice(self.shards[worker], batch, replace=False)
        x, y = self.inputs[rows], self.labels[rows]
        error = np.exp(_log_softmax(x @ w.reshape(FEATURES + 1, CLASSES)))
        error[np.arange(len(y)), y] -= 1
        gradient: Array = (x.T @ error / len(y)).ravel() + RIDGE * w
        return gradient

    def excess(self, w: Array) -> float:
        """How far the loss is above the least possible one."""
        return self.loss(w) - least_loss()


@lru_cache
def least() -> Array:
    """The parameters of least loss, by Newton's method: ten steps, of which the last change nothing any more."""
    task, w = Softmax(), np.zeros(SIZE)
    for _ in range(10):
        w = w - np.linalg.solve(hessian(w), task.gradient(w))
    return w


@lru_cache
def least_loss() -> float:
    return Softmax().loss(least())


@lru_cache
def sharpest() -> float:
    """The largest curvature at the least loss: without delay, gradient descent settles at rates below 2 over it."""
    return float(np.linalg.eigvalsh(hessian(least()))[-1])


def hessian(w: Array) -> Array:
    """The second derivatives of the loss over all samples, SIZE x SIZE."""
    inputs = Softmax().inputs
    chance = np.exp(_log_softmax(inputs @ w.reshape(FEATURES + 1, CLASSES)))
    curved = chance[:, :, None] * np.eye(CLASSES) - chance[:, :, None] * chance[:, None, :]
    found = np.einsum("ni,nj,nab->iajb", inputs, inputs, curved, optimize=True) / SAMPLES
    return np.asarray(found.reshape(SIZE, SIZE) + RIDGE * np.eye(SIZE))


def _log_softmax(scores: Array) -> Array:
    shifted = scores - scores.max(axis=1, keepdims=True)
    logs: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return logs
