"""What befalls messages between nodes: delays, drops, duplicates, and links that are cut."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """Each message takes `least` to `most` virtual seconds, is dropped or doubled with these probabilities. Messages of
    and to clients are only delayed. So are those that a node sends to itself."""

    least: float = 0.001
    most: float = 0.050
    drop: float = 0.0
    duplicate: float = 0.0

    def delays(self, rng: random.Random, between_nodes: bool) -> list[float]:
        """After how long each copy of one message arrives; none if it is dropped."""
        first = rng.uniform(self.least, self.most)
        if not between_nodes:
            return [first]
        if self.drop and rng.random() < self.drop:
            return []
        if self.duplicate and rng.random() < self.duplicate:
            return [first, rng.uniform(self.least, self.most)]
        return [first]


Links = frozenset[tuple[str, str]]


def split(groups: Sequence[Collection[str]]) -> Links:
    """The directed links that a partition into these groups cuts."""
    return frozenset(
        (src, dst) for here in groups for there in groups if here is not there for src in here for dst in there
    )


def one_way(sources: Iterable[str], targets: Collection[str]) -> Links:
    """The links from `sources` to `targets`, in that direction only."""
    return frozenset((src, dst) for src in sources for dst in targets if src != dst)


def bridge(nodes: Sequence[str]) -> Links:
    """Two halves that cannot reach each other, but for one node in the middle that reaches all."""
    middle = len(nodes) // 2
    return split([nodes[:middle], nodes[middle + 1 :]])
