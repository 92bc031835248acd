"""The histories that solutions are tried with, with fresh keys, values, indices and orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from grader.exercise import Draw
from grader.exercises.find_anomaly.apart import without_built_ones
from grader.exercises.find_anomaly.mistakes import ALSO
from grader.exercises.find_anomaly.readings import Reading, Transaction
from grader.exercises.find_anomaly.situations import RINGS, SITUATIONS, Situation
from grader.nodes.histories.transactions.stores import Store, plain
from grader.worlds.cases import Case

Rng = np.random.Generator
LETTERS = "abcdefghjkmnpqrstuvwxyz"
LONGEST_RING = 12
MANY = 5000
ROW = 3000  # of these on one path, which is too long for Python's recursion
IN_WORDS = {
    "serializable": "a serializable store",
    "snapshot": "a store with snapshot isolation",
    "committed": "a store with read committed",
    "uncommitted": "a store with read uncommitted",
    "none": "a store without any isolation",
}
# of a store's history: transactions, keys in use, values of a key
SIZES = {"serializable": (160, 8, 12), "snapshot": (160, 12, 10), "committed": (160, 10, 10), "uncommitted": (160, 12, 10),
         "none": (160, 12, 10)}  # fmt: skip
STORES_TELL = {
    "serializable": ("by_list", "by_index", "sessions", "info_failed"),
    "snapshot": ("no_rw",),
    "committed": ("no_rw",),
    "uncommitted": (),
    "none": (),
}
# mistakes that other histories tell apart, and that must not show in a store's by chance
STORES_KEEP = (
    "info_out",
    "one_read",
    "pairs",
    "g0_pairs",
    "unmixed",
    "whole_graph",
    "g1b_info",
    "g1a_ordered",
    "g1b_ordered",
)
MUST_SHOW = {
    "serializable": frozenset[str](),
    "snapshot": frozenset({"G2-item"}),
    "committed": frozenset({"G-single"}),
    "uncommitted": frozenset({"G1a", "G1b", "G1c", "G-single"}),
    "none": frozenset({"G0", "G1a", "G1b", "G1c", "G-single"}),
}


@dataclass(eq=False)
class History:
    """What a solution is called with, and what is in it."""

    group: str
    label: str
    transactions: list[Transaction]
    _told: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)

    @cached_property
    def reading(self) -> Reading:
        return Reading(self.transactions)

    def told(self, mistake: str) -> frozenset[str]:
        """The classes that somebody finds who makes a mistake."""
        if mistake not in self._told:
            self._told[mistake] = Reading(self.transactions, mistake).classes
        return self._told[mistake]

    @property
    def clear(self) -> bool:
        """Whether all ways to understand the rules find the same classes."""
        return all(self.told(other) == self.reading.classes for other in ALSO)

    def tells(self, mistakes: Sequence[str]) -> bool:
        return all(self.told(mistake) != self.reading.classes for mistake in mistakes)

    @property
    def case(self) -> Case:
        return Case(self.group, self.label, ((self.transactions,),), "find_anomaly", expected=self, by="found")


def cases(draw: Draw) -> Iterator[Case]:
    """Every history, all of them in one world of one rank; the largest come last."""
    for number, situation in enumerate(SITUATIONS):
        yield built(draw.generator(f"situation {number}"), situation).case
    long = set[tuple[str, str]]()  # of each group and its classes one ring has the greatest length, whatever is drawn
    for number, (group, label, present, steps) in enumerate(RINGS):
        longest = any(step[0] == "*" for step in steps) and (group, present) not in long
        long |= {(group, present)} if longest else set()
        yield ring(draw.generator(f"ring {number}"), group, label, steps, LONGEST_RING if longest else None).case
    for level in IN_WORDS:
        yield store(draw.generator(f"store {level}"), level).case
    for number in range(2):
        yield large(draw.generator(f"large {number}"), number).case


# ---- built


def parsed(text: str) -> list[Transaction]:
    """The notation of `situations`: indices count from 0."""
    found: list[Transaction] = []
    for part in text.split(";"):
        name, _, body = part.strip().partition(":")
        kind = {"!": "fail", "?": "info"}.get(name[0], "ok")
        ops: list[list[Any]] = []
        for word in body.split():
            if "+" in word:
                key, value = word.split("+")
                ops.append(["append", key, int(value)])
            elif word.endswith("~"):
                ops.append(["r", word[:-1], None])
            else:
                key, _, values = word.partition("=")
                ops.append(["r", key, [int(value) for value in values.split(",") if value]])
        for op in ops:
            if op[0] == "r" and kind != "ok":
                op[2] = None
        found.append({"index": len(found), "process": len(found), "type": kind, "ops": ops})
    return found


def built(rng: Rng, situation: Situation) -> History:
    """A situation with fresh names. Raises AssertionError where it is not what it says."""
    transactions = parsed(situation.text)
    if situation.names == "one process":
        for txn in transactions:
            txn["process"] = 3
    elif situation.names == "backward":
        transactions.reverse()
        for place, txn in enumerate(transactions):
            txn["index"] = place
    elif situation.names == "descending":
        for place, txn in enumerate(transactions):
            txn["index"] = len(transactions) - place
    renamed = _renamed(rng, transactions, 0 if situation.names == "from zero" else None)
    history = History(situation.group, situation.label, renamed)
    assert history.reading.classes == situation.present, (situation.label, history.reading.classes)
    assert history.clear, situation.label
    for mistake in situation.telling:
        assert history.tells([mistake]), (situation.label, mistake)
    return history


def ring(rng: Rng, group: str, label: str, steps: Sequence[str], length: int | None = None) -> History:
    """A cycle of these steps, one of which may be repeated (`*`), among transactions that have nothing to do with it."""
    length = length or int(rng.integers(max(4, len(steps)), LONGEST_RING + 1))
    kinds: list[str] = []
    for step in steps:
        kinds += [step.strip("*")] * (length - len(steps) + 1 if step[0] == "*" else 1)
    at = int(rng.integers(len(kinds)))
    kinds = kinds[at:] + kinds[:at]
    return History(group, label, _renamed(rng, _ring(kinds)))


def _ring(kinds: Sequence[str]) -> list[Transaction]:
    """Transactions 0, 1, ... with such an edge from each to the next, and one from the last to the first; others that
    append before them and read after them."""
    many = len(kinds)
    before: list[list[Any]] = []
    ops: list[list[list[Any]]] = [[] for _ in range(many)]
    after: list[list[Any]] = []
    for place, step in enumerate(kinds):
        source, target = ops[place], ops[(place + 1) % many]
        for kind in step.split("+"):
            key = f"{kind}{place}"
            if place % 2:  # there was something in the key before
                before.append(["append", key, 0])
            values = [0] if place % 2 else []
            if kind == "ww":
                source.append(["append", key, 1])
                target.append(["append", key, 2])
                values += [1, 2]
            elif kind == "wr":
                source.append(["append", key, 1])
                target.append(["r", key, [*values, 1]])
                values += [1]
            else:
                source.append(["r", key, list(values)])
                target.append(["append", key, 1])
                values += [1]
            after.append(["r", key, values])
    found = [before, *ops, *(after[at : at + 8] for at in range(0, len(after), 8))]
    return [
        {"index": place, "process": place, "type": "ok", "ops": operations}
        for place, operations in enumerate(operations for operations in found if operations)
    ]


def _renamed(rng: Rng, transactions: Sequence[Transaction], first: int | None = None) -> list[Transaction]:
    """With other keys, other values in the same order, and indices with gaps in the same order; `first` is the least value
    and the least index, where it is given."""
    keys = sorted({key for txn in transactions for _, key, _ in txn["ops"]})
    names: list[Any] = [LETTERS[i] for i in rng.permutation(len(LETTERS))[: len(keys)]]
    if len(keys) > len(LETTERS):
        names = [f"{LETTERS[i % len(LETTERS)]}{i // len(LETTERS)}" for i in rng.permutation(len(keys))]
    new_key = dict(zip(keys, names, strict=True))
    values = sorted({value for txn in transactions for f, _, value in txn["ops"] if f == "append"})
    fresh = sorted(int(v) for v in rng.choice(np.arange(1, 20 + 3 * len(values)), len(values), replace=False))
    fresh[:1] = fresh[:1] if first is None else [first]
    new_value = dict(zip(values, fresh, strict=True))
    indices = sorted(txn["index"] for txn in transactions)
    numbers = sorted(int(v) for v in rng.choice(np.arange(1, 10 + 3 * len(indices)), len(indices), replace=False))
    numbers[0] = numbers[0] if first is None else first
    new_index = dict(zip(indices, numbers, strict=True))

    def renamed(op: Sequence[Any]) -> list[Any]:
        f, key, value = op
        if value is None:
            return [f, new_key[key], None]
        return [f, new_key[key], [new_value[v] for v in value] if f == "r" else new_value[value]]

    return [
        {
            "index": new_index[txn["index"]],
            "process": txn["process"],
            "type": txn["type"],
            "ops": [renamed(op) for op in txn["ops"]],
        }
        for txn in transactions
    ]


# ---- stores


def store(rng: Rng, level: str) -> History:
    """What clients of a store saw, in no order; drawn again until its level shows, and what it must tell apart."""
    many, keys, longest = SIZES[level]
    while True:
        seen = without_built_ones(plain(Store(rng, level, keys, longest).run(many)))
        history = History("stores", IN_WORDS[level], _shuffled(rng, seen, int))
        if history.reading.classes != MUST_SHOW[level] or not history.clear or not history.tells(STORES_TELL[level]):
            continue
        if all(history.told(mistake) == MUST_SHOW[level] for mistake in STORES_KEEP):
            return history


def large(rng: Rng, number: int) -> History:
    """5,000 transactions: of a store with snapshot isolation, and of a serializable one, to which a cycle is added."""
    level, many = (("snapshot", MANY - 120), ("serializable", MANY - 120 - ROW))[number]
    transactions = plain(Store(rng, level, 60, 12).run(many))
    if number:
        transactions = _planted(rng, transactions)
        transactions += _row(len(transactions))
    label = f"{len(transactions):,} transactions of {IN_WORDS[level]}"
    label += ", with a cycle that was planted" if number else ""
    return History("large", label, _shuffled(rng, transactions, str, ROW + 1 if number else 0))


def _row(first: int) -> list[Transaction]:
    """Transactions that append to one key after the other: one path through all of them, and no other edges. The key is a
    new one after every ten, and the full one is read then."""
    found: list[Transaction] = []
    key, values = "", list[int]()
    for number in range(ROW):
        ops: list[list[Any]] = []
        if number % 10 == 0:
            ops = [["r", key, values]] if values else []
            key, values = f"row {number}", []
        values = [*values, number]
        found.append({"index": first + number, "process": 0, "type": "ok", "ops": [*ops, ["append", key, number]]})
    return [*found, {"index": first + ROW, "process": 0, "type": "ok", "ops": [["r", key, values]]}]


def _planted(rng: Rng, transactions: list[Transaction]) -> list[Transaction]:
    """A history with a G-single cycle of 12 transactions more."""
    kinds = ["rw", *["wr"] * (LONGEST_RING - 1)]
    at = 1 + 2 * int(rng.integers(LONGEST_RING // 2))  # the rw edge comes from a read of something
    added = _ring(kinds[at:] + kinds[:at])
    return transactions + [{**txn, "index": len(transactions) + txn["index"]} for txn in added]


def _shuffled(rng: Rng, transactions: list[Transaction], keys: Callable[[Any], Any], row: int = 0) -> list[Transaction]:
    """In another order, with other indices, keys of this type, and each read of nothing as [] or null.

    The last `row` transactions keep their order among themselves: who starts at the first of them has a long way to go.
    """
    many = len(transactions)
    numbers = rng.permutation(2 * many)[:many]
    places = rng.permutation(many)
    numbers[many - row :] = np.sort(numbers[many - row :])
    places[places >= many - row] = np.arange(many - row, many)
    found = []
    for place in places:
        txn = transactions[int(place)]
        ops = [[f, keys(key), None if value == [] and rng.random() < 0.5 else value] for f, key, value in txn["ops"]]
        found.append({**txn, "index": int(numbers[place]), "ops": ops})
    return found
