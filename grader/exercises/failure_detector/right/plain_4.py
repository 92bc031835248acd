import math
from collections import deque
from statistics import fmean, pstdev

from grader.nodes import Node


class PhiAccrualDetector:
    """How unlikely it is that a node that has been silent for so long is alive, from the gaps between its heartbeats."""

    def __init__(self, window: int, threshold: float) -> None:
        self.threshold = threshold
        self.intervals: deque[float] = deque(maxlen=window)
        self.last: float | None = None  # when it was heard last; 0.0 is a time like any other
        self.was_outage = False  # whether the gap before that was suspicious

    def heartbeat(self, now: float) -> None:
        """The node was heard at `now`."""
        if self.last is not None:
            outage = not self.alive(now)
            if not outage or self.was_outage:  # one long gap is an outage, two are a new pace
                self.intervals.append(now - self.last)
            self.was_outage = outage
        self.last = now

    def phi(self, now: float) -> float:
        """-log10 of the probability that the next heartbeat comes later than `now`; 0.0 before there is an interval."""
        if self.last is None or not self.intervals:
            return 0.0
        mean = fmean(self.intervals)
        spread = max(pstdev(self.intervals), 0.05 * mean)  # a clockwork's would be 0
        z = (now - self.last - mean) / spread
        if z > 30:  # the tail is no float any more, but its logarithm is
            return (z * z / 2 + math.log(z * math.sqrt(2 * math.pi))) / math.log(10)
        return -math.log10(math.erfc(z / math.sqrt(2)) / 2)

    def alive(self, now: float) -> bool:
        """Whether the node is trusted: phi is below the threshold."""
        return self.phi(now) < self.threshold


class Monitor(Node):
    """A detector for each peer, by the clock of who listens."""

    def on_start(self):
        self.detectors = {peer: PhiAccrualDetector(40, 12) for peer in self.peers}
        self.on_timer("beat")

    def on_timer(self, name):
        for peer in self.peers:
            self.send(peer, {"type": "heartbeat"})
        self.set_timer("beat", 0.25)

    def on_message(self, src, body):
        if body["type"] == "suspects":
            self.reply(body, {"type": "suspects_ok", "suspects": self.suspects()})
        else:
            self.detectors[src].heartbeat(self.now())

    def suspects(self):
        return sorted(peer for peer, detector in self.detectors.items() if not detector.alive(self.now()))
