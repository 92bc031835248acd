"""How much of a long run's time is progress: a simulation of failures, checkpoints, detection, spares and restarts.

    run = Run(nodes=1000, node_mtbf=300 * 86400, interval=1800, cost=60, detect=600, restart=300)
    simulate(run, duration=90 * 86400, seed=1).goodput

All times are seconds of simulated wall clock; each second is counted in exactly one part of `Spent`.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Run:
    """A synchronous job: one failed node stops all of it.

    After `interval` of work a durable checkpoint stops the job for `cost`. With `memory_interval` > 0 there are copies
    in other nodes' memory as well, each for `memory_cost`; the newest is of use after a failure unless the failure took
    it too, which has probability `memory_lost`. A failure costs `detect`, then a spare node is taken, or, if none is
    left, the first repaired one (`repair` after its failure) is waited for; then `restart`, which includes loading.
    `shape` is that of the Weibull distribution of the times between failures; 1 is the exponential one.
    """

    nodes: int
    node_mtbf: float
    interval: float
    cost: float
    detect: float = 0.0
    restart: float = 0.0
    spares: int = 0
    repair: float = 0.0
    memory_interval: float = 0.0
    memory_cost: float = 0.0
    memory_lost: float = 0.0
    shape: float = 1.0

    @property
    def mtbf(self) -> float:
        """The job's mean time between failures."""
        return self.node_mtbf / self.nodes


@dataclass
class Spent:
    """Where the time of a run went. `useful` is work that was kept, `redone` work that a failure took."""

    useful: float = 0.0
    saving: float = 0.0
    redone: float = 0.0
    detecting: float = 0.0
    waiting: float = 0.0
    restarting: float = 0.0
    failures: int = 0

    @property
    def goodput(self) -> float:
        """The share of the time that was progress."""
        return self.useful / self.total

    @property
    def total(self) -> float:
        return self.useful + self.saving + self.redone + self.detecting + self.waiting + self.restarting

    def shares(self) -> dict[str, float]:
        """Each part's share of the time, by its name."""
        return {name: value / self.total for name, value in asdict(self).items() if name != "failures"}


def young_daly(cost: float, mtbf: float) -> float:
    """The interval between checkpoints that loses least, to first order: sqrt(2 cost mtbf)."""
    return math.sqrt(2 * cost * mtbf)


def expected_loss(interval: float, cost: float, mtbf: float) -> float:
    """The share of the time lost to saving and to work done again, to first order: C/T + T/2M."""
    return cost / interval + interval / (2 * mtbf)


def simulate(run: Run, duration: float, seed: int = 0) -> Spent:
    """One run of `duration`. Raises ValueError for an interval that is not positive."""
    if run.interval <= 0 or run.memory_interval < 0:
        raise ValueError("a checkpoint interval is a positive time")
    return _Simulation(run, duration, random.Random(seed)).whole()


class _Simulation:
    def __init__(self, run: Run, duration: float, source: random.Random) -> None:
        self.run, self.duration, self.random, self.spent = run, duration, source, Spent()
        self.now = 0.0
        self.fails = self._next_failure()
        self.repaired = [0.0] * run.spares  # when each spare node can be used
        self.step = run.memory_interval or run.interval
        self.every = max(1, round(run.interval / self.step))  # so many steps to a durable checkpoint

    def _next_failure(self) -> float:
        scale = self.run.mtbf / math.gamma(1 + 1 / self.run.shape)
        return self.now + self.random.weibullvariate(scale, self.run.shape)

    def whole(self) -> Spent:
        at_risk = since_durable = 0.0  # work since the newest copy of any kind, and since the durable one
        steps = 0
        while self.now < self.duration:
            worked, whole = self._pass(self.step)
            at_risk, since_durable = at_risk + worked, since_durable + worked
            durable = steps % self.every == self.every - 1
            if whole:
                saved, whole = self._pass(self.run.cost if durable else self.run.memory_cost)
                self.spent.saving += saved
            if whole:
                steps, at_risk = steps + 1, 0.0
                since_durable = 0.0 if durable else since_durable
                self.spent.useful += self.step
            elif self.now < self.duration:  # a failure
                from_memory = self.run.memory_interval > 0 and self.random.random() >= self.run.memory_lost
                lost = at_risk if from_memory else since_durable
                self.spent.redone += lost
                self.spent.useful -= lost - at_risk  # memory's copies had been counted as kept
                steps -= 0 if from_memory else steps % self.every
                at_risk, since_durable = 0.0, since_durable - lost
                self._recover()
            else:
                self.spent.useful += at_risk
        return self.spent

    def _pass(self, seconds: float) -> tuple[float, bool]:
        """Let time pass until it is over, the next failure comes or the run ends: how much passed, and whether all."""
        until = min(self.now + seconds, self.fails, self.duration)
        passed, self.now = until - self.now, until
        return passed, self.now < min(self.fails, self.duration)

    def _recover(self) -> None:
        """Detect, replace, restart; begun again where the next failure comes meanwhile."""
        while self.now < self.duration:
            self.spent.failures += 1
            heapq.heappush(self.repaired, self.now + self.run.repair)  # the failed node, some time later
            self.fails = self._next_failure()
            there = heapq.heappop(self.repaired)
            passed, whole = self._pass(self.run.detect)
            self.spent.detecting += passed
            if whole:
                passed, whole = self._pass(max(0.0, there - self.now))
                self.spent.waiting += passed
            if whole:
                passed, whole = self._pass(self.run.restart)
                self.spent.restarting += passed
            if whole:
                return
