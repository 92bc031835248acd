"""Running sums of a ring buffer; a gap beyond suspicion counts for as long as it took to be suspected."""

from __future__ import annotations

import math

from grader.nodes import Node


def tail(z: float) -> float:
    return 0.5 * math.erfc(z / math.sqrt(2.0))


class PhiAccrualDetector:
    MINIMUM = 0.1

    def __init__(self, window: int, threshold: float) -> None:
        self._size, self._limit = window, threshold
        self._ring: list[float] = []
        self._next = 0
        self._total = self._squares = 0.0
        self._heard: list[float] = []

    def heartbeat(self, now: float) -> None:
        if self._heard:
            self._record(min(now - self._heard[0], self._patience()))
        self._heard = [now]

    def phi(self, now: float) -> float:
        if len(self._ring) == 0:
            return 0.0
        mean, deviation = self._moments()
        left = tail((now - self._heard[0] - mean) / deviation)
        return -math.log10(left) if left > 0.0 else math.inf

    def alive(self, now: float) -> bool:
        return bool(self.phi(now) < self._limit)

    def _moments(self) -> tuple[float, float]:
        count = len(self._ring)
        mean = self._total / count
        variance = max(self._squares / count - mean * mean, 0.0)
        return mean, max(math.sqrt(variance), self.MINIMUM * mean)

    def _patience(self) -> float:
        """The longest gap that is taken as it is: a little more than what is suspicious."""
        if not self._ring:
            return math.inf
        mean, deviation = self._moments()
        return mean + 6.5 * deviation

    def _record(self, gap: float) -> None:
        if len(self._ring) < self._size:
            self._ring.append(gap)
        else:
            old = self._ring[self._next]
            self._total -= old
            self._squares -= old * old
            self._ring[self._next] = gap
            self._next = (self._next + 1) % self._size
        self._total += gap
        self._squares += gap * gap


class Monitor(Node):
    """Gossip of heartbeat counters, as van Renesse, Minsky and Hayden 1998 do: who hears that one has grown trusts it."""

    def on_start(self):
        self.life = self.disk.get("life", 0) + 1
        self.disk["life"] = self.life
        self.counters = {self.id: [self.life, 0]}
        self.grown = {}
        self.set_timer("gossip", 0.05)

    def on_timer(self, name):
        self.counters[self.id][1] += 1
        for peer in self.peers:
            self.send(peer, {"type": "counters", "counters": self.counters})
        self.set_timer("gossip", 0.2)

    def on_message(self, src, body):
        if body["type"] == "suspects":
            old = sorted(node for node, at in self.grown.items() if self.now() > at + 1.2)
            self.reply(body, {"type": "suspects_ok", "suspects": old})
            return
        for node, counter in body["counters"].items():
            if node != self.id and counter > self.counters.get(node, [0, 0]):
                self.counters[node] = counter
                self.grown[node] = self.now()
