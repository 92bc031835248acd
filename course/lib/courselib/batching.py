"""Requests that wait to be answered together: a server that takes what is there as one batch.

run = serve(load=300, batch=16, wait=0.005, seconds_of=lambda k: 0.004 + 0.0003 * k)
run.latency(0.99), run.rate, run.picture("...")
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from courselib.svg import Plot
from courselib.timeline import Box, timeline


@dataclass(frozen=True)
class Served:
    """What became of each request, in seconds: when it came, and when its batch began and ended."""

    came: list[float]
    began: list[float]
    ended: list[float]

    @property
    def rate(self) -> float:
        """Answers a second, from the first request to the last answer."""
        return len(self.came) / (self.ended[-1] - self.came[0])

    @property
    def sizes(self) -> list[int]:
        """The size of each batch."""
        return [self.began.count(start) for start in sorted(set(self.began))]

    @property
    def mean(self) -> float:
        """The mean time to an answer."""
        return sum(end - at for at, end in zip(self.came, self.ended, strict=True)) / len(self.came)

    def latency(self, share: float) -> float:
        """The time to an answer that this share of the requests did not exceed."""
        times = sorted(end - at for at, end in zip(self.came, self.ended, strict=True))
        return times[min(len(times) - 1, math.ceil(share * len(times)) - 1)]

    def picture(self, title: str, until: float) -> Plot:
        """Who waited and when batches ran, for all requests that were answered by `until`."""
        shown = [n for n, end in enumerate(self.ended) if end <= until]
        waits: list[Box] = [(self.came[n], self.began[n], "", "a request waits") for n in shown]
        starts = sorted({self.began[n] for n in shown})
        batches: list[Box] = []
        for start in starts:
            inside = [n for n in shown if self.began[n] == start]
            batches.append((start, self.ended[inside[0]], str(len(inside)), "a batch runs"))
        return timeline(title, {"requests": waits, "the model": batches}, until=until)


def serve(
    load: float,
    batch: int,
    wait: float,
    seconds_of: Callable[[int], float],
    requests: int = 3000,
    seed: int = 1,
) -> Served:
    """One server in virtual time; requests come at random, `load` a second on average (Poisson).

    A batch begins when the server is free and either `batch` requests wait or the oldest has waited for `wait` seconds;
    it takes all that wait then, `batch` at most, and `seconds_of(its size)`. Raises ValueError where one of the numbers
    makes no sense.
    """
    if load <= 0 or batch < 1 or wait < 0 or requests < 1:
        raise ValueError(f"a load of {load}, batches of {batch} and a wait of {wait} cannot be served")
    source, came, now = random.Random(seed), list[float](), 0.0
    for _ in range(requests):
        now += source.expovariate(load)
        came.append(now)
    began, ended, free, first = list[float](), list[float](), 0.0, 0
    while first < requests:
        last = min(first + batch, requests) - 1
        full = came[last] if last - first + 1 == batch else math.inf
        start = max(free, min(full, came[first] + wait))
        size = sum(1 for at in came[first : last + 1] if at <= start)
        free = start + seconds_of(size)
        began += [start] * size
        ended += [free] * size
        first += size
    return Served(came, began, ended)
