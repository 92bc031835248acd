"""Figures that a reader moves: a small problem of the course, solved anew by a script for each position of a slider.

What the scripts compute is what Python's functions of the same problem give; tests/browser holds them against each
other.
"""

from __future__ import annotations

import random
from typing import Any

from courselib.batching import serve
from courselib.plot import plot
from courselib.widget import widget


def latency(
    rate: float = 400.0, call: float = 0.010, row: float = 0.001, batch: int = 16, wait: float = 0.0, requests: int = 2000,
) -> Any:  # fmt: skip
    """Latency and throughput of `batching.serve` against the arrival rate, as a figure with sliders.

    `rate` requests come a second, at random. A batch of k takes call + k * row seconds, holds `batch` at most, and its
    oldest request waits for at most `wait` seconds until the model is called.
    """

    def seconds(size: int) -> float:
        return call + row * size

    source = random.Random(1)  # as in `serve`
    loads = [load for load in (10, 20, 50, 100, 200, 300, 400, 500, 600) if load < batch / seconds(batch)]
    runs = {load: serve(load, batch, wait, seconds, requests) for load in loads}
    drawn = plot(
        "Latency against load",
        {
            "99 % are answered within": [(load, run.latency(0.99)) for load, run in runs.items()],
            "50 % are answered within": [(load, run.latency(0.5)) for load, run in runs.items()],
        },
        x="requests a second", y="latency", units=("", "s"), log="xy",
    )  # fmt: skip
    return widget(
        "latency", drawn.svg,
        title="Latency against load, with a server that batches what waits",
        question="The waiting limit lets a request wait for others before the model is called. At which rates does a "
        "limit of 20 ms lower the 99 % line?",
        answer="At none worth having. With few requests each waits for others that do not come. With many the model is "
        "busy, and the batch forms by itself while it is. What waiting buys is fewer calls: look at how busy the model "
        "is at 200 requests a second. Batching itself is what moves the wall: set the batch size limit to 1.",
        gaps=[source.expovariate(1.0) for _ in range(requests)],
        rate=rate, call=call, row=row, batch=batch, wait=wait,
    )  # fmt: skip
