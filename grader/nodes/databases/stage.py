"""Scenes played: one statement at a time is sent, and the next one when all clients are done with theirs, or wait.

So the order of statements comes from the plan alone, and with the same seed a database shows the same. Whether a client
waits for a lock, the database is asked; no time decides it (PostgreSQL's own tests of isolation work like this).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.nodes.databases.clients import Client, Done
from grader.nodes.databases.crossings import Planned, Scene
from grader.nodes.databases.driver import Database, Lost, Refused, Session
from grader.nodes.histories.transactions import Op, Transaction

SOON, LATER = 0.0005, 0.01  # seconds between two looks at who waits
ABORTED = "rolled back by its client"


@dataclass
class Running:
    """A transaction on its way."""

    index: int
    client: Client
    planned: Planned
    process: int
    called: int
    place: int = 0  # the next step
    read: list[Any] = field(default_factory=list)  # by operation: what it read, or what it wrote
    waited: bool = False
    status: str = ""  # "ok", "fail" or "info" once it is over
    returned: float = float("inf")
    why: str = ""  # what the database said where it was refused

    @property
    def busy(self) -> bool:
        return self.client.done is None


@dataclass(frozen=True)
class Played:
    """What became of a transaction of a scene."""

    transaction: Transaction
    crossing: str
    waited: bool
    why: str


class Stage:
    """A number of clients of one database, and the history of all that they did."""

    def __init__(self, database: Database, clients: int, write: str) -> None:
        self._database, self._write = database, write
        self._changed = threading.Condition()
        self._began = time.monotonic_ns()
        self._turn = 0
        self.events: list[dict[str, Any]] = []
        self.played: list[Played] = []
        self.clients: list[Client] = []
        try:
            for number in range(clients):
                self.clients.append(Client(database, number, self._ended))
        except BaseException:
            self.close()
            raise

    def play(self, scene: Scene) -> None:
        """Run a scene to its end. Raises BadRequest where the database cannot be used any more."""
        running = [self._open(len(self.played) + at, planned) for at, planned in enumerate(scene.planned)]
        for place in scene.order:
            self._step(running, place)
        while any(not one.status for one in running):
            for place in range(len(running)):
                self._step(running, place)
        for one in running:
            self.played.append(Played(self._transaction(one), scene.crossing, one.waited, one.why))

    def close(self) -> None:
        """End all clients; those that wait in a statement, too."""
        for client in self.clients:
            client.stop()
        for client in self.clients:
            client.finish()

    def _open(self, index: int, planned: Planned) -> Running:
        client = self.clients[self._turn % len(self.clients)]
        self._turn += 1
        client.done = Done()
        return Running(index, client, planned, client.process, -1)

    def _step(self, running: Sequence[Running], place: int) -> None:
        """Let a transaction take its next step, unless it waits or is over; then wait for all."""
        one = running[place]
        if one.status or one.busy:
            return
        if one.called < 0:
            one.called = self._note(one, "invoke", list(map(list, one.planned.ops)))
        one.client.ask(_statement(one))
        self._quiet(running)

    def _quiet(self, running: Sequence[Running]) -> None:
        """Wait until every client is done with its step, or waits for one that has none."""
        pause = SOON
        asked = {id(one) for one in running if one.busy}
        while True:
            for one in running:
                if id(one) in asked and not one.busy:
                    asked.discard(id(one))
                    self._take_in(one)
            if not asked:
                return
            busy = [one for one in running if id(one) in asked]
            with self._changed:
                if all(one.busy for one in busy):
                    self._changed.wait(pause)
            if not all(one.busy for one in busy):
                continue
            pause = min(2 * pause, LATER)
            stuck = self._stuck(busy, running)
            for one in stuck:
                one.waited = True
            if len(stuck) == len(busy):
                return

    def _stuck(self, busy: Sequence[Running], running: Sequence[Running]) -> list[Running]:
        """Those that wait for a transaction of ours which does nothing now; not those that wait for each other only,
        which is a deadlock and for the database to end."""
        pids = {pid: one for one in busy if (pid := one.client.pid) is not None}
        ours = {one.client.pid for one in running if not one.status}
        waits = self._database.waits(pids)
        return [one for pid, one in pids.items() if set(_reached(pid, waits)) & (ours - pids.keys())]

    def _take_in(self, one: Running) -> None:
        """A step has ended."""
        done = one.client.done
        assert done is not None
        ops = one.planned.ops
        last = one.place == len(ops)
        if done.error is None and not last:
            one.read.append(done.value if ops[one.place][0] == "r" else ops[one.place][2])
            one.place += 1
        elif done.error is None and not one.planned.aborts:
            self._end(one, "ok", "")
        elif done.error is None:
            self._end(one, "fail", ABORTED)
        elif isinstance(done.error, Refused):
            self._end(one, "fail", str(done.error))
        elif isinstance(done.error, Lost):
            unknown = last and not one.planned.aborts
            self._end(one, "info" if unknown else "fail", f"connection lost: {done.error}")
        else:
            raise done.error

    def _end(self, one: Running, status: str, why: str) -> None:
        one.status, one.why = status, why
        values = [[f, key, _plain(value)] for (f, key, _), value in zip(one.planned.ops, one.read, strict=False)]
        place = self._note(one, status, values if status == "ok" else list(map(list, one.planned.ops)))
        if status == "info":
            one.client.process += len(self.clients)  # nobody knows, so nobody waits: a new process takes its place
        else:
            one.returned = place

    def _note(self, one: Running, type_: str, value: Any) -> int:
        """Add an event; its place among all."""
        event = {"process": one.process, "type": type_, "f": "txn", "value": value}
        event["time"] = time.monotonic_ns() - self._began
        if one.why:
            event["error"] = one.why
        self.events.append(event)
        return len(self.events) - 1

    def _transaction(self, one: Running) -> Transaction:
        values = one.read if one.status == "ok" else [value for _, _, value in one.planned.ops]
        ops = tuple(Op(f, key, value) for (f, key, _), value in zip(one.planned.ops, values, strict=True))  # type: ignore[arg-type]
        return Transaction(one.index, one.process, one.status, ops, one.called, one.returned)  # type: ignore[arg-type]

    def _ended(self) -> None:
        with self._changed:
            self._changed.notify()


def _statement(one: Running) -> Any:
    """The next step of a transaction, to be run in its client's thread."""
    planned, place = one.planned, one.place

    def step(session: Session) -> Any:
        if place == 0:
            session.begin()
        if place == len(planned.ops):
            return session.rollback() if planned.aborts else session.commit()
        f, key, value = planned.ops[place]
        if f == "r":
            return session.read(key)
        assert value is not None
        return session.write(key, value)

    return step


def _reached(pid: int, waits: Mapping[int, frozenset[int]]) -> Collection[int]:
    """All that a session waits for, and what they wait for."""
    return set(_walk(pid, waits, set()))


def _walk(pid: int, waits: Mapping[int, frozenset[int]], seen: set[int]) -> Iterator[int]:
    for each in waits.get(pid, frozenset()) - seen:
        seen.add(each)
        yield each
        yield from _walk(each, waits, seen)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
