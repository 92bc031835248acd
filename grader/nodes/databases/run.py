"""`rankup history run`: from the words on the command line to what a database was seen to do."""

from __future__ import annotations

import contextlib
import random
import secrets
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from grader.nodes.databases import crossings, postgres, sqlite
from grader.nodes.databases.crossings import CROSSED, CROSSINGS, Crossing
from grader.nodes.databases.driver import Database
from grader.nodes.databases.stage import Played, Stage
from grader.nodes.histories.transactions import LEVELS, Anomaly, Transaction, find
from grader.nodes.workloads.transactions import LIST_APPEND, WRITES
from grader.submission import BadRequest

MOST_CLIENTS, MOST_TRANSACTIONS, MOST_KEYS = 50, 20_000, 100
URLS = "sqlite: (a temporary file), sqlite:///FILE or postgresql://USER@HOST/DATABASE"


@dataclass(frozen=True)
class Wanted:
    """What was asked for. `judged_as` is the level that the history is judged at, if not the one asked for."""

    database: str
    isolation: str
    workload: str = LIST_APPEND
    clients: int = 5
    transactions: int = 200
    keys: int = 5
    seed: int | None = None
    judged_as: str = ""


@dataclass(frozen=True)
class Crossed:
    """What came of a crossing: the anomalies that its own transactions show, how many waited, who was refused why."""

    crossing: Crossing
    kinds: tuple[str, ...]
    waited: int
    refused: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What a run has shown. `anomalies` are all that were found, `forbidden` those that the level forbids."""

    wanted: Wanted
    seed: int
    database: str
    said: str
    events: list[dict[str, Any]]
    transactions: list[Transaction]
    anomalies: tuple[Anomaly, ...]
    forbidden: tuple[Anomaly, ...]
    crossed: tuple[Crossed, ...]
    waited: int
    refusals: dict[str, int]

    @property
    def valid(self) -> bool:
        return not self.forbidden

    @property
    def level(self) -> str:
        return self.wanted.judged_as or self.wanted.isolation

    @property
    def ends(self) -> dict[str, int]:
        """How many transactions ended in each way."""
        count = Counter(one.status for one in self.transactions)
        return {status: count[status] for status in ("ok", "fail", "info")}

    def to_json(self) -> dict[str, Any]:
        """Everything but the events."""
        return {
            "valid": self.valid,
            "database": self.database,
            "said": self.said,
            "isolation": self.wanted.isolation,
            "judged_as": self.level,
            "workload": self.wanted.workload,
            "seed": self.seed,
            "transactions": self.ends,
            "waited": self.waited,
            "refusals": self.refusals,
            "forbidden": [_told(one) for one in self.forbidden],
            "allowed": [_told(one) for one in self.anomalies if one not in self.forbidden],
            "crossings": {
                each.crossing.name: {
                    "looks_for": each.crossing.kind,
                    "found": list(each.kinds),
                    "waited": each.waited,
                    "refused": list(each.refused),
                }
                for each in self.crossed
            },
        }


def _told(one: Anomaly) -> dict[str, Any]:
    return {"kind": one.kind, "transactions": list(one.indices)}


def play(wanted: Wanted) -> Result:
    """Drive the clients, and judge what they saw.

    The table is removed, whatever happens. Raises BadRequest for a request that makes no sense, and for a database
    that cannot be reached or used.
    """
    connect = _checked(wanted)
    seed = random.SystemRandom().randrange(2**31) if wanted.seed is None else wanted.seed
    write = WRITES[wanted.workload]
    plan = crossings.plan(write, wanted.transactions, wanted.clients, wanted.keys, seed)
    database = connect()
    try:
        database.create(plan.keys)
        stage = Stage(database, wanted.clients, write)
        try:
            for scene in plan.scenes:
                stage.play(scene)
        finally:
            with _signals_wait():
                stage.close()
    finally:
        with _signals_wait():
            database.close()
    return _judged(wanted, seed, database, stage)


def _judged(wanted: Wanted, seed: int, database: Database, stage: Stage) -> Result:
    level = LEVELS[wanted.judged_as or wanted.isolation]
    kind = wanted.workload.removeprefix("txn-")
    transactions = [one.transaction for one in stage.played]
    found = find(transactions, kind, level.real_time, level.sessions, unread=True)
    return Result(
        wanted,
        seed,
        database.name,
        database.said,
        stage.events,
        transactions,
        tuple(found),
        tuple(one for one in found if one.kind in level.forbids),
        tuple(_crossed(each, stage.played, kind) for each in CROSSINGS),
        sum(one.waited for one in stage.played),
        dict(Counter(one.why for one in stage.played if one.why).most_common()),
    )


def _crossed(crossing: Crossing, played: Sequence[Played], kind: str) -> Crossed:
    own = [one for one in played if one.crossing == crossing.name]
    found = find([one.transaction for one in own], kind)
    refused = tuple(one.why for one in own if one.transaction.status == "fail" and not _by_plan(one))
    return Crossed(crossing, tuple(one.kind for one in found), sum(one.waited for one in own), refused)


def _by_plan(one: Played) -> bool:
    from grader.nodes.databases.stage import ABORTED

    return one.why == ABORTED


def _checked(wanted: Wanted) -> Callable[[], Database]:
    """What makes the database's end of the run. Raises BadRequest for a request that makes no sense."""
    if wanted.workload not in WRITES:
        raise BadRequest(f"no workload is called {wanted.workload!r}; choose from {', '.join(WRITES)}")
    for name in (wanted.isolation, wanted.judged_as or wanted.isolation):
        if name not in LEVELS:
            raise BadRequest(f"no isolation level is called {name!r}; choose from {', '.join(LEVELS)}")
    for option, value, least, most in (
        ("--clients", wanted.clients, crossings.CLIENTS, MOST_CLIENTS),
        ("--transactions", wanted.transactions, CROSSED, MOST_TRANSACTIONS),
        ("--keys", wanted.keys, 1, MOST_KEYS),
    ):
        if not least <= value <= most:
            raise BadRequest(f"{option} must be from {least} to {most:,}, not {value:,}")
    lists, table = wanted.workload == LIST_APPEND, f"rankup_{secrets.token_hex(6)}"
    scheme = wanted.database.partition(":")[0]
    if scheme in ("postgresql", "postgres", "postgresql+psycopg2"):
        _has(wanted.isolation, "PostgreSQL", postgres.SAID)
        return lambda: postgres.PostgreSQL(wanted.database, wanted.isolation, table, lists)
    if scheme == "sqlite":
        _has(wanted.isolation, "SQLite", sqlite.SAID)
        path = _file(wanted.database)
        return lambda: sqlite.SQLite(path, wanted.isolation, table, lists)
    raise BadRequest(f"--database is {postgres.shown(wanted.database)!r}; give {URLS}")


def _has(isolation: str, name: str, said: dict[str, str]) -> None:
    if isolation not in said:
        raise BadRequest(f"{name} has no level {isolation}; choose from {', '.join(said)}")


def _file(url: str) -> Path | None:
    """The file of sqlite:///FILE; None for a temporary one."""
    parts = urlsplit(url)
    if parts.netloc or parts.query or parts.path == "/":
        raise BadRequest(f"--database is {url!r}; give {URLS}")
    path = Path(unquote(parts.path.removeprefix("/"))) if parts.path else None
    if path is not None and not path.parent.is_dir():
        raise BadRequest(f"{path}: no such folder: {path.parent}")
    return path


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Hold back Ctrl-C and SIGTERM until the block is done: it takes seconds at most."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda got, _frame: came.append(got))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for got in came:
        signal.raise_signal(got)
