"""Paxos for one value (Lamport, *Paxos made simple*, 2001): acceptors, and proposers that get in each other's way."""

from __future__ import annotations

from typing import Any

from grader.nodes.node import Node
from grader.nodes.sim import Member


class Acceptor(Node):
    """Promises to ignore lower numbers, says what it has accepted, and accepts. All of it is on disk first."""

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        number = body["n"]
        if number < self.disk.get("promised", 0):
            self.send(src, {"type": "no", "n": number, "promised": self.disk["promised"]})
            return
        self.disk["promised"] = number
        if body["type"] == "prepare":
            self.send(src, {"type": "promise", "n": number, "accepted": self.disk.get("accepted", [0, None])})
        else:
            self.disk["accepted"] = [number, body["value"]]
            self.send(src, {"type": "accepted", "n": number})


class Proposer(Node):
    """Asked to `propose {value}`, it takes numbers first, first + step, ..., and answers with what is chosen.

    A slow one stands still for `think` seconds between the phases. Refused, it tries again with a higher number: at
    once, or, with `backoff`, after a random time up to that, in seconds, which doubles at each attempt. `attempts` is
    how often it tries at most.
    """

    first, step, think, backoff, attempts = 1, 2, 0.0, 0.0, 1000

    def on_start(self) -> None:
        self.n, self.tried, self.chosen, self.value, self.phase = 0, 0, None, None, "promise"
        self.heard: set[str] = set()
        self.best: list[Any] = [0, None]  # what was accepted with the highest number, among the promises

    @property
    def acceptors(self) -> list[str]:
        return [peer for peer in self.peers if peer.startswith("a")]

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        if body["type"] == "propose":
            self.request = body
            self._try(0)
        elif body.get("n") != self.n or self.chosen is not None:
            return
        elif body["type"] == "no":
            highest, self.n = body["promised"], 0  # further answers to this number are stale
            self._try(highest)
        elif body["type"] == self.phase:
            self.heard.add(src)
            if body["type"] == "promise":
                self.best = max(self.best, body["accepted"], key=lambda accepted: accepted[0])
            if len(self.heard) > len(self.acceptors) // 2:
                self._majority()

    def _majority(self) -> None:
        if self.phase == "promise":
            self.value = self.request["value"] if self.best[0] == 0 else self.best[1]
            self.phase, self.heard = "accepted", set()
            self.set_timer("accept", self.think) if self.think else self.on_timer("accept")
        else:
            self.chosen = self.value
            self.reply(self.request, {"type": "chosen", "value": self.chosen})

    def _try(self, above: int) -> None:
        if self.tried == self.attempts:
            return
        self.above, self.tried = above, self.tried + 1
        self.cancel_timer("accept")
        if self.backoff and above:
            self.set_timer("again", self.random.uniform(0, self.backoff * 2**self.tried))
        else:
            self.on_timer("again")

    def on_timer(self, name: str) -> None:
        if name == "again":
            self.n = self.first
            while self.n <= self.above:
                self.n += self.step
            self.phase, self.heard, self.best = "promise", set(), [0, None]
        ask = {"type": "accept", "value": self.value} if name == "accept" else {"type": "prepare"}
        for acceptor in self.acceptors:
            self.send(acceptor, {**ask, "n": self.n})


KINDS = {"Proposer": Proposer, "Acceptor": Acceptor}


def parliament(**settings: Any) -> list[Member]:
    """Two proposers, p1 with odd numbers and p2 with even ones, and three acceptors."""
    proposers = [Member(f"p{k}", "Proposer", (), {"first": k, **settings}) for k in (1, 2)]
    return [*proposers, *(Member(f"a{k}", "Acceptor") for k in (1, 2, 3))]
