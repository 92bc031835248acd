"""Training while the network is partitioned: with a parameter server, and by gossip. Only the times of messages count."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from courselib import mixing, softmax, stale

CLASSES = 4  # workers of the server, each with a class of its own
RATE = 0.25


def served(ahead: int | None, since: float, until: float, seconds: float = 1.5) -> list[stale.Push]:
    """Four workers of a server; from `since` to `until` the gradients of workers 3 and 4 are held up until the end.

    `ahead` is how many gradients a worker may be in front of the slowest: 0 is synchronous, None asynchronous. Returns
    the server's log. All times are virtual seconds.
    """
    server = stale.Server(CLASSES, True, RATE, seconds, ahead)
    workers = {number: stale.Worker(number, CLASSES, own=True) for number in range(1, CLASSES + 1)}
    now, coming = 0.0, list[tuple[float, int, tuple[float, ...]]]()
    while not server.over:
        for number in server.ready():
            push = workers[number].gradient(server.answer())
            assert push is not None
            arrives = now + stale.PACE
            if number > 2 and since <= arrives < until:
                arrives = until
            heapq.heappush(coming, (arrives, number, tuple(push)))
        now, number, gradient = heapq.heappop(coming)
        server.push(number, np.array(gradient), now)
    return server.log


def gossiped(
    left: Sequence[int], right: Sequence[int], since: int, until: int, steps: int = 300
) -> dict[str, list[tuple[int, float]]]:
    """Ranks that average with all ranks they reach, in every step; from step `since` to `until`, only with their half.

    Returns (step, excess loss on all classes) for the mean model of either half and for the mean of all ranks.
    """
    ranks = len(left) + len(right)
    task = softmax.Softmax(ranks, own=True)
    whole = mixing.metropolis(mixing.complete(ranks))
    cut = np.zeros((ranks, ranks))
    for half in (left, right):
        cut[np.ix_(half, half)] = 1 / len(half)
    models = np.zeros((ranks, softmax.SIZE))
    losses: dict[str, list[tuple[int, float]]] = {"left half": [], "right half": [], "mean of both": []}
    for step in range(steps):
        gradients = np.array([task.gradient(w, rank, step) for rank, w in enumerate(models)])
        models = (cut if since <= step < until else whole) @ (models - RATE * gradients)
        means = (models[left].mean(0), models[right].mean(0), models.mean(0))
        for line, mean in zip(losses.values(), means, strict=True):
            line.append((step, task.excess(mean)))
    return losses
