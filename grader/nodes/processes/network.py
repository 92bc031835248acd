"""What becomes of a message between two nodes: how late it comes, whether it is lost or comes twice, who is cut off.

Clients sit beside the node that they ask: their messages take no time and are never lost, for a delay there would only
hide what goes wrong between nodes (so does Maelstrom). A message to a service or from one may be late or lost, but
never comes twice: its caller could not tell which of two writes came last.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

NODES, SERVICES, CLIENTS = "nodes", "services", "clients"  # with whom nodes speak


@dataclass(frozen=True)
class Weather:
    """What the network does to messages that nodes send: `latency` seconds at the mean, probabilities 0 to 1."""

    latency: float = 0.0
    drop: float = 0.0
    duplicate: float = 0.0


@dataclass
class Traffic:
    """What was sent, and what became of it."""

    sent: Counter[str] = field(default_factory=Counter)  # by with whom: NODES, SERVICES, CLIENTS
    types: Counter[str] = field(default_factory=Counter)  # messages between nodes, by the type of their body
    dropped: int = 0  # by chance
    duplicated: int = 0
    cut: int = 0  # lost in a partition
    undelivered: int = 0  # their receiver was down, or did not read


class Network:
    """Decides for each message; draws for each link from a generator of its own.

    So the k-th message of a link has the same fate with the same seed, whatever other links do meanwhile.
    """

    def __init__(self, weather: Weather, seed: int) -> None:
        self.weather = weather
        self.traffic = Traffic()
        self._blocked: Counter[tuple[str, str]] = Counter()  # several partitions may cut one link
        self._seed = seed
        self._links: dict[tuple[str, str], random.Random] = {}

    def fates(self, src: str, dest: str, kind: str) -> list[float]:
        """After how many seconds the message comes, once for each time that it comes: none for one that is lost."""
        if kind == CLIENTS:
            return [0.0]
        link = self._links.get((src, dest))
        if link is None:
            link = self._links[src, dest] = random.Random(f"{self._seed}/{src}/{dest}")
        lost, twice = link.random() < self.weather.drop, link.random() < self.weather.duplicate
        delays = [link.expovariate(1 / self.weather.latency) if self.weather.latency else 0.0 for _ in range(2)]
        if lost:
            self.traffic.dropped += 1
            return []
        if twice and kind == NODES:
            self.traffic.duplicated += 1
            return delays
        return delays[:1]

    def count(self, kind: str, type_: str) -> None:
        """Note that a message was sent."""
        self.traffic.sent[kind] += 1
        if kind == NODES and (type_ in self.traffic.types or len(self.traffic.types) < 100):
            self.traffic.types[type_] += 1

    def cut(self, links: Iterable[tuple[str, str]]) -> None:
        """Deliver nothing from the first to the second of each pair, until `mend` is called with the same pairs."""
        self._blocked.update(links)

    def mend(self, links: Iterable[tuple[str, str]]) -> None:
        self._blocked.subtract(links)

    def heal(self) -> None:
        """From now on nothing is cut off, lost or doubled; messages still take their time."""
        self._blocked.clear()
        self.weather = Weather(self.weather.latency)

    def passes(self, src: str, dest: str) -> bool:
        """Whether a message that is due now comes through; counts it if not."""
        if self._blocked[src, dest] > 0:
            self.traffic.cut += 1
            return False
        return True
