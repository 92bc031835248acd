"""What the clients are to do, as data: transactions that cross on purpose, and transactions drawn at random.

Whether an anomaly shows must not depend on luck. So each *crossing* is a few transactions on keys of their own, and an
order of their statements in which a database without the right isolation must show a certain anomaly. They are those of
Berenson et al., "A Critique of ANSI SQL Isolation Levels" (1995), Adya (1999), and Fekete, O'Neil and O'Neil, "A
Read-Only Transaction Anomaly Under Snapshot Isolation" (2004), on items; none is about predicates.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from grader.nodes.workloads.mix import Mix, transactions

READ_AT_ONCE = 8  # keys that one transaction reads in the end


@dataclass(frozen=True)
class Planned:
    """One transaction: operations ["r", key, None] or [write, key, value], and whether it ends by ROLLBACK."""

    ops: tuple[tuple[str, int, int | None], ...]
    aborts: bool = False

    @property
    def steps(self) -> int:
        return len(self.ops) + 1


@dataclass(frozen=True)
class Scene:
    """Transactions that run at the same time, each on a client of its own.

    `order` says which of them (0, 1, ...) takes its next step: an operation, or its end. One that waits for a lock
    then is passed over. Steps that `order` does not name come last.
    """

    planned: tuple[Planned, ...]
    order: tuple[int, ...] = ()
    crossing: str = ""  # the name of the crossing that it is part of


@dataclass(frozen=True)
class Crossing:
    """Transactions as text: "rx wy" reads x and writes y, "-" at the end takes everything back."""

    name: str
    kind: str  # the anomaly that it shows
    about: str
    texts: tuple[str, ...]
    order: str  # "1 2 1 2": of transactions, counted from 1


CROSSINGS = (
    Crossing("dirty write", "G0", "two write x, then y, in opposite orders", ("wx wy", "wx wy"), "1 2 2 1 2 1"),
    Crossing("aborted read", "G1a", "one reads what another takes back", ("wx -", "rx"), "1 2 2 1"),
    Crossing("intermediate read", "G1b", "one reads between two writes of another", ("wx wx", "rx"), "1 2 2 1 1"),
    Crossing("circular reads", "G1c", "each reads what the other writes", ("wx ry", "wy rx"), "1 2 1 2 1 2"),
    Crossing("lost update", "lost-update", "both read x, then both write it", ("rx wx", "rx wx"), "1 2 1 2 1 2"),
    Crossing("read skew", "G-single", "one reads x before and y after the other writes both", ("rx ry", "wx wy"),
             "1 2 2 2 1 1"),
    Crossing("write skew", "G2-item", "both read x and y, then one writes x, the other y",
             ("rx ry wx", "rx ry wy"), "1 2 1 2 1 2 1 2"),
    Crossing("read-only", "G2-item", "without the third, which only reads, the first two would be in order",
             ("rx ry wx", "ry wy", "rx ry"), "1 1 2 2 2 3 3 3 1 1"),
)  # fmt: skip
CLIENTS = max(len(each.texts) for each in CROSSINGS)
CROSSED = sum(len(each.texts) + 1 for each in CROSSINGS)  # transactions, with the one that reads afterwards


@dataclass(frozen=True)
class Plan:
    """All scenes of a run, and all keys that they use."""

    scenes: tuple[Scene, ...]
    keys: range


def plan(write: str, count: int, clients: int, keys: int, seed: int) -> Plan:
    """The crossings, then transactions at random until there are `count` in all, then reads of what those wrote."""
    draw = random.Random(f"{seed}/plan")
    scenes: list[Scene] = []
    for number, crossing in enumerate(CROSSINGS):
        scenes += _crossed(crossing, write, 2 * number)
    first = 2 * len(CROSSINGS)
    mix = Mix(keys=keys)
    drawn = [Planned(_shifted(ops, first)) for ops in islice(transactions(draw, write, mix), max(0, count - CROSSED))]
    for at in range(0, len(drawn), clients):
        together = drawn[at : at + clients]
        order = [place for place, each in enumerate(together) for _ in range(each.steps)]
        draw.shuffle(order)
        scenes.append(Scene(tuple(together), tuple(order)))
    used = sorted({key for each in drawn for _, key, _ in each.ops})
    for at in range(0, len(used), READ_AT_ONCE):
        scenes.append(Scene((_reads(used[at : at + READ_AT_ONCE]),)))
    return Plan(tuple(scenes), range(max([first - 1, *used]) + 1))


def _crossed(crossing: Crossing, write: str, x: int) -> Iterator[Scene]:
    """The crossing on the keys x and x + 1, and then a read of both: it shows what took effect."""
    written = {x: 0, x + 1: 0}
    planned = []
    for text in crossing.texts:
        ops: list[tuple[str, int, int | None]] = []
        for word in text.removesuffix(" -").split():
            key = x + "xy".index(word[1])
            if word[0] == "r":
                ops.append(("r", key, None))
            else:
                written[key] += 1
                ops.append((write, key, written[key]))
        planned.append(Planned(tuple(ops), text.endswith("-")))
    yield Scene(tuple(planned), tuple(int(word) - 1 for word in crossing.order.split()), crossing.name)
    yield Scene((_reads([x, x + 1]),), (), crossing.name)


def _shifted(ops: Sequence[Sequence[Any]], first: int) -> tuple[tuple[str, int, int | None], ...]:
    return tuple((f, first + key, value) for f, key, value in ops)


def _reads(keys: Sequence[int]) -> Planned:
    return Planned(tuple(("r", key, None) for key in keys))
