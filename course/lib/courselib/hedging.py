"""Doing the same thing twice to be done sooner: hedged requests in queues, and backup tasks of a job."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence


def queueing(
    load: float, hedge: float = 0.0, budget: float = 1.0, servers: int = 10, requests: int = 20_000, seed: int = 1
) -> tuple[float, float]:
    """The 99th percentile of the time to an answer, and the work done per request.

    Requests come at random (Poisson) to a random server each, which takes a time of mean 1 (exponential), one after
    another; `load` is the share of the servers' time that they need. With `hedge`, one that has no answer after so long
    is sent to another server as well, if no more than `budget` of the requests up to now were; nothing is cancelled.
    """
    source, free, ends = random.Random(seed), [0.0] * servers, dict[int, float]()
    began, work, now, once, again = list[float](), 0.0, 0.0, 0, 0
    for _ in range(requests):
        now += source.expovariate(load * servers)
        began.append(now)
    events = [(at, number, -1) for number, at in enumerate(began)]  # when, which request, who has it already
    while events:
        now, number, first = heapq.heappop(events)
        if first >= 0 and (ends[number] <= now or again >= budget * once):
            continue
        once, again = once + (first < 0), again + (first >= 0)
        server = source.choice([each for each in range(servers) if each != first])
        took = source.expovariate(1.0)
        work += took
        free[server] = max(free[server], now) + took
        ends[number] = min(ends.get(number, float("inf")), free[server])
        if hedge and first < 0:
            heapq.heappush(events, (now + hedge, number, server))
    times = sorted(ends[number] - at for number, at in enumerate(began))
    return times[int(0.99 * requests)], work / requests


def job(tasks: Sequence[float], slowness: Sequence[float], backup: bool = False) -> tuple[float, float]:
    """When a job is done, and the machine time it took.

    Tasks are handed out in order; each worker takes the next one when it is free, and works so many times as long. With
    `backup`, a worker that finds no task left starts a copy of the one that would end last (Dean and Ghemawat, 2004,
    section 3.6); the loser is stopped.
    """
    free = [(0.0, worker) for worker in range(len(slowness))]
    ends, spent, copied = list[float](), 0.0, set[int]()
    for size in tasks:
        at, worker = heapq.heappop(free)
        ends.append(at + size * slowness[worker])
        spent += size * slowness[worker]
        heapq.heappush(free, (ends[-1], worker))
    while backup and free:
        at, worker = heapq.heappop(free)
        late = max(
            (task for task in range(len(tasks)) if task not in copied), key=lambda task: ends[task], default=None
        )
        if late is None or ends[late] <= at:
            break
        sooner = at + tasks[late] * slowness[worker]
        copied.add(late)
        spent += min(sooner, ends[late]) - at - max(ends[late] - sooner, 0.0)
        ends[late] = min(sooner, ends[late])
    return max(ends), spent
