"""`rankup history run` on SQLite, and the stage itself on a database that misbehaves as it is told to."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from stopped import status_after

from grader import cli
from grader.nodes.databases import crossings, page, postgres, report, run
from grader.nodes.databases.crossings import CROSSED, CROSSINGS, Planned, Scene
from grader.nodes.databases.driver import Lost, Refused, Value
from grader.nodes.databases.run import Result, Wanted
from grader.nodes.databases.stage import Stage
from grader.nodes.histories.history import NEVER
from grader.nodes.histories.transactions import reading
from grader.submission import BadRequest

WORKLOADS = ("txn-list-append", "txn-rw-register")


def played(database: str = "sqlite:", isolation: str = "serializable", **more: Any) -> Result:
    return run.play(Wanted(database, isolation, **{"transactions": 60, "seed": 1, **more}))


def found(result: Result) -> dict[str, tuple[str, ...]]:
    return {each.crossing.name: each.kinds for each in result.crossed}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_sqlite_is_serializable(workload: str) -> None:
    for isolation in ("serializable", "strict-serializable"):
        result = played(isolation=isolation, workload=workload)
        assert result.valid
        assert result.anomalies == ()
        assert set(found(result).values()) == {()}
        assert result.ends["ok"] > 20
        assert result.refusals["database is locked"] > 4
        assert result.refusals["rolled back by its client"] == 1


@pytest.mark.parametrize("workload", WORKLOADS)
def test_what_one_transaction_has_not_committed_others_see_at_read_uncommitted(workload: str) -> None:
    result = played(isolation="read-uncommitted", workload=workload)
    assert result.valid, "read uncommitted forbids none of that"
    assert found(result)["aborted read"] == ("G1a",)
    assert "G1b" in found(result)["intermediate read"]
    assert "G-single" in found(result)["read skew"]
    judged = played(isolation="read-uncommitted", workload=workload, judged_as="read-committed")
    assert not judged.valid
    assert {one.kind for one in judged.forbidden} >= {"G1a", "G1b"}
    assert judged.kept == ["read-uncommitted"]


def test_the_same_seed_makes_the_same_history() -> None:
    def told(seed: int) -> list[Any]:
        return [{**event, "time": 0} for event in played(seed=seed).events]

    assert told(3) == told(3)
    assert told(3) != told(4)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_history_reads_back_as_it_was(workload: str) -> None:
    result = played(isolation="read-uncommitted", workload=workload)
    text = "".join(json.dumps(event) + "\n" for event in result.events)
    again = reading.parse(text, workload.removeprefix("txn-"))
    assert sorted(again, key=lambda one: one.index) == sorted(result.transactions, key=lambda one: one.index)
    assert len(result.transactions) >= 60


def test_a_file_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "of mine.db"
    with sqlite3.connect(path) as mine:
        mine.execute("CREATE TABLE t (a)")
        mine.execute("INSERT INTO t VALUES (7)")
    mine.close()
    assert played(f"sqlite:///{path}").valid
    mine = sqlite3.connect(path)
    assert mine.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]
    assert mine.execute("SELECT a FROM t").fetchall() == [(7,)]
    mine.close()
    new = tmp_path / "new.db"
    assert played(f"sqlite:///{new}").valid
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_in_use_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "busy.db"
    mine = sqlite3.connect(path, isolation_level=None)
    mine.execute("CREATE TABLE t (a)")
    mine.execute("BEGIN EXCLUSIVE")
    with pytest.raises(BadRequest, match=r"busy\.db: .*locked"):
        played(f"sqlite:///{path}")
    mine.close()


def test_every_crossing_is_played_whatever_is_asked_for() -> None:
    plan = crossings.plan("append", CROSSED, crossings.CLIENTS, 1, 0)
    assert [scene.crossing for scene in plan.scenes] == [each.name for each in CROSSINGS for _ in range(2)]
    assert sum(len(scene.planned) for scene in plan.scenes) == CROSSED
    plan = crossings.plan("append", 200, 7, 4, 0)
    drawn = [scene for scene in plan.scenes if not scene.crossing]
    ops = [op for scene in plan.scenes for each in scene.planned for op in each.ops]
    assert {key for _, key, _ in ops} == set(plan.keys)
    written = [(key, value) for f, key, value in ops if f == "append"]
    assert len(set(written)) == len(written)
    assert max(len(scene.planned) for scene in drawn) == 7
    read = {key for _, key, _ in drawn[-1].planned[0].ops}
    assert {f for f, _, _ in drawn[-1].planned[0].ops} == {"r"}
    assert read
    assert sum(len(scene.planned) for scene in plan.scenes if scene.order) + len(CROSSINGS) == 200


# ---- a database as bad as it is told to be


class Fake:
    """Lists in memory, one after the other. `says` are what statements raise, by ("commit", number of the commit)."""

    name, said, table = "Fake 1", "NOTHING", "t"

    def __init__(self, says: Mapping[tuple[str, int], BaseException] | None = None, away: int = 0) -> None:
        self.says, self.away = dict(says or {}), away
        self.state: dict[str, tuple[int, ...]] = {}
        self.counts: dict[str, int] = {}
        self.connected = 0

    def create(self, keys: Iterable[str]) -> None: ...

    def connect(self) -> FakeSession:
        self.connected += 1
        if self.connected > 3 and self.away:
            self.away -= 1
            raise BadRequest("away")
        return FakeSession(self, self.connected)

    def waits(self, pids: Collection[int]) -> Mapping[int, frozenset[int]]:
        return {pid: frozenset() for pid in pids}

    def close(self) -> None: ...


class FakeSession:
    def __init__(self, fake: Fake, pid: int) -> None:
        self.fake, self.pid = fake, pid

    def _did(self, what: str) -> None:
        number = self.fake.counts[what] = self.fake.counts.get(what, 0) + 1
        if (what, number) in self.fake.says:
            raise self.fake.says[what, number]

    def begin(self) -> None:
        self._did("begin")

    def read(self, key: str) -> Value:
        self._did("read")
        return self.fake.state.get(key, ())

    def write(self, key: str, value: int) -> None:
        self._did("write")
        self.fake.state[key] = (*self.fake.state.get(key, ()), value)

    def commit(self) -> None:
        self._did("commit")

    def rollback(self) -> None:
        self._did("rollback")

    def cancel(self) -> None: ...

    def close(self) -> None: ...


ONE = Scene((Planned((("append", "x", 1), ("r", "x", None))),))


def staged(fake: Fake, *scenes: Scene) -> Stage:
    stage = Stage(fake, 3, "append")
    try:
        for scene in scenes:
            stage.play(scene)
    finally:
        stage.close()
    assert not any(client.is_alive() for client in stage.clients)
    return stage


@pytest.mark.parametrize(
    ("says", "status", "why"),
    [
        ({}, "ok", ""),
        ({("write", 1): Refused("deadlock")}, "fail", "deadlock"),
        ({("commit", 1): Refused("serialization failure")}, "fail", "serialization failure"),
        ({("read", 1): Lost("gone")}, "fail", "connection lost: gone"),
        ({("commit", 1): Lost("gone")}, "info", "connection lost: gone"),
        ({("write", 1): Refused("deadlock"), ("rollback", 1): Lost("gone")}, "fail", "deadlock"),
    ],
)
def test_how_a_transaction_ends(says: dict[tuple[str, int], BaseException], status: str, why: str) -> None:
    stage = staged(Fake(says), ONE, ONE, ONE, ONE)
    first, *others = [one.transaction for one in stage.played]
    assert (first.status, stage.played[0].why) == (status, why)
    assert {one.status for one in others} == {"ok"}, "a lost connection is made again"
    assert first.returned == (NEVER if status == "info" else 1)
    assert others[-1].process == (3 if status == "info" else 0), "nobody knows, so a new process takes its place"
    assert stage.events[1].get("error", "") == why
    assert first.ops[1].value == ((1,) if status == "ok" else None)


def test_a_rollback_of_its_own_is_a_transaction_that_failed() -> None:
    lost = {("rollback", 1): Lost("gone")}
    for says in ({}, lost):
        stage = staged(Fake(says), Scene((Planned((("append", "x", 1),), aborts=True),)), ONE)
        assert [one.transaction.status for one in stage.played] == ["fail", "ok"]


def test_a_connection_that_was_lost_is_made_again() -> None:
    fake = Fake({("commit", 1): Lost("gone")}, away=3)
    assert [one.transaction.status for one in staged(fake, *[ONE] * 5).played] == ["info", "ok", "ok", "ok", "ok"]
    assert fake.away == 0


def test_what_no_run_can_go_on_with_ends_it() -> None:
    with pytest.raises(BadRequest, match="disk full"):
        staged(Fake({("write", 1): BadRequest("disk full")}), ONE)


# ---- the command


def rankup(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from grader.cli import main; main()", "history", "run", *words]
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", **more}
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)


BAD_REQUESTS = {
    "no such level": (["--isolation=acid"], "no isolation level is called 'acid'; choose from read-uncommitted"),
    "no such level to judge": (["--judged-as=acid"], "no isolation level is called 'acid'"),
    "a level that SQLite does not have": (["--isolation=repeatable-read"], "SQLite has no level repeatable-read"),
    "a level that PostgreSQL does not have": (
        ["--database=postgresql:///x", "--isolation=strong-snapshot-isolation"],
        "PostgreSQL has no level strong-snapshot-isolation; choose from read-uncommitted, read-committed",
    ),
    "no such workload": (["--workload=kafka"], "no workload is called 'kafka'; choose from txn-list-append"),
    "no such database": (["--database=mysql://u:secret@h/d"], "--database is 'mysql://u@h/d'; give sqlite: (a temp"),
    "nothing": (["--database="], "--database is ''; give sqlite:"),
    "a host for SQLite": (["--database=sqlite://a.db"], "--database is 'sqlite://a.db'; give sqlite:"),
    "no folder": (["--database=sqlite:///no/such/a.db"], "no such folder: no/such"),
    "no database": (["--database=sqlite:///text.txt"], "text.txt: SQLite says: file is not a database"),
    "nobody there": (
        ["--database=postgresql://u:secret@127.0.0.1:1/d"],
        "postgresql://u@127.0.0.1:1/d cannot be reached: connection to server at",
    ),
    "two @": (["--database=postgresql://u:a@b@h/d"], "more than one @; write %40"),
    "few clients": (["--clients=2"], "--clients must be from 3 to 50, not 2"),
    "few transactions": (["--transactions=3"], f"--transactions must be from {CROSSED} to 20,000, not 3"),
    "no keys": (["--keys=0"], "--keys must be from 1 to 100, not 0"),
    "a page nowhere": (["--html=no/such/a.html"], "no such folder"),
}


@pytest.mark.parametrize(("words", "sentence"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_a_bad_request_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("This is no database, but it is long enough to be one." * 20)
    if "postgresql://u:secret" in words[0]:
        pytest.importorskip("psycopg2", reason="psycopg2 is not installed: pip install psycopg2-binary")
    with pytest.raises(BadRequest) as refused:
        cli.app(["history", "run", *words], standalone_mode=False)
    assert sentence in str(refused.value)
    assert "secret" not in str(refused.value)
    assert str(refused.value).isprintable()
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_without_the_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(BadRequest, match=r"psycopg2.* is not installed: pip install 'rankup\[postgres\]'"):
        played("postgresql://u@h/d")


def test_passwords_are_never_shown() -> None:
    shown = postgres.shown("postgresql://u:secret@h:5/d?sslmode=off&password=hidden&x=1")
    assert shown == "postgresql://u@h:5/d?sslmode=off&password=...&x=1"


def test_the_command_prints_writes_and_ends_with_a_status(tmp_path: Path) -> None:
    html, history = tmp_path / "a.html", tmp_path / "a.jsonl"
    words = ("--isolation=read-uncommitted", "--judged-as=serializable", "--seed=1", "--transactions=60")
    done = rankup(*words, f"--html={html}", f"--history={history}")
    assert (done.returncode, done.stderr) == (1, "")
    assert "✗ not serializable: G1a, G1b, G-single, G2-item SQLite" in " ".join(done.stdout.split())
    for word in (
        "aborted read",
        "crossing",
        "rolled back by its client",
        "The history is consistent with read-uncommitted.",
    ):
        assert word in " ".join(done.stdout.split())
    assert len(history.read_text().splitlines()) > 120
    text = html.read_text()
    assert text.startswith("<!doctype html>")
    assert text.count("<svg") == 4
    assert "<script" not in text


def test_json_is_one_object() -> None:
    done = rankup("--seed=1", "--transactions=60", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["valid"] is True
    assert told["forbidden"] == told["allowed"] == []
    assert told["crossings"]["aborted read"] == {"looks_for": "G1a", "found": [], "waited": 0, "refused": []}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_a_run_that_is_stopped_leaves_nothing(tmp_path: Path, how: signal.Signals) -> None:
    assert status_after(how, tmp_path) == 130
    assert list(tmp_path.iterdir()) == []


def test_words_for_what_came_of_a_crossing() -> None:
    result = played()
    told = {each.crossing.name: report.outcome(each) for each in result.crossed}
    assert told["read skew"] == "no anomaly"
    assert told["write skew"] == "no anomaly: one was refused (database is locked)"
    assert "no anomaly" in page.html(result)
