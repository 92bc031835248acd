"""Rounds of random pushes while there is news; ORSet without tombstones; types as dataclasses."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from grader.nodes import Node

HOT_ROUNDS, ROUND, PEERS = 5, 0.06, 2


@dataclass
class GCounter:
    counts: Counter = field(default_factory=Counter)

    def increment(self, node: str, amount: int = 1) -> None:
        self.counts[node] += amount

    def merge(self, other: GCounter) -> None:
        self.counts = self.counts | other.counts

    def value(self) -> int:
        return self.counts.total()

    def to_json(self) -> Any:
        return sorted(self.counts.items())

    @classmethod
    def from_json(cls, told: Any) -> GCounter:
        return cls(Counter(dict(told)))


@dataclass
class PNCounter:
    pairs: dict[str, list[int]] = field(default_factory=dict)

    def increment(self, node: str, amount: int = 1) -> None:
        self.pairs.setdefault(node, [0, 0])[0] += amount

    def decrement(self, node: str, amount: int = 1) -> None:
        self.pairs.setdefault(node, [0, 0])[1] += amount

    def merge(self, other: PNCounter) -> None:
        for node, (up, down) in other.pairs.items():
            mine = self.pairs.setdefault(node, [0, 0])
            mine[:] = [max(mine[0], up), max(mine[1], down)]

    def value(self) -> int:
        return sum(up - down for up, down in self.pairs.values())

    def to_json(self) -> Any:
        return {node: list(pair) for node, pair in self.pairs.items()}

    @classmethod
    def from_json(cls, told: Any) -> PNCounter:
        return cls({node: list(pair) for node, pair in told.items()})


@dataclass
class LWWRegister:
    stamp: tuple[float, str] = (float("-inf"), "")
    held: Any = None

    def set(self, value: Any, timestamp: float, node: str) -> None:
        if (timestamp, node) > self.stamp:
            self.stamp, self.held = (timestamp, node), value

    def merge(self, other: LWWRegister) -> None:
        if other.stamp > self.stamp:
            self.stamp, self.held = other.stamp, other.held

    def value(self) -> Any:
        return self.held

    def to_json(self) -> Any:
        return None if self.stamp[1] == "" else {"at": self.stamp[0], "by": self.stamp[1], "value": self.held}

    @classmethod
    def from_json(cls, told: Any) -> LWWRegister:
        return cls() if told is None else cls((told["at"], told["by"]), told["value"])


@dataclass
class ORSet:
    """A dot is (node, number); a dot that is in the context and not among the live ones was removed."""

    live: dict[tuple[str, int], Any] = field(default_factory=dict)
    context: Counter = field(default_factory=Counter)

    def add(self, element: Any, node: str) -> None:
        self.context[node] += 1
        self.live = {dot: other for dot, other in self.live.items() if other != element}
        self.live[node, self.context[node]] = element

    def remove(self, element: Any) -> None:
        self.live = {dot: other for dot, other in self.live.items() if other != element}

    def merge(self, other: ORSet) -> None:
        kept = {}
        for mine, theirs in ((self, other), (other, self)):
            for dot, element in mine.live.items():
                if dot in theirs.live or dot[1] > theirs.context[dot[0]]:
                    kept[dot] = element
        self.live, self.context = kept, self.context | other.context

    def value(self) -> frozenset:
        return frozenset(self.live.values())

    def to_json(self) -> Any:
        return [[[*dot, element] for dot, element in self.live.items()], dict(self.context)]

    @classmethod
    def from_json(cls, told: Any) -> ORSet:
        return cls({(node, number): element for node, number, element in told[0]}, Counter(told[1]))


class GossipStore(Node):
    def on_start(self) -> None:
        self.elements: list[Any] = []
        self.counter = PNCounter()
        self.hot = 0
        self.set_timer("slow", self.random.uniform(0, 1))

    def state(self) -> Any:
        return self.elements if self.workload == "g-set" else self.counter.to_json()

    def absorb(self, told: Any) -> tuple[bool, bool]:
        """Whether there was news for us, and whether we have news for them."""
        before = str(self.state())
        if self.workload == "g-set":
            self.elements += [element for element in told if element not in self.elements]
            return str(self.state()) != before, len(self.elements) > len(told)
        self.counter.merge(PNCounter.from_json(told))
        return str(self.state()) != before, self.counter != PNCounter.from_json(told)

    def on_message(self, src: str, body: dict[str, Any]) -> None:
        match body:
            case {"type": "read"}:
                value = self.elements if self.workload == "g-set" else self.counter.value()
                self.reply(body, {"type": "read_ok", "value": value})
            case {"type": "add", "element": element}:
                self.absorb([element])
                self.reply(body, {"type": "add_ok"})
                self.news()
            case {"type": "add", "delta": delta}:
                (self.counter.increment if delta > 0 else self.counter.decrement)(self.id, abs(delta))
                self.reply(body, {"type": "add_ok"})
                self.news()
            case {"type": "push", "state": told, "pull": pull}:
                news, more = self.absorb(told)
                if more and pull:
                    self.send(src, {"type": "push", "state": self.state(), "pull": False})
                if news:
                    self.news()

    def news(self) -> None:
        self.hot = HOT_ROUNDS
        self.round()

    def round(self) -> None:
        if self.hot and self.peers:
            self.hot -= 1
            for peer in self.random.sample(self.peers, min(PEERS, len(self.peers))):
                self.send(peer, {"type": "push", "state": self.state(), "pull": False})
            self.set_timer("fast", ROUND)

    def on_timer(self, name: str) -> None:
        if name == "fast":
            self.round()
            return
        self.set_timer("slow", 1.0)
        if self.peers:
            self.send(self.random.choice(self.peers), {"type": "push", "state": self.state(), "pull": True})
