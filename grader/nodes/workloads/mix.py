"""Transactions as Jepsen's generators draw them, for nodes and for databases: few keys at a time, each for a while."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

KEYS, LONGEST, WRITES = 10, 4, 16  # Maelstrom's own defaults of --key-count, --max-txn-length, --max-writes-per-key


@dataclass(frozen=True)
class Mix:
    """How transactions are drawn.

    `keys` keys are in use at a time; after `writes` writes a new key takes the place of one. A transaction has 1 to
    `longest` operations.
    """

    keys: int = KEYS
    longest: int = LONGEST
    writes: int = WRITES


class Keys:
    """The keys in use, 0, 1, ...; each later one is drawn twice as often as the one before it, so some are hot."""

    def __init__(self, mix: Mix, draw: random.Random) -> None:
        self._mix, self._draw = mix, draw
        self.now = list(range(mix.keys))
        self._weights = [2.0 ** min(place, 60) for place in range(mix.keys)]
        self._written = dict.fromkeys(self.now, 0)
        self._last = mix.keys - 1

    def choose(self) -> int:
        return self._draw.choices(self.now, self._weights)[0]

    def write(self, key: int) -> int:
        """The next value of a key: 1, 2, ... Where it was the last one, a new key takes this one's place."""
        self._written[key] += 1
        value = self._written[key]
        if value >= self._mix.writes:
            del self._written[key]
            self._last += 1
            self.now[self.now.index(key)] = self._last
            self._written[self._last] = 0
        return value


def transactions(draw: random.Random, write: str, mix: Mix) -> Iterator[list[list[Any]]]:
    """Transactions without end: lists of ["r", key, None] and [write, key, value], about as many of each.

    No value is written twice to a key, so a read tells which write it saw.
    """
    keys = Keys(mix, draw)
    while True:
        found: list[list[Any]] = []
        for _ in range(draw.randint(1, mix.longest)):
            key = keys.choose()
            found.append(["r", key, None] if draw.random() < 0.5 else [write, key, keys.write(key)])
        yield found
