"""statistics.NormalDist over the sample; two lists: what is believed, and what was suspicious when it came."""

import math
from statistics import NormalDist, mean, stdev

from grader.nodes import Node


class PhiAccrualDetector:
    def __init__(self, window: int, threshold: float):
        self.window, self.threshold = window, threshold
        self.arrivals: list[float] = []
        self.believed: list[float] = []
        self.doubted: list[float] = []

    def heartbeat(self, now: float) -> None:
        if len(self.arrivals) > 0:
            gap = now - self.arrivals.pop()
            if self._phi_after(gap) >= self.threshold:
                self.doubted.append(gap)
                if len(self.doubted) > 1:
                    self.believed += self.doubted[1:]
                    self.doubted = self.doubted[:1]
            else:
                self.doubted.clear()
                self.believed.append(gap)
            del self.believed[: -self.window]
        self.arrivals.append(now)

    def _phi_after(self, silence: float) -> float:
        if not self.believed:
            return 0.0
        middle = mean(self.believed)
        sigma = stdev(self.believed) if len(self.believed) > 1 else 0.0
        later = NormalDist(0.0, max(sigma, middle / 20)).cdf(middle - silence)
        return -math.log10(max(later, 1e-300))

    def phi(self, now: float) -> float:
        return self._phi_after(now - self.arrivals[-1]) if self.arrivals else 0.0

    def alive(self, now: float) -> bool:
        return self.phi(now) < self.threshold


class Monitor(Node):
    """One timer for each peer, moved by each heartbeat; who lets it go off is suspected."""

    def on_start(self):
        self.suspects = set()
        self.life = self.disk.get("life", 0) + 1
        self.disk["life"] = self.life
        self.set_timer("beat", 0)
        for peer in self.peers:
            self.set_timer("watch " + peer, 2.5)

    def on_timer(self, name):
        what, _, peer = name.partition(" ")
        if what == "watch":
            self.suspects.add(peer)
            return
        for peer in self.peers:
            self.send(peer, {"type": "beat", "life": self.life})
        self.set_timer("beat", 0.5)

    def on_message(self, src, body):
        if body["type"] == "suspects":
            self.reply(body, {"type": "suspects_ok", "suspects": sorted(self.suspects)})
        else:
            self.suspects.discard(src)
            self.set_timer("watch " + src, 1.5)
