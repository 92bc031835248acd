"""Leader election in terms, after Raft (Ongaro and Ousterhout, 2014, section 5.2), to look at: not Raft.

It votes once in a term, leads with a majority, and steps down for a higher term. What it leaves out is what makes Raft
safe, and what the exercise `raft` asks for: votes and log are not on disk; a vote does not depend on the voter's log;
a heartbeat carries the leader's whole log, which the follower takes for its own.
"""

from __future__ import annotations

from typing import Any

from courselib.cluster import Run
from grader.nodes.node import Node


class Elector(Node):
    """Answers `append {value}` when a majority has it, `read` at once from its own log; error 11 where it is not the
    leader. Followers that hear nothing for `patience` seconds, and up to `spread` more, stand for election."""

    patience, spread, beat = 0.3, 0.3, 0.1

    def on_start(self) -> None:
        self.role, self.term, self.voted = "follower", 0, ""
        self.votes: set[str] = set()
        self.log: list[Any] = []
        self.copied: dict[str, int] = {}  # how much of this leader's log each follower has
        self.asked: list[tuple[int, dict[str, Any]]] = []  # requests that wait for so much of the log to be copied
        self._rest()

    def _rest(self) -> None:
        self.set_timer("election", self.patience + self.random.uniform(0, self.spread))

    @property
    def majority(self) -> int:
        return (len(self.peers) + 1) // 2 + 1

    def on_timer(self, name: str) -> None:
        if name == "beat":
            self._heartbeat()
            return
        self.role, self.term, self.voted, self.votes = "candidate", self.term + 1, self.id, {self.id}
        for peer in self.peers:
            self.send(peer, {"type": "elect me", "term": self.term})
        self._rest()

    def _heartbeat(self) -> None:
        for peer in self.peers:
            self.send(peer, {"type": "beat", "term": self.term, "log": self.log})
        self.set_timer("beat", self.beat)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        if body.get("term", 0) > self.term:
            self._follow(body["term"])
        match body["type"]:
            case "elect me" if body["term"] == self.term and self.voted in ("", src):
                self.voted = src
                self.send(src, {"type": "vote", "term": self.term})
                self._rest()
            case "vote" if body["term"] == self.term and self.role == "candidate":
                self.votes.add(src)
                if len(self.votes) >= self.majority:
                    self._lead()
            case "beat" if body["term"] == self.term:
                self.role, self.log = "follower", body["log"]
                self.send(src, {"type": "have", "term": self.term, "length": len(self.log)})
                self._rest()
            case "have" if body["term"] == self.term and self.role == "leader":
                self.copied[src] = max(self.copied.get(src, 0), body["length"])
                self._answer()
            case "append" | "read" if self.role != "leader":
                self.reply(body, {"type": "error", "code": 11, "text": "not the leader"})
            case "append":
                self.log.append(body["value"])
                self.asked.append((len(self.log), body))
                self._heartbeat()
            case "read":
                self.reply(body, {"type": "read_ok", "value": self.log})

    def _follow(self, term: int) -> None:
        self.role, self.term, self.voted, self.asked = "follower", term, "", []
        self.cancel_timer("beat")
        self._rest()

    def _lead(self) -> None:
        self.role, self.copied = "leader", {}
        self.cancel_timer("election")
        self._heartbeat()

    def _answer(self) -> None:
        for length, request in list(self.asked):
            if 1 + sum(copied >= length for copied in self.copied.values()) >= self.majority:
                self.asked.remove((length, request))
                self.reply(request, {"type": "append_ok"})


def leaders(run: Run) -> list[tuple[float, str]]:
    """When which node became leader; `run` must watch "role"."""
    return [(e.at, e.node) for e in run.story.events if e.what == "state" and "role = leader" in e.text]
