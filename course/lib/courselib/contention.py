"""A contended workload on a store of `isolation`, in virtual time: what commits, what is refused, what waits.

Clients run one transaction after the other: each reads some keys of a hot set, and writes some of them. An operation
takes OP seconds, a commit COMMIT. A transaction that is refused is tried again after a random wait.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from courselib.isolation import Conflict, Store, Tx, Wait

OP, COMMIT, BACKOFF = 0.001, 0.001, 0.002  # seconds


@dataclass(frozen=True)
class Ran:
    """What came of a run: transactions, and `history` in the words of a list-append history if appends were asked for.

    `lost` are increments of committed transactions that are not in the counters; `versions` the most that one key had.
    """

    seconds: float
    commits: int
    aborts: int
    waited: float
    reports: int
    lost: int
    versions: int
    history: list[dict[str, Any]] = field(repr=False)

    @property
    def rate(self) -> float:
        """Commits a second, without reports."""
        return self.commits / self.seconds

    @property
    def wasted(self) -> float:
        """Attempts that were refused, for each commit."""
        return self.aborts / max(1, self.commits)


@dataclass
class _Client:
    number: int
    report: bool
    ops: list[str] = field(default_factory=list)
    at: int = 0
    tx: Tx | None = None
    age: int = 0
    tries: int = 0
    since: float = 0.0
    done: list[list[Any]] = field(default_factory=list)


class _Run:
    def __init__(self, level: str, keys: int, reads: int, writes: int, append: bool, lock: bool, seed: int) -> None:
        initial = {} if append else {f"k{key}": 0 for key in range(keys)}
        self.store = Store(level, initial, keep=False)
        self.random, self.append, self.lock = random.Random(seed), append, lock
        self.keys, self.reads, self.writes = keys, min(reads, keys), min(writes, reads, keys)
        self.queue: list[tuple[float, int, _Client]] = []
        self.parked: list[_Client] = []
        self.commits = self.aborts = self.reported = self.numbers = self.added = self.versions = 0
        self.waited, self.elements = 0.0, 0
        self.history: list[dict[str, Any]] = []

    def push(self, at: float, client: _Client) -> None:
        self.numbers += 1
        heapq.heappush(self.queue, (at, self.numbers, client))

    def plan(self, client: _Client) -> Iterator[str]:
        if client.report:
            yield from (f"r k{key}" for key in range(self.keys))
        else:
            chosen = self.random.sample(range(self.keys), self.reads)
            for at, key in enumerate(chosen):
                yield f"{'u' if self.lock and at < self.writes else 'r'} k{key}"
            for key in chosen[: self.writes]:
                self.elements += 1
                yield f"a k{key} {self.elements}" if self.append else f"w k{key} +1"
        yield "commit"

    def step(self, client: _Client, now: float) -> None:
        if client.tx is not None and not client.tx.alive:  # somebody wounded it
            self.again(client, now)
            return
        if client.tx is None:
            if not client.ops:
                client.ops = list(self.plan(client))
                self.numbers += 1
                client.age = self.numbers
            client.tx = self.store.begin(client.number, client.age, client.report)
            client.at, client.done = 0, []
        what = client.ops[client.at]
        try:
            value = self.store.do(client.tx, what)
        except Wait as wait:
            client.tx.state, client.tx.waits = "waiting", wait.on
            if self.store.deadlock(client.tx):
                self.store.refuse(client.tx, "a deadlock")
                self.again(client, now)
                self.wake(now)
            elif client not in self.parked:
                client.since = now
                self.parked.append(client)
            return
        except Conflict as conflict:
            self.store.refuse(client.tx, str(conflict))
            self.again(client, now)
            self.wake(now)
            return
        if client.tx.state == "waiting":
            client.tx.state, client.tx.waits = "active", set()
            self.waited += now - client.since
        client.at += 1
        self.note(client, what, value)
        if what == "commit":
            self.committed(client, now)
        else:
            self.push(now + (COMMIT if client.ops[client.at] == "commit" else OP), client)

    def note(self, client: _Client, what: str, value: Any) -> None:
        kind, *rest = what.split()
        if self.append and kind in "ru":
            client.done.append(["r", rest[0], list(value or ())])
        elif self.append and kind == "a":
            client.done.append(["append", rest[0], int(rest[1])])

    def committed(self, client: _Client, now: float) -> None:
        assert client.tx is not None
        self.added += len(client.tx.wrote)
        self.versions = max([self.versions, *(len(self.store.versions[key]) for key in client.tx.wrote)])
        self.commits, self.reported = self.commits + (not client.report), self.reported + client.report
        self.tell(client, "ok")
        client.tx, client.ops, client.tries = None, [], 0
        self.push(now + OP, client)
        self.wake(now)

    def again(self, client: _Client, now: float) -> None:
        self.aborts += 1
        self.tell(client, "fail")
        if client in self.parked:
            self.parked.remove(client)
        client.tx, client.tries = None, client.tries + 1
        if self.append:  # a value is appended once: another attempt appends another one
            client.ops = []
        self.push(now + self.random.uniform(0, BACKOFF) * min(client.tries, 8), client)

    def tell(self, client: _Client, status: str) -> None:
        if self.append:
            self.history.append(
                {"index": len(self.history), "process": client.number, "type": status, "ops": client.done}
            )

    def wake(self, now: float) -> None:
        for client in list(self.parked):
            if client in self.parked and (client.tx is None or not client.tx.alive or not _blocked(client.tx)):
                self.parked.remove(client)
                if client.tx is not None and client.tx.alive:
                    self.push(now, client)
                else:
                    self.again(client, now)


def _blocked(tx: Tx) -> bool:
    return any(each.alive for each in tx.waits)


def contended(
    level: str, keys: int, clients: int = 16, seconds: float = 2.0, *, reads: int = 4, writes: int = 2,
    reports: int = 0, append: bool = False, lock: bool = False, seed: int = 1,
) -> Ran:  # fmt: skip
    """`clients` that each touch `reads` of so many keys and write `writes` of them, and `reports` clients that read all
    keys. `seconds` are virtual. With `append`, values are lists, and reads and appends are recorded. With
    `lock`, what will be written is read with a lock (SELECT FOR UPDATE)."""
    run = _Run(level, keys, reads, writes, append, lock, seed)
    for number in range(clients + reports):
        run.push(run.random.uniform(0, OP), _Client(number, number >= clients))
    while run.queue:
        now, _, client = heapq.heappop(run.queue)
        if now > seconds:
            break
        run.step(client, now)
    lost = 0 if append else max(0, run.added - _final(run.store))
    return Ran(seconds, run.commits, run.aborts, run.waited, run.reported, lost, run.versions, run.history)


def _final(store: Store) -> int:
    return sum(next((v.value for v in reversed(each) if v.by.end is not None), 0) for each in store.versions.values())
