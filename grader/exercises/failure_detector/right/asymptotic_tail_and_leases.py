"""Exact normal tail with its asymptotic series; an outage is a lone suspicious gap of more than twice the mean; the Monitor uses one lease timer per peer."""

import math
from collections import deque

from grader.nodes import Node


def minus_log10_tail(z):
    """-log10 of the probability that a normal variable is more than z standard deviations above its mean."""
    if z > 30.0:
        log = z * z / 2 + math.log(z * math.sqrt(2 * math.pi)) - math.log1p(-1 / (z * z))
        return log / math.log(10)
    return -math.log10(math.erfc(z / math.sqrt(2)) / 2)


class PhiAccrualDetector:
    def __init__(self, window, threshold):
        self.gaps = deque(maxlen=window)
        self.threshold = threshold
        self.last = None
        self.doubtful = False  # whether a gap was left out, and all since were suspicious as well

    def shape(self):
        count = len(self.gaps)
        mean = math.fsum(self.gaps) / count
        spread = math.sqrt(math.fsum((gap - mean) ** 2 for gap in self.gaps) / count)
        return mean, max(spread, 0.1 * mean, 1e-6)

    def heartbeat(self, now):
        if self.last is not None:
            gap = now - self.last
            strange = bool(self.gaps) and not self.alive(now)
            outage = strange and not self.doubtful and gap > 2 * self.shape()[0]
            if not outage:
                self.gaps.append(gap)
            self.doubtful = outage or (strange and self.doubtful)
        self.last = now

    def phi(self, now):
        if not self.gaps:
            return 0.0
        mean, spread = self.shape()
        return minus_log10_tail((now - self.last - mean) / spread)

    def alive(self, now):
        return self.phi(now) < self.threshold


class Monitor(Node):
    """Every heartbeat renews a lease, which is a timer of its own; whose lease has run out is suspected."""

    BEAT = 0.25
    LEASE = 1.3

    def on_start(self):
        self.crashed = set()
        self.beats = 0
        for peer in self.peers:
            self.set_timer("lease " + peer, self.LEASE)
        self.beat()

    def beat(self):
        self.set_timer("beat", self.BEAT)
        self.beats += 1
        for peer in self.peers:
            self.send(peer, {"type": "beat", "number": self.beats})

    def on_timer(self, name):
        if name == "beat":
            self.beat()
        else:
            self.crashed.add(name.split(" ", 1)[1])

    def on_message(self, src, body):
        if body["type"] == "suspects":
            self.reply(body, {"type": "suspects_ok", "suspects": sorted(self.crashed)})
        elif body["type"] == "beat":
            self.crashed.discard(src)
            self.set_timer("lease " + src, self.LEASE)
