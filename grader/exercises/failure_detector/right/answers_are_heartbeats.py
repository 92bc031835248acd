"""A list of gaps and the logistic tail; the monitor asks all its peers, and an answer is a heartbeat."""

import math
from typing import Any

from grader.nodes import Node

ASK = 0.25
UNHEARD = 3.0


class PhiAccrualDetector:
    def __init__(self, window: int, threshold: float) -> None:
        self.window, self.threshold = window, threshold
        self.gaps: list[float] = []
        self.heard: list[float] = []  # the last time, or nothing
        self.outages = 0  # gaps one after the other that look like outages

    def pace(self) -> tuple[float, float]:
        mean = math.fsum(self.gaps) / len(self.gaps)
        variance = math.fsum((gap - mean) ** 2 for gap in self.gaps) / len(self.gaps)
        return mean, max(math.sqrt(variance), mean / 10)

    def heartbeat(self, now: float) -> None:
        if not self.heard:
            self.heard = [now]
            return
        gap = now - self.heard[0]
        if gap <= 0:
            return
        if self.gaps and not self.alive(now) and gap > 2 * self.pace()[0]:
            self.outages += 1
        else:
            self.outages = 0
        self.heard = [now]
        if self.outages != 1:  # one is an accident, two are a habit
            self.gaps.append(gap)
            if len(self.gaps) > self.window:
                self.gaps.pop(0)

    def phi(self, now: float) -> float:
        if not self.gaps:
            return 0.0
        mean, deviation = self.pace()
        y = (now - self.heard[0] - mean) / deviation
        x = y * (1.5976 + 0.070566 * y * y)
        # the tail is 1 / (1 + exp(x)), also where exp(x) is no float
        return (max(x, 0.0) + math.log1p(math.exp(-abs(x)))) / math.log(10)

    def alive(self, now: float) -> bool:
        return self.phi(now) < self.threshold


class Monitor(Node):
    def on_start(self) -> None:
        self.start = self.now()
        self.born = self.random.random()
        self.detectors: dict[str, PhiAccrualDetector] = {}
        self.births: dict[str, float] = {}
        self.ask()

    def ask(self) -> None:
        for peer in self.peers:
            self.send(peer, {"type": "there?"})
        self.set_timer("ask", ASK)

    def on_timer(self, name: str) -> None:
        self.ask()

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        kind, now = body["type"], self.now()
        if kind == "there?":
            self.send(src, {"type": "here", "born": self.born})
        elif kind == "here":
            if self.births.get(src) != body["born"]:  # another life of it, watched from the start
                self.births[src] = body["born"]
                self.detectors[src] = PhiAccrualDetector(30, 16.0)
            self.detectors[src].heartbeat(now)
        elif kind == "suspects":
            suspects = []
            for peer in sorted(self.peers):
                detector = self.detectors.get(peer)
                if detector is None:
                    suspected = now - self.start > UNHEARD
                elif not detector.gaps:
                    suspected = now - detector.heard[0] > UNHEARD
                else:
                    suspected = not detector.alive(now)
                if suspected:
                    suspects.append(peer)
            self.reply(body, {"type": "suspects_ok", "suspects": suspects})
