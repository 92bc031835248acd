"""Asynchronous training with gradients of a certain age: does it settle, or not?"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from courselib import softmax, stale
from courselib.figures.shown import figure
from courselib.plot import plot
from courselib.softmax import SIZE, Softmax

SPAN = 60  # how long a run is, in times of one gradient


def trained(workers: int, way: int, rate: float, scaled: bool = False, span: int = SPAN) -> list[tuple[float, float]]:
    """(time, excess loss) of training with `workers` that never wait for each other, in times of one gradient.

    A worker pulls the parameters, computes its share's whole gradient, sends it, and at once does so again. Gradients
    are on the way for `way`. Workers are evenly apart, so each gradient is workers * (1 + way) - 1 updates old when it
    is applied: with `rate`, or, `scaled`, with rate / (1 + age).
    """
    task, age = Softmax(workers), workers * (1 + way) - 1
    task.inputs = task.inputs.astype(np.float32).astype(np.float64)  # what the script is given
    step = rate / (1 + age) if scaled else rate
    past = [np.zeros(SIZE)]
    told = [(0.0, task.excess(past[0]))]
    for update in range(workers * (span - 1 - way)):
        seen = past[max(0, update - age)]
        past.append(past[-1] - step * task.gradient(seen, update % workers, batch=None))
        if (update + 1) % max(1, workers // 2) == 0:
            told.append((1 + way + update / workers, task.excess(past[-1])))
    return told


def limit(age: int) -> float:
    """The largest rate at which gradients of this age settle near the least loss, by its curvature there."""
    return stale.steady_limit(age) / softmax.sharpest()


def staleness(rate: float = 0.5, *, workers: int = 8, way: int = 0, scaled: bool = False) -> Any:
    """The course's softmax problem, trained by `trained` at a rate for each update."""
    still = plot(
        "Asynchronous training: does it settle?",
        {"this run": trained(workers, way, rate, scaled), "one worker, no delay": trained(1, 0, rate)},
        x="time, in times of one gradient", y="excess loss", log="y",
    )  # fmt: skip
    task = Softmax(1)
    order = task.shards[0]
    points = task.inputs[order, :-1].astype("<f4").tobytes()
    return figure(
        "staleness",
        still,
        question="Find the largest rate that settles with 8 workers. Then double the workers, or let gradients be on "
        "the way for as long as they take: what happens to that rate?",
        answer="It is about halved each time. Both double 1 + age, and near the least loss a rate settles only below "
        "2 sin(π/(4 age + 2)) over the curvature, which falls like 1 / (1 + age). So twice the workers make twice the "
        "updates of half the size: beyond some number of workers nothing is gained. Dividing the rate by 1 + age keeps "
        "one setting right for every number of workers.",
        points=base64.b64encode(points).decode(),
        labels="".join(map(str, task.labels[order])),
        least=softmax.least_loss(),
        sharpest=softmax.sharpest(),
        rate=rate, workers=workers, way=way, scaled=scaled,
    )  # fmt: skip
