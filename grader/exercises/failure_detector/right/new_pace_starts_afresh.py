"""The logistic approximation by NumPy's moments; a second suspicious gap in a row is a new pace."""

from __future__ import annotations

import math

import numpy as np

from grader.nodes import Node


class PhiAccrualDetector:
    FLOOR = 0.1

    def __init__(self, window: int, threshold: float) -> None:
        self._window, self._threshold = window, threshold
        self._times: list[float] = []
        self._aside: float | None = None
        self._heard: float | None = None

    @property
    def _moments(self) -> tuple[float, float]:
        gaps = np.asarray(self._times)
        mean = float(gaps.mean())
        return mean, max(float(gaps.std()), self.FLOOR * mean, 1e-9)

    def heartbeat(self, now: float) -> None:
        heard, self._heard = self._heard, now
        if heard is None:
            return
        gap = now - heard
        suspicious = bool(self._times) and self._phi_of(gap) >= self._threshold
        if suspicious and self._aside is None:
            self._aside = gap
            return
        if suspicious:
            self._times = [gap]  # a new pace: forget the old one
        else:
            self._times.append(gap)
        self._aside = None
        del self._times[: -self._window]

    def _phi_of(self, silence: float) -> float:
        mean, deviation = self._moments
        y = (silence - mean) / deviation
        exponent = -y * (1.5976 + 0.070566 * y * y)
        # log(e / (1 + e)) without overflow
        log_tail = exponent - (math.log1p(math.exp(exponent)) if exponent < 50 else exponent)
        return -log_tail / math.log(10)

    def phi(self, now: float) -> float:
        if not self._times:
            return 0.0
        return self._phi_of(now - self._heard)

    def alive(self, now: float) -> bool:
        return not self.phi(now) >= self._threshold


class Monitor(Node):
    """A detector for each peer, by the clock of who listens."""

    def on_start(self):
        self.detectors = {peer: PhiAccrualDetector(30, 12) for peer in self.peers}
        self.set_timer("beat", self.random.uniform(0, 0.1))

    def on_timer(self, name):
        for peer in self.peers:
            self.send(peer, {"type": "alive"})
        self.set_timer("beat", 0.25)

    def on_message(self, src, body):
        if body["type"] == "alive":
            self.detectors[src].heartbeat(self.now())
            return
        dead = [peer for peer in sorted(self.peers) if not self.detectors[peer].alive(self.now())]
        self.reply(body, {"type": "suspects_ok", "suspects": dead})
