"""Small stores of lists at five levels of isolation, whose clients run transactions at once; what happened is a history.

Each store keeps the lists in one process and runs its transactions operation by operation, in an order that is drawn:

- `serializable`: one transaction after the other.
- `snapshot`: reads see the state at the transaction's begin; of two that overlap and append to one key the first commits
  (Berenson et al. 1995).
- `committed`: a read sees what is committed at that moment; an append locks its key until the transaction ends.
- `uncommitted`: reads see everything, also what is rolled back later; an append locks its key.
- `none`: reads see everything, and nothing is locked.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Rng = np.random.Generator
LEVELS = ("serializable", "snapshot", "committed", "uncommitted", "none")
IN_WORDS = {
    "serializable": "a serializable store",
    "snapshot": "a store with snapshot isolation",
    "committed": "a store with read committed",
    "uncommitted": "a store with read uncommitted",
    "none": "a store without any isolation",
}
CLIENTS = 8
MOST_OPS = 8
FAILING, UNKNOWN = 0.04, 0.06  # shares of transactions
NEVER = 0.5  # share of those of unknown outcome that never happened
READERS = 8  # keys that one of the last transactions reads


@dataclass
class _Running:
    """A transaction that has begun."""

    process: int
    plan: list[tuple[str, int]]  # ("append" or "r", key)
    fate: str  # ok, fail, happened, never
    began: int = 0  # commits before it
    done: list[list[Any]] = field(default_factory=list)
    own: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    saw: dict[int, int] = field(default_factory=dict)  # lengths of lists, as of its snapshot


@dataclass
class Store:
    """A store of lists and its clients. `keys` are in use at a time, each until it has `longest` values."""

    rng: Rng
    level: str
    keys: int
    longest: int
    lists: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    locks: dict[int, _Running] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.open_keys = list(range(self.keys))
        self.used: dict[int, int] = defaultdict(int)
        self.values: dict[int, int] = defaultdict(int)
        self.overwritten: dict[int, int] = {}  # snapshot: the commit that last appended to a key
        self.commits = 0
        self.processes = CLIENTS

    def run(self, transactions: int) -> list[dict[str, Any]]:
        """So many transactions, and a few more that read every key. In the order of their ends."""
        running: list[_Running] = [self._begin(number) for number in range(CLIENTS)]
        begun = CLIENTS
        while running:
            able = [txn for txn in running if not self._waits(txn)]
            if not able:  # deadlock: one of them is rolled back
                victim = running[int(self.rng.integers(len(running)))]
                victim.fate = "fail"
                self._end(victim)
                ended = victim
            else:
                ended = able[0] if self.level == "serializable" else able[int(self.rng.integers(len(able)))]
                if len(ended.done) < len(ended.plan):
                    self._step(ended)
                    continue
                self._end(ended)
            running.remove(ended)
            if begun < transactions:
                running.append(self._begin(ended.process))
                begun += 1
        self._read_all()
        return self.history

    def _begin(self, process: int) -> _Running:
        rng = self.rng
        size = int(rng.integers(1, MOST_OPS + 1))
        plan = []
        for _ in range(size):
            key = self.open_keys[int(rng.integers(len(self.open_keys)))]
            plan.append(("append" if rng.random() < 0.4 else "r", key))
        draw = rng.random()
        fate = "fail" if draw < FAILING else "ok"
        if FAILING <= draw < FAILING + UNKNOWN:
            fate = "never" if rng.random() < NEVER else "happened"
        for f, key in plan:
            if f == "append":
                self.used[key] += 1
                if self.used[key] == self.longest:
                    self.open_keys[self.open_keys.index(key)] = max(max(self.open_keys), *self.used) + 1
        txn = _Running(process, plan, fate, self.commits)
        if self.level == "snapshot":
            txn.saw = {key: len(self.lists[key]) for _, key in plan}
        return txn

    def _waits(self, txn: _Running) -> bool:
        if self.level not in ("committed", "uncommitted") or len(txn.done) == len(txn.plan) or txn.fate == "never":
            return False
        f, key = txn.plan[len(txn.done)]
        return f == "append" and self.locks.get(key, txn) is not txn

    def _step(self, txn: _Running) -> None:
        f, key = txn.plan[len(txn.done)]
        if f == "append":
            self.values[key] += 1
            value = self.values[key]
            txn.own[key].append(value)
            txn.done.append(["append", key, value])
            if txn.fate != "never":
                if self.level in ("committed", "uncommitted"):
                    self.locks[key] = txn
                if self.level in ("uncommitted", "none"):
                    self.lists[key].append(value)
            return
        seen = self.lists[key] if self.level in ("uncommitted", "none") else [*self._committed(txn, key), *txn.own[key]]
        txn.done.append(["r", key, list(seen)])

    def _committed(self, txn: _Running, key: int) -> list[int]:
        return self.lists[key][: txn.saw[key]] if self.level == "snapshot" else self.lists[key]

    def _end(self, txn: _Running) -> None:
        """Commit or roll back, and what its client is told."""
        keys = [key for key, values in txn.own.items() if values]
        late = self.level == "snapshot" and any(self.overwritten.get(key, -1) >= txn.began for key in keys)
        if late and txn.fate != "never":
            txn.fate = "fail"
        if txn.fate in ("ok", "happened"):
            if self.level not in ("uncommitted", "none"):
                for key in keys:
                    self.lists[key] += txn.own[key]
                    self.overwritten[key] = self.commits
            self.commits += 1
        elif self.level in ("uncommitted", "none") and txn.fate == "fail":
            for key in keys:
                self.lists[key] = [value for value in self.lists[key] if value not in txn.own[key]]
        for key in [key for key, owner in self.locks.items() if owner is txn]:
            del self.locks[key]
        told = {"ok": "ok", "fail": "fail"}.get(txn.fate, "info")
        ops = [op if op[0] == "append" or told == "ok" else ["r", op[1], None] for op in txn.done]
        for f, key in txn.plan[len(txn.done) :]:  # which it never came to
            if f == "append":
                self.values[key] += 1
            ops.append([f, key, self.values[key] if f == "append" else None])
        self.history.append({"index": len(self.history), "process": txn.process, "type": told, "ops": ops})
        if told == "info":  # the client goes on under a new name, as in Jepsen
            txn.process = self.processes
            self.processes += 1

    def _read_all(self) -> None:
        keys = sorted({key for txn in self.history for _, key, _ in txn["ops"]})
        for at in range(0, len(keys), READERS):
            ops = [["r", key, list(self.lists[key])] for key in keys[at : at + READERS]]
            self.history.append({"index": len(self.history), "process": 0, "type": "ok", "ops": ops})
