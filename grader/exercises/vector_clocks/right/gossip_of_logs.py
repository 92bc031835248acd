"""No acknowledgements: nodes ask each other for what they lack; a log in the order of delivery is in causal order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from grader.nodes import Node

ROUND = 0.15


@dataclass
class VectorClock:
    entries: Counter[str] = field(default_factory=Counter)

    def tick(self, node: str) -> None:
        self.entries[node] += 1

    def merge(self, other: VectorClock) -> None:
        self.entries = self.entries | other.entries

    def compare(self, other: VectorClock) -> str:
        match self.entries <= other.entries, self.entries >= other.entries:
            case True, True:
                return "equal"
            case True, False:
                return "before"
            case False, True:
                return "after"
        return "concurrent"


class CausalBroadcast(Node):
    def on_start(self) -> None:
        self.log: list[dict] = []
        self.have: Counter[str] = Counter()
        self.set_timer("ask", self.random.uniform(0, ROUND))

    def on_timer(self, name: str) -> None:
        self.set_timer("ask", ROUND)
        if self.peers:
            self.send(self.random.choice(self.peers), {"type": "what_is_new", "have": dict(self.have)})

    def on_message(self, src: str, body: dict) -> None:
        getattr(self, f"on_{body['type']}")(src, body)

    def on_broadcast(self, src: str, body: dict) -> None:
        self.take({"origin": self.id, "number": self.have[self.id] + 1, "message": body["message"]})
        self.reply(body, {"type": "broadcast_ok"})

    def on_what_is_new(self, src: str, body: dict) -> None:
        new = [entry for entry in self.log if entry["number"] > body["have"].get(entry["origin"], 0)]
        if new:
            self.send(src, {"type": "news", "entries": new})

    def on_news(self, src: str, body: dict) -> None:
        # The sender's log is in causal order, and it left out only what we had: its order is safe for us.
        for entry in body["entries"]:
            if entry["number"] == self.have[entry["origin"]] + 1:
                self.take(entry)

    def take(self, entry: dict) -> None:
        self.have[entry["origin"]] += 1
        self.log.append(entry)
        self.send(f"c{self.id[1:]}", {"type": "deliver", "message": entry["message"]})
