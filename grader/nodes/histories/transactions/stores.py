"""A small store at a level of isolation, whose clients run transactions at once; what they saw is a history.

It keeps all values in one process and runs its transactions operation by operation, in an order that is drawn:

- `none`: reads see everything, and nothing is locked.
- `uncommitted`: reads see everything, also what is rolled back later; a write locks its key until the transaction ends.
- `committed`: the same locks; a read sees what is committed at that moment, and what its transaction wrote.
- `snapshot`: reads see the state at the transaction's begin; of two that overlap and write one key the first commits
  (Berenson et al. 1995).
- `lagging`: one transaction after the other, but those that only read may see an old state, as from a replica that lags
  behind: there is an order, though not that of time.
- `serializable`: one transaction after the other, which is strict.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Any

import numpy as np

from grader.nodes.histories.history import NEVER
from grader.nodes.histories.transactions.transaction import Op, Status, Transaction, Workload

LEVELS = ("none", "uncommitted", "committed", "snapshot", "lagging", "serializable")
_DIRTY, _LOCKING, _SERIAL = ("none", "uncommitted"), ("uncommitted", "committed"), ("lagging", "serializable")
_NEVER_HAPPENED = 0.5  # share of those of unknown outcome
_LAG = 40  # commits by which an old state may lag behind
_READ_AT_ONCE = 8  # keys, by one of the last transactions


@dataclass(eq=False)
class _Running:
    """A transaction that has begun. `began` is its time, and that of each operation follows in `times`."""

    process: int
    plan: list[tuple[str, int]]  # ("append" or "r", key)
    fate: str  # ok, fail, happened, never
    snapshot: float  # it sees what fewer commits than these have made
    times: list[int]
    done: list[Op] = field(default_factory=list)
    own: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class Store:
    """A store and its clients, of which each runs one transaction of 1 to `most` operations at a time.

    `keys` are in use at a time, each until it has `longest` values. `failing` and `unknown` are the shares of
    transactions that abort for no reason, and whose outcome no client learns (half of them happened). `times` has, by a
    transaction's index, when it began, when it did each of its operations, and when it ended.
    """

    rng: np.random.Generator
    level: str
    keys: int
    longest: int
    clients: int = 8
    most: int = 8
    failing: float = 0.04
    unknown: float = 0.06
    workload: Workload = "list-append"
    reader: int = 0  # the process of the last transactions
    times: dict[int, list[int]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"no store is {self.level}; there are {', '.join(LEVELS)}")
        self._values: dict[int, list[int]] = defaultdict(list)  # of each key, in the order of its versions
        self._made: dict[int, list[int]] = defaultdict(list)  # by which commit, for each of them
        self._locks: dict[int, _Running] = {}
        self._history: list[Transaction] = []
        self._open = list(range(self.keys))
        self._used: dict[int, int] = defaultdict(int)
        self._last: dict[int, int] = defaultdict(int)  # value that anybody was to write
        self._commits, self._clock, self._names = 0, count(), count(self.clients)

    def run(self, transactions: int) -> list[Transaction]:
        """So many transactions, and a few more that read every key. In the order of their ends."""
        running = [self._begin(number) for number in range(min(self.clients, transactions))]
        begun = len(running)
        while running:
            able = [txn for txn in running if not self._waits(txn)]
            if not able:  # deadlock: one of them is rolled back
                ended = running[int(self.rng.integers(len(running)))]
                ended.fate = "fail"
            else:
                ended = able[0] if self.level in _SERIAL else able[int(self.rng.integers(len(able)))]
                if len(ended.done) < len(ended.plan):
                    self._step(ended)
                    continue
            self._end(ended)
            running.remove(ended)
            if begun < transactions:
                running.append(self._begin(ended.process))
                begun += 1
        keys = sorted(self._used)
        for at in range(0, len(keys), _READ_AT_ONCE):
            began = next(self._clock)
            ops = [Op("r", key, self._told(self._values[key])) for key in keys[at : at + _READ_AT_ONCE]]
            self._tell(self.reader, "ok", ops, [began, *(next(self._clock) for _ in ops)])
        return self._history

    def _begin(self, process: int) -> _Running:
        rng = self.rng
        plan = []
        for _ in range(int(rng.integers(1, self.most + 1))):
            key = self._open[int(rng.integers(len(self._open)))]
            plan.append(("append" if rng.random() < 0.4 else "r", key))
        draw = rng.random()
        fate = "fail" if draw < self.failing else "ok"
        if self.failing <= draw < self.failing + self.unknown:
            fate = "never" if rng.random() < _NEVER_HAPPENED else "happened"
        for f, key in plan:
            self._used[key] += f == "append"
            if f == "append" and self._used[key] == self.longest:
                self._open[self._open.index(key)] = max(max(self._open), *self._used) + 1
        snapshot = self._commits if self.level == "snapshot" else inf
        if self.level == "lagging" and all(f == "r" for f, _ in plan):
            snapshot = self._commits - int(rng.integers(_LAG))
        return _Running(process, plan, fate, snapshot, [next(self._clock)])

    def _waits(self, txn: _Running) -> bool:
        if self.level not in _LOCKING or len(txn.done) == len(txn.plan) or txn.fate == "never":
            return False
        f, key = txn.plan[len(txn.done)]
        return f == "append" and self._locks.get(key, txn) is not txn

    def _step(self, txn: _Running) -> None:
        f, key = txn.plan[len(txn.done)]
        txn.times.append(next(self._clock))
        if f == "r":
            seen: Sequence[int] = self._values[key]
            if self.level not in _DIRTY:
                seen = [*seen[: bisect_left(self._made[key], txn.snapshot)], *txn.own[key]]
            txn.done.append(Op("r", key, self._told(seen)))
            return
        txn.done.append(self._write(key))
        txn.own[key].append(self._last[key])
        if txn.fate != "never":
            if self.level in _LOCKING:
                self._locks[key] = txn
            if self.level in _DIRTY:
                self._values[key].append(self._last[key])

    def _write(self, key: int) -> Op:
        """A write of the key's next value."""
        self._last[key] += 1
        return Op("append" if self.workload == "list-append" else "w", key, self._last[key])

    def _told(self, values: Sequence[int]) -> Any:
        """What a read of a key with these versions returns."""
        return tuple(values) if self.workload == "list-append" else values[-1] if values else None

    def _end(self, txn: _Running) -> None:
        """Commit or roll back, and what its client is told."""
        keys = [key for key, values in txn.own.items() if values]
        late = self.level == "snapshot" and any(self._made[key] and self._made[key][-1] >= txn.snapshot for key in keys)
        if late and txn.fate != "never":
            txn.fate = "fail"
        if txn.fate in ("ok", "happened"):
            if self.level not in _DIRTY:
                for key in keys:
                    self._values[key] += txn.own[key]
                    self._made[key] += [self._commits] * len(txn.own[key])
            self._commits += 1
        elif self.level in _DIRTY and txn.fate == "fail":
            for key in keys:
                self._values[key] = [value for value in self._values[key] if value not in txn.own[key]]
        for key in [key for key, owner in self._locks.items() if owner is txn]:
            del self._locks[key]
        told: Status = "ok" if txn.fate == "ok" else "fail" if txn.fate == "fail" else "info"
        ops = [op if op.f != "r" or told == "ok" else Op("r", op.key, None) for op in txn.done]
        for f, key in txn.plan[len(txn.done) :]:  # which it never came to
            ops.append(self._write(key) if f == "append" else Op("r", key, None))
        self._tell(txn.process, told, ops, [*txn.times, next(self._clock)])
        if told == "info":  # the client goes on under a new name, as in Jepsen
            txn.process = next(self._names)

    def _tell(self, process: int, status: Status, ops: Sequence[Op], times: list[int]) -> None:
        index = len(self._history)
        self.times[index] = times
        returned = NEVER if status == "info" else times[-1]
        self._history.append(Transaction(index, process, status, tuple(ops), times[0], returned))


def plain(history: Sequence[Transaction]) -> list[dict[str, Any]]:
    """As dicts of what JSON has: index, process, type, and ops, each a list of f, key and value."""
    return [
        {
            "index": one.index,
            "process": one.process,
            "type": one.status,
            "ops": [[op.f, op.key, list(op.value) if isinstance(op.value, tuple) else op.value] for op in one.ops],
        }
        for one in history
    ]


def simulate(
    level: str, seed: int, transactions: int = 200, keys: int = 4, longest: int = 32, **more: Any
) -> list[Transaction]:
    """The history of a store; the same for the same arguments. `more` are those of Store."""
    return Store(
        np.random.default_rng(seed), level, keys, longest, **{"clients": 6, "most": 4, "reader": -1, **more}
    ).run(transactions)
