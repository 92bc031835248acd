"""Simulated stores of transactions, one for each level of isolation, and the histories that their clients see.

Each is a well-known way to reach its level, and no more than that:

- read-uncommitted: writes lock their key until the end, reads see whatever is there. Aborts take writes back.
- read-committed: the same locks; reads see what is committed at that moment, and the own writes.
- snapshot-isolation: reads see what was committed when the transaction began. Of two that wrote one key and overlapped,
  the first to commit wins, and the other one aborts.
- serializable: in addition a transaction aborts if something that it read has changed. But one that only reads may see
  an old snapshot, as from a replica that lags behind: there is an order, though not that of time.
- strict-serializable: without that exception.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from grader.nodes.histories.history import NEVER
from grader.nodes.histories.transactions.transaction import Op, Status, Transaction

LEVELS = ("read-uncommitted", "read-committed", "snapshot-isolation", "serializable", "strict-serializable")
_LOCKING = ("read-uncommitted", "read-committed")
_LAG = 40  # commits by which an old snapshot may lag behind


@dataclass(frozen=True)
class Load:
    """What clients ask: `transactions` of 1 to `most` operations, by `clients` at a time, on `keys` keys at a time.

    A key is written `writes` times and then makes room for a new one. `fails` and `unknown` are the shares of
    transactions that abort for no reason, and whose outcome no client learns (half of them happened). `last_reads`: at
    the end further transactions, one after the other, read every key.
    """

    transactions: int = 200
    clients: int = 6
    keys: int = 4
    most: int = 4
    writes: int = 32
    fails: float = 0.02
    unknown: float = 0.02
    workload: Literal["list-append", "rw-register"] = "list-append"
    last_reads: bool = True


@dataclass
class _Versions:
    """All committed (or, where reads are dirty, made) versions of one key: when, and which value."""

    times: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


@dataclass
class _Open:
    """A transaction on its way."""

    index: int
    process: int
    asked: list[tuple[str, str, int]]
    called: int
    snapshot: int
    ops: list[Op] = field(default_factory=list)
    wrote: dict[str, list[int]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)


def simulate(level: str, seed: int, load: Load | None = None) -> list[Transaction]:
    """The history of a store at `level`, in the order in which transactions ended; the same for the same arguments.

    Raises ValueError for a level without a store.
    """
    if level not in LEVELS:
        raise ValueError(f"no store is {level}; there are {', '.join(LEVELS)}")
    return _Store(level, random.Random(seed), load or Load()).run()


class _Store:
    def __init__(self, level: str, draw: random.Random, load: Load) -> None:
        self.level, self.draw, self.load = level, draw, load
        self.now = self.time = 0  # commits, and events of clients
        self.versions: dict[str, _Versions] = {}
        self.locks: dict[str, _Open] = {}
        self.done: list[Transaction] = []
        self.names = [f"k{number}" for number in range(load.keys)]
        self.written = dict.fromkeys(self.names, 0)
        self.next = 1

    def run(self) -> list[Transaction]:
        processes = list(range(self.load.clients))
        open_: list[_Open | None] = [None] * self.load.clients
        begun = 0
        while begun < self.load.transactions or any(open_):
            client = self.draw.randrange(self.load.clients)
            one = open_[client]
            if one is None:
                if begun < self.load.transactions:
                    open_[client] = self.begin(begun, processes[client], self.asked())
                    begun += 1
                continue
            status = self.step(one)
            if status is not None:
                open_[client] = None
                if status == "info":  # as Jepsen does: nobody knows what that process still does
                    processes[client] += self.load.clients
        if self.load.last_reads:
            names = list(self.written)
            for at in range(0, len(names), 8):
                asked = [("r", name, 0) for name in names[at : at + 8]]
                last = self.begin(begun + at, processes[0], asked, current=True)
                while self.step(last, quiet=True) is None:
                    pass
        return self.done

    def asked(self) -> list[tuple[str, str, int]]:
        """The operations of the next transaction: some only read."""
        draw, reads = self.draw, self.draw.random() < 0.25
        found = []
        for _ in range(draw.randint(1, self.load.most)):
            place = draw.randrange(len(self.names))
            name = self.names[place]
            if reads or draw.random() < 0.5:
                found.append(("r", name, 0))
                continue
            found.append(("w", name, self.next))
            self.next += 1
            self.written[name] += 1
            if self.written[name] == self.load.writes:
                self.names[place] = f"k{len(self.written)}"
                self.written[self.names[place]] = 0
        return found

    def begin(self, index: int, process: int, asked: list[tuple[str, str, int]], current: bool = False) -> _Open:
        self.time += 1
        lags = self.level == "serializable" and not current and all(f == "r" for f, _, _ in asked)
        snapshot = self.draw.randint(max(self.now - _LAG, 0), self.now) if lags else self.now
        return _Open(index, process, asked, self.time, snapshot)

    def step(self, one: _Open, quiet: bool = False) -> Status | None:
        """One operation, or the end; `quiet` if nothing may go wrong."""
        if len(one.ops) < len(one.asked):
            f, key, value = one.asked[len(one.ops)]
            if f == "r":
                one.read.add(key)
                one.ops.append(Op("r", key, self.read(one, key)))
                return None
            if self.level in _LOCKING:
                holder = self.locks.setdefault(key, one)
                if holder is not one:
                    return None if one.called < holder.called else self.end(one, "fail")  # the older one may wait
            one.ops.append(self.op(f, key, value))
            one.wrote.setdefault(key, []).append(value)
            if self.level == "read-uncommitted":
                self.install(key, [value])
            return None
        chance = 1.0 if quiet else self.draw.random()
        if chance < self.load.fails or not self.may_commit(one):
            return self.end(one, "fail")
        if chance < self.load.fails + self.load.unknown:
            return self.end(one, "info", happens=self.draw.random() < 0.5)
        return self.end(one, "ok")

    def op(self, f: str, key: str, value: Any) -> Op:
        if f == "r":
            return Op("r", key, None)
        return Op("append" if self.load.workload == "list-append" else "w", key, value)

    def read(self, one: _Open, key: str) -> Any:
        versions = self.versions.setdefault(key, _Versions())
        values = versions.values
        if self.level not in _LOCKING:
            values = values[: bisect_right(versions.times, one.snapshot)]
        own = [] if self.level == "read-uncommitted" else one.wrote.get(key, [])
        if self.load.workload == "list-append":
            return (*values, *own)
        return own[-1] if own else values[-1] if values else None

    def may_commit(self, one: _Open) -> bool:
        if self.level in _LOCKING or not (one.wrote or self.level == "strict-serializable"):
            return True
        met = one.wrote.keys() if self.level == "snapshot-isolation" else one.wrote.keys() | one.read
        return all(self.versions[key].times[-1:] <= [one.snapshot] for key in met if key in self.versions)

    def install(self, key: str, values: Sequence[int]) -> None:
        versions = self.versions.setdefault(key, _Versions())
        versions.times += [self.now] * len(values)
        versions.values += values

    def end(self, one: _Open, status: Status, happens: bool = False) -> Status:
        happens = happens or status == "ok"
        if self.level == "read-uncommitted":
            if not happens:
                for key, values in one.wrote.items():
                    del self.versions[key].times[-len(values) :], self.versions[key].values[-len(values) :]
        elif happens and one.wrote:
            self.now += 1
            for key, values in one.wrote.items():
                self.install(key, values if self.load.workload == "list-append" else values[-1:])
        for key in [key for key in one.wrote if self.locks.get(key) is one]:
            del self.locks[key]
        self.time += 1
        ops = tuple(one.ops)
        if status != "ok":  # what was read is known to nobody, and what was not done yet was asked all the same
            rest = [self.op(f, key, value) for f, key, value in one.asked[len(ops) :]]
            ops = tuple(op if op.f != "r" else replace(op, value=None) for op in (*ops, *rest))
        returned = NEVER if status == "info" else self.time
        self.done.append(Transaction(one.index, one.process, status, ops, one.called, returned))
        return status
