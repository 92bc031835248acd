"""What a parameter server decides: who may go on, and what a stale gradient is worth. Without the messages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from courselib.softmax import BATCH, SIZE, Softmax, least_loss

Array = NDArray[np.float64]

MESSAGE = SIZE + 1  # parameters or a gradient, and behind them a version; a version below 0 says stop
STRENGTH = 2.0  # of the delay compensation
PACE = 0.01  # seconds that a gradient takes


@dataclass(frozen=True)
class Push:
    """What the server noted of one gradient: when it came, the excess loss after it, its age, whose it was."""

    time: float
    excess: float
    age: int
    worker: int
    applied: bool


class Server:
    """Parameters, a clock for each worker (how many gradients it has pushed), and a rule for gradients that are old.

    `ahead` is how many clocks a worker may be in front of the slowest: 0 is synchronous, None is asynchronous, and what
    lies between is stale synchronous parallel (Ho and others, NIPS 2013). A gradient's age is the number of updates
    applied since its worker got the parameters. Rules for it: "plain"; "scale", the learning rate over 1 + age (after
    Zhang and others, IJCAI 2016); "reject:8", refuse ages above 8; "compensate", add STRENGTH g*g*(now - then)
    (Zheng and others, ICML 2017, with a constant strength). The server stops when `seconds` have passed.
    """

    def __init__(
        self, workers: int, own: bool, lr: float, seconds: float, ahead: int | None = None, rule: str = "plain"
    ) -> None:
        self.task, self.w, self.version = Softmax(workers, own), np.zeros(SIZE), 0
        self.lr, self.seconds, self.ahead, self.rule = lr, seconds, math.inf if ahead is None else ahead, rule
        self.clocks = dict.fromkeys(range(1, workers + 1), 0)
        self.waiting = set(self.clocks)
        self.given: dict[int, Array] = {}  # what each worker computes with, for the compensation
        self.log: list[Push] = []
        self.over, self.stopped = False, 0

    def ready(self) -> list[int]:
        """Who gets parameters now, or is told to stop. They count as given."""
        slowest = min(self.clocks.values())
        found = sorted(w for w in self.waiting if self.over or self.clocks[w] <= slowest + self.ahead)
        self.waiting -= set(found)
        self.stopped += self.over * len(found)
        self.given.update((worker, self.w.copy()) for worker in found)
        return found

    def answer(self) -> Array:
        """The message for whoever is ready."""
        return np.append(self.w, -1.0 if self.over else self.version)

    def push(self, worker: int, message: Array, now: float) -> None:
        """A worker's gradient has come, with the version that it was computed from."""
        gradient, age = message[:-1], self.version - int(message[-1])
        if applied := not self.rule.startswith("reject") or age <= int(self.rule.split(":")[1]):
            self.w = self.w - self.rate(age) * self.compensated(gradient, self.w - self.given[worker])
            self.version += 1
        self.clocks[worker] += 1
        self.waiting.add(worker)
        self.log.append(Push(now, self.task.excess(self.w), age, worker, applied))
        self.over = now >= self.seconds

    def rate(self, age: int) -> float:
        return self.lr / (1 + age) if self.rule == "scale" else self.lr

    def compensated(self, gradient: Array, moved: Array) -> Array:
        return gradient + STRENGTH * gradient * gradient * moved if self.rule == "compensate" else gradient

    def report(self) -> list[list[float]]:
        """The log as plain numbers: a row of time, excess, age, worker and applied (1 or 0) for each push."""
        return [[p.time, p.excess, p.age, p.worker, float(p.applied)] for p in self.log]


def serve(
    receive: Callable[[], tuple[int, Array]], send: Callable[[Array, int], object], clock: Callable[[], float],
    workers: int, own: bool, *settings: Any,
) -> list[list[float]]:  # fmt: skip
    """The server's loop: parameters to whoever may go on, then one gradient from whoever is first."""
    least_loss()  # known before the clock starts
    server, begin = Server(workers, own, *settings), clock()
    while True:
        for worker in server.ready():
            send(server.answer(), worker)
        if server.stopped == workers:
            return server.report()
        server.push(*receive(), clock() - begin)


class Worker:
    """Worker number `rank`, from 1 on, of so many; `batch` samples a gradient."""

    def __init__(self, rank: int, workers: int, own: bool = False, batch: int = BATCH) -> None:
        self.task, self.shard, self.batch, self.step = Softmax(workers, own), rank - 1, batch, 0
        self.last = rank == workers

    def gradient(self, message: Array) -> Array | None:
        """The push for what was pulled: the next batch's gradient, and the version it is of. None: stop."""
        if message[-1] < 0:
            return None
        self.step += 1
        return np.append(self.task.gradient(message[:-1], self.shard, self.step, self.batch), message[-1])

    def seconds(self, how: str) -> float:
        """How long this gradient takes: PACE; five times that for the last worker if `how` is "one slow".

        With "stalls" any worker's gradient takes ten times that with probability 1/20.
        """
        if how == "stalls":
            return 10 * PACE if np.random.default_rng([11, self.shard, self.step]).random() < 1 / 20 else PACE
        return 5 * PACE if how == "one slow" and self.last else PACE


def steady(rate: float, age: int, steps: int = 4000) -> bool:
    """Whether x <- x - rate x(age steps ago) shrinks: gradient descent on x^2/2 with gradients that old."""
    past = [1.0] * (age + 1)
    for _ in range(steps):
        past.append(past[-1] - rate * past[-1 - age])
        if abs(past[-1]) > 1e6:
            return False
    return max(map(abs, past[-age - 9 :])) < 1


def largest_steady_rate(age: int) -> float:
    """The greatest rate at which `steady` holds, by halving."""
    low, high = 0.0, 2.5
    for _ in range(14):
        middle = (low + high) / 2
        low, high = (middle, high) if steady(middle, age) else (low, middle)
    return low


def steady_limit(age: int) -> float:
    """The same from theory: 2 sin(pi / (4 age + 2)) (Levin and May 1976)."""
    return 2 * math.sin(math.pi / (4 * age + 2))


def thinned(rows: Sequence[Sequence[float]], every: int) -> list[tuple[float, float]]:
    """(time, excess) of every so-many-th push, each the mean over the pushes up to it."""
    blocks: Iterable[Sequence[Sequence[float]]] = (rows[k : k + every] for k in range(0, len(rows), every))
    return [(block[-1][0], sum(row[1] for row in block) / len(block)) for block in blocks]
