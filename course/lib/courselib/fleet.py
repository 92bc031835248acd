"""Replicas behind a balancer, in virtual time: one is killed under load, and who sees an error, and for how long.

run = serve(Fleet(retries=1), load=40.0, kill=5.0)
run.errors, run.picture("...")
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import dataclass

from courselib.serving import percentile
from courselib.svg import Plot
from courselib.timeline import Box, timeline

OK, BROKEN, REFUSED, SHED = "answered", "broken off", "refused", "shed"


@dataclass(frozen=True)
class Fleet:
    """Replicas with `slots` requests at a time; an answer takes a time of mean `mean` seconds.

    The balancer asks each replica every `probe` seconds and takes it out after `failures` answers in a row that did not
    come. A request that fails is sent again up to `retries` times, to another replica. `queue`: a replica refuses
    requests beyond so many that wait (0: none is refused). A killed replica is back after `restart` seconds; with
    `ready_early` it says that it is ready `ready_early` seconds before it can answer.
    """

    replicas: int = 2
    slots: int = 16
    mean: float = 0.5
    probe: float = 1.0
    failures: int = 2
    retries: int = 0
    queue: int = 0
    restart: float = 20.0
    ready_early: float = 0.0


@dataclass(frozen=True)
class Seen:
    """One request: when it came, when its client knew how it ended, how, and by which replica."""

    came: float
    ended: float
    how: str
    replica: int


@dataclass(frozen=True)
class Run:
    """What the clients saw."""

    seen: tuple[Seen, ...]
    killed: float
    out: float  # when the balancer took the replica out
    back: float  # and put it in again

    @property
    def errors(self) -> Counter[str]:
        return Counter(each.how for each in self.seen if each.how != OK)

    @property
    def until(self) -> float:
        """When the last error was seen, after the kill, in seconds; 0 without any."""
        return max((each.ended - self.killed for each in self.seen if each.how in (BROKEN, REFUSED)), default=0.0)

    def latency(self, share: float, since: float = 0.0, until: float = 1e9) -> float:
        """Of the answered requests that came in this time."""
        return percentile(
            [each.ended - each.came for each in self.seen if each.how == OK and since <= each.came < until], share
        )

    def picture(self, title: str, until: float) -> Plot:
        """When requests failed, and when the balancer knew."""
        rows: dict[str, list[Box]] = {
            "replica 0": [(0.0, self.killed, "", "alive"), (self.killed, min(self.back, until), "", "dead or loading")],
            "balancer": [(0.0, self.out, "", "sends to both"), (self.out, min(self.back, until), "", "sends to one")],
        }
        if self.back < until:
            rows["replica 0"].append((self.back, until, "", "alive"))
            rows["balancer"].append((self.back, until, "", "sends to both"))
        width = until / 150
        failed = [each for each in self.seen if each.how != OK and each.ended < until - width]
        rows["errors"] = [(each.ended, each.ended + width, "", "a client sees an error") for each in failed[::4]]
        kinds = ("alive", "dead or loading", "sends to both", "", "sends to one", "a client sees an error")
        return timeline(title, rows, until=until, kinds=kinds)


def serve(fleet: Fleet, load: float, kill: float = 5.0, until: float = 30.0, seed: int = 1) -> Run:
    """Requests at random, `load` a second; replica 0 dies at `kill`. Same seed, same run."""
    return _Run(fleet, load, kill, until, seed).run()


class _Run:
    def __init__(self, fleet: Fleet, load: float, kill: float, until: float, seed: int) -> None:
        self.fleet, self.kill = fleet, kill
        source, now = random.Random(seed), 0.0
        self.events: list[tuple[float, int, str, int, int]] = []  # when, order, what, request, replica
        self.came, self.takes, self.tried = list[float](), list[float](), Counter[int]()
        while now < until:
            now += source.expovariate(load)
            self._at(now, "comes", len(self.came))
            self.came.append(now)
            self.takes.append(fleet.mean * (0.5 + source.random()))
        first = -(-kill // fleet.probe) * fleet.probe  # the first probe that is not answered
        self.out = first + (fleet.failures - 1) * fleet.probe
        self.whole = kill + fleet.restart  # when it can answer again
        self.back = max(self.out, self.whole - fleet.ready_early)
        self._at(kill, "dies", -1)
        self.busy: list[set[int]] = [set() for _ in range(fleet.replicas)]
        self.waiting: list[list[int]] = [[] for _ in range(fleet.replicas)]
        self.ended: dict[int, Seen] = {}
        self.turn = 0

    def _at(self, when: float, what: str, request: int, replica: int = -1) -> None:
        heapq.heappush(self.events, (when, len(self.events) if request < 0 else request, what, request, replica))

    def run(self) -> Run:
        while self.events:
            now, _, what, request, replica = heapq.heappop(self.events)
            if what == "comes":
                self._send(now, request, without=-1)
            elif what == "dies":
                lost = [*self.busy[0], *self.waiting[0]]
                self.busy[0], self.waiting[0] = set(), []
                for each in sorted(lost):
                    self._failed(now, each, 0, BROKEN)
            elif request in self.busy[replica]:
                self.busy[replica].remove(request)
                self.ended[request] = Seen(self.came[request], now, OK, replica)
                if self.waiting[replica]:
                    self._start(now, self.waiting[replica].pop(0), replica)
        seen = tuple(self.ended[n] for n in sorted(self.ended))
        return Run(seen, self.kill, self.out, self.back)

    def _send(self, now: float, request: int, without: int) -> None:
        """To the replicas in turn, of those that the balancer believes to be ready."""
        known = [n for n in range(self.fleet.replicas) if n != without and (n or not self.out <= now < self.back)]
        self.turn += 1
        replica = known[self.turn % len(known)]
        if replica == 0 and self.kill <= now < self.whole:
            self._failed(now, request, replica, REFUSED)
        elif len(self.busy[replica]) < self.fleet.slots:
            self._start(now, request, replica)
        elif self.fleet.queue and len(self.waiting[replica]) >= self.fleet.queue:
            self.ended[request] = Seen(self.came[request], now, SHED, replica)
        else:
            self.waiting[replica].append(request)

    def _failed(self, now: float, request: int, replica: int, how: str) -> None:
        self.tried[request] += 1
        if self.tried[request] <= self.fleet.retries and self.fleet.replicas > 1:
            self._send(now, request, without=replica)
        else:
            self.ended[request] = Seen(self.came[request], now, how, replica)

    def _start(self, now: float, request: int, replica: int) -> None:
        self.busy[replica].add(request)
        self._at(now + self.takes[request], "ends", request, replica)
