"""Gaps that look like outages are held back until there are three of them; beats have a life and a number."""

import math
import statistics
from typing import Any

from grader.nodes import Node

BEAT = 0.4


def surprise(z: float) -> float:
    """-log10 of the normal tail beyond z."""
    if z < 20:
        return abs(math.log10(0.5 * math.erfc(z / math.sqrt(2))))
    return (z * z / 2 + math.log(z) + math.log(2 * math.pi) / 2) * math.log10(math.e)


class PhiAccrualDetector:
    def __init__(self, window: int, threshold: float) -> None:
        self.window = window
        self.threshold = threshold
        self.intervals: list[float] = []
        self.held: list[float] = []
        self.strange = 0
        self.last: float | None = None

    def heartbeat(self, now: float) -> None:
        last, interval = self.last, 0.0 if self.last is None else now - self.last
        if last is not None and interval <= 0:
            return
        strange = bool(self.intervals) and interval > 2 * statistics.fmean(self.intervals) and not self.alive(now)
        self.last = now
        if last is None:
            return
        self.strange = self.strange + 1 if strange else 0
        if strange:
            self.held.append(interval)
            if self.strange < 3:
                return
            self.intervals += self.held
        else:
            self.intervals.append(interval)
        self.held = []
        self.intervals = self.intervals[-self.window :]

    def phi(self, now: float) -> float:
        if self.last is None or not self.intervals:
            return 0.0
        mean = statistics.fmean(self.intervals)
        spread = max(statistics.pstdev(self.intervals), mean * 0.1)
        return surprise((now - self.last - mean) / spread)

    def alive(self, now: float) -> bool:
        return self.phi(now) < self.threshold


class Monitor(Node):
    def on_start(self) -> None:
        self.life = self.disk.get("life", 0) + 1
        self.disk["life"] = self.life
        self.number = 0
        self.newest: dict[str, list[int]] = {}  # peer -> life and number of its last beat
        self.detectors = {peer: PhiAccrualDetector(25, 10.0) for peer in self.peers}
        self.since = {peer: self.now() for peer in self.peers}
        self.beat()

    def beat(self) -> None:
        self.number += 1
        for peer in self.peers:
            self.send(peer, {"type": "beat", "beat": [self.life, self.number]})
        self.set_timer("beat", BEAT)

    def on_timer(self, name: str) -> None:
        self.beat()

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        if body["type"] == "suspects":
            self.reply(body, {"type": "suspects_ok", "suspects": sorted(filter(self.suspected, self.peers))})
        elif body["type"] == "beat" and body["beat"] > self.newest.get(src, [0, 0]):
            if body["beat"][0] != self.newest.get(src, [0, 0])[0]:
                self.detectors[src] = PhiAccrualDetector(25, 10.0)
            self.newest[src] = body["beat"]
            self.since[src] = self.now()
            self.detectors[src].heartbeat(self.now())

    def suspected(self, peer: str) -> bool:
        detector = self.detectors[peer]
        if not detector.intervals:
            return self.now() - self.since[peer] > 3.0
        return not detector.alive(self.now())
