"""Latency and throughput against load, of a server that takes what waits as one batch."""

from __future__ import annotations

import random
from typing import Any

from courselib.batching import serve
from courselib.figures.shown import figure
from courselib.plot import plot

LOADS = (10, 20, 50, 100, 200, 300, 400, 500, 600, 800, 1000, 1400, 2000, 3000)


def latency(
    rate: float = 400.0, *, call: float = 0.010, row: float = 0.001, batch: int = 16, wait: float = 0.0,
    requests: int = 2000,
) -> Any:  # fmt: skip
    """`batching.serve` over the arrival rate: `rate` requests come a second on average, at random.

    A batch of k takes call + k * row seconds and holds at most `batch`. Its oldest request waits for at most `wait`
    seconds until the model is called. All runs have the same `requests`, only nearer to each other or further apart.
    """

    def seconds(size: int) -> float:
        return call + row * size

    bearable = [load for load in LOADS if load < batch / seconds(batch)] or [LOADS[0]]
    runs = {load: serve(load, batch, wait, seconds, requests) for load in bearable}
    still = plot(
        "Latency against load, of a server that batches what waits",
        {
            "99 % are answered within": [(load, run.latency(0.99)) for load, run in runs.items()],
            "mean": [(load, run.mean) for load, run in runs.items()],
        },
        x="requests a second", y="latency", units=("", "s"), log="xy",
    )  # fmt: skip
    source = random.Random(1)  # as in `serve`, so that the script serves the same requests
    return figure(
        "latency",
        still,
        question="The waiting limit lets a request wait for others before the model is called. At which rates does a "
        "limit of 20 ms lower the 99 % line? And what does it buy at 100 requests a second?",
        answer="It lowers the line nowhere by more than one or two milliseconds. With few requests, each waits for "
        "others that do not come. With many, the model is busy, and a batch forms by itself while it is. What waiting "
        "buys is fewer calls: at 100 requests a second the model is busy for less of the time. Batching is what moves "
        "the wall on the right: set the batch size limit to 1.",
        gaps=[source.expovariate(1.0) for _ in range(requests)],
        rate=rate, call=call, row=row, batch=batch, wait=wait,
    )  # fmt: skip
