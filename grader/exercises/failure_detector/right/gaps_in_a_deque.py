"""A deque of gaps and the exact normal tail; the monitor sends beats to all and looks when it is asked."""

import math
from collections import deque
from statistics import fmean, pstdev
from typing import Any

from grader.nodes import Node

BEAT = 0.25
UNHEARD = 3.0


class PhiAccrualDetector:
    def __init__(self, window: int, threshold: float) -> None:
        self.threshold = threshold
        self.gaps: deque[float] = deque(maxlen=window)
        self.last: float | None = None
        self.doubtful = False  # the gap before was taken for an outage

    def heartbeat(self, now: float) -> None:
        if self.last is None:
            self.last = now
        elif now > self.last:
            gap = now - self.last
            outage = bool(self.gaps) and not self.alive(now) and gap > 2 * fmean(self.gaps)
            if self.doubtful or not outage:
                self.gaps.append(gap)
            self.doubtful = outage
            self.last = now

    def phi(self, now: float) -> float:
        if self.last is None or not self.gaps:
            return 0.0
        mean = fmean(self.gaps)
        deviation = max(pstdev(self.gaps), 0.1 * mean)
        z = (now - self.last - mean) / deviation
        tail = math.erfc(z / math.sqrt(2)) / 2
        if tail > 1e-300:
            return max(0.0, -math.log10(tail))
        return (z * z / 2 + math.log(z * math.sqrt(2 * math.pi))) / math.log(10)

    def alive(self, now: float) -> bool:
        return self.phi(now) < self.threshold


class Monitor(Node):
    def on_start(self) -> None:
        self.born = self.now()
        self.life = self.random.getrandbits(60)
        self.lives: dict[str, int] = {}
        self.detectors = {peer: self.detector() for peer in self.peers}
        self.on_timer("beat")

    def detector(self) -> PhiAccrualDetector:
        return PhiAccrualDetector(window=40, threshold=12.0)

    def on_timer(self, name: str) -> None:
        for peer in self.peers:
            self.send(peer, {"type": "beat", "life": self.life})
        self.set_timer("beat", BEAT)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        if body["type"] == "beat":
            if self.lives.get(src) != body["life"]:  # it was down: what was before tells nothing
                self.lives[src] = body["life"]
                self.detectors[src] = self.detector()
            self.detectors[src].heartbeat(self.now())
        elif body["type"] == "suspects":
            self.reply(body, {"type": "suspects_ok", "suspects": self.suspects()})

    def suspects(self) -> list[str]:
        return sorted(peer for peer in self.peers if self.suspected(peer))

    def suspected(self, peer: str) -> bool:
        detector = self.detectors[peer]
        if detector.gaps:
            return not detector.alive(self.now())
        since = self.born if detector.last is None else detector.last
        return self.now() - since > UNHEARD
