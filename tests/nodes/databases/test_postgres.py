"""`rankup history run` on a PostgreSQL server of its own, where PostgreSQL is installed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import postgres
import pytest
from stopped import status_after

from grader.nodes.databases import run
from grader.nodes.databases.crossings import CROSSED
from grader.nodes.databases.run import Result, Wanted
from grader.nodes.databases.stage import Stage
from grader.submission import BadRequest

psycopg2 = pytest.importorskip("psycopg2", reason="psycopg2 is not installed: pip install psycopg2-binary")
pytestmark = [pytest.mark.heavy, *postgres.NEEDED]


class Server(postgres.Server):
    def ask(self, statement: str) -> list[Any]:
        connection = psycopg2.connect(self.url)
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall()) if cursor.description else []
        finally:
            connection.close()

    def left(self) -> list[Any]:
        """What a run left: its tables, and its connections, once those had time to notice."""
        tables = self.ask("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'rankup%'")
        gone = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rankup'"
        while self.ask(gone) != [(0,)]:
            pass
        return tables


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres.serving(Server) as made:
        yield made


def played(server: Server, isolation: str, workload: str = "txn-list-append", **more: Any) -> Result:
    result = run.play(Wanted(server.url, isolation, workload, **{"transactions": 80, "seed": 1, **more}))
    assert server.left() == []
    return result


def found(result: Result) -> dict[str, tuple[str, ...]]:
    return {each.crossing.name: each.kinds for each in result.crossed}


BOTH = pytest.mark.parametrize("workload", ["txn-list-append", "txn-rw-register"])


@BOTH
@pytest.mark.parametrize("transactions", [CROSSED, 150])
def test_repeatable_read_is_snapshot_isolation(server: Server, workload: str, transactions: int) -> None:
    for seed in range(3):
        result = played(server, "repeatable-read", workload, transactions=transactions, seed=seed)
        assert {one.kind for one in result.forbidden} == {"G2-item"}
        assert result.said == "REPEATABLE READ"
        assert "strong-snapshot-isolation" in result.kept
        assert not {"repeatable-read", "serializable"} & set(result.kept)
        shown = {name for name, kinds in found(result).items() if kinds}
        assert shown == {"circular reads", "write skew", "read-only"}, "and nothing else, whatever the seed"
    snapshot = played(server, "snapshot-isolation", workload)
    assert snapshot.valid
    assert [one.kind for one in snapshot.anomalies] == ["G2-item"]


@BOTH
@pytest.mark.parametrize("isolation", ["serializable", "strict-serializable"])
def test_serializable_shows_nothing(server: Server, workload: str, isolation: str) -> None:
    for seed in range(3):
        result = played(server, isolation, workload, transactions=150, seed=seed)
        assert result.anomalies == ()
        refused = {each.crossing.name for each in result.crossed if "serialization failure" in each.refused}
        assert refused == {"dirty write", "circular reads", "lost update", "write skew", "read-only"}


@BOTH
@pytest.mark.parametrize("isolation", ["read-committed", "read-uncommitted"])
def test_read_committed_loses_updates_and_shows_read_skew(server: Server, workload: str, isolation: str) -> None:
    result = played(server, isolation, workload, transactions=CROSSED)
    assert result.valid
    told = found(result)
    assert "lost-update" in told["lost update"]
    assert told["read skew"] == ("G-single",)
    assert told["write skew"] == told["read-only"] == told["circular reads"] == ("G2-item",)
    assert [told[name] for name in ("dirty write", "aborted read", "intermediate read")] == [(), (), ()]
    judged = played(server, isolation, workload, transactions=CROSSED, judged_as="serializable")
    assert {one.kind for one in judged.forbidden} == {"lost-update", "G-single", "G2-item"}
    assert all(each.waited == (each.crossing.name in ("dirty write", "lost update")) for each in judged.crossed)


def test_the_crossings_come_out_the_same_each_time(server: Server) -> None:
    def told() -> list[Any]:
        result = played(server, "repeatable-read", transactions=CROSSED)
        return [{**event, "time": 0} for event in result.events]

    first = told()
    assert all(told() == first for _ in range(5))


def test_deadlocks_are_refusals(server: Server) -> None:
    result = played(server, "read-committed", transactions=300, keys=2, clients=8)
    assert result.refusals["deadlock"] > 0
    assert result.ends["ok"] > 200


def test_a_connection_that_is_ended_from_outside_is_made_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    play = Stage.play

    def and_end_one(self: Stage, scene: Any) -> None:
        pid = self.clients[self._turn % len(self.clients)].pid
        if not scene.crossing and len(ended) < 3 and pid is not None:
            ended.append(pid)
            server.ask(f"SELECT pg_terminate_backend({pid}, 10000)")
        play(self, scene)

    monkeypatch.setattr(Stage, "play", and_end_one)
    result = played(server, "serializable", transactions=150)
    assert len(ended) == 3
    assert result.valid
    assert sum(count for why, count in result.refusals.items() if why.startswith("connection lost")) == 3
    assert result.ends["info"] == 0, "each was lost before its commit was sent"


def test_a_server_that_stops_is_one_sentence_that_names_the_table(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    play, stopped = Stage.play, list[bool]()

    def and_stop(self: Stage, scene: Any) -> None:
        if len(self.played) >= 10 and not stopped:
            stopped.append(True)
            server.run("stop", "-m", "immediate")
        play(self, scene)

    monkeypatch.setattr(Stage, "play", and_stop)
    with pytest.raises(BadRequest, match=r"the table (rankup_\w+) could not be removed: .* DROP TABLE \1$") as raised:
        run.play(Wanted(server.url, "serializable", seed=1))
    assert str(raised.value).isprintable()
    server.start()
    left = server.left()
    assert len(left) == 1
    server.ask(f"DROP TABLE {left[0][0]}")


def test_who_may_make_no_table_is_told_so(server: Server) -> None:
    server.ask("CREATE ROLE guest LOGIN")
    with pytest.raises(BadRequest, match="permission denied for schema public"):
        run.play(Wanted(server.url.replace("rankup@", "guest@"), "serializable"))
    with pytest.raises(BadRequest, match=r'cannot be reached: .* database "nowhere" does not exist'):
        run.play(Wanted(server.url.replace("/postgres?", "/nowhere?"), "serializable"))


def test_an_ordinary_user_can_run_it(server: Server) -> None:
    server.ask("CREATE ROLE ada LOGIN")
    server.ask("CREATE SCHEMA ada AUTHORIZATION ada")
    result = run.play(Wanted(server.url.replace("rankup@", "ada@"), "repeatable-read", transactions=CROSSED))
    assert {one.kind for one in result.forbidden} == {"G2-item"}
    assert server.left() == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_a_run_that_is_stopped_leaves_nothing(server: Server, tmp_path: Path, how: signal.Signals) -> None:
    assert status_after(how, tmp_path, f"--database={server.url}", "--isolation=read-committed") == 130
    assert server.left() == []


def test_a_client_that_waits_when_the_run_is_stopped_is_ended(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Stage, busy: Any, running: Any) -> Any:
        found = stuck(self, busy, running)
        if found:
            raise KeyboardInterrupt
        return found

    stuck = Stage._stuck
    monkeypatch.setattr(Stage, "_stuck", interrupt)
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        run.play(Wanted(server.url, "read-committed"))
    assert threading.active_count() == before
    assert server.left() == []


def test_the_command_finds_write_skew(server: Server, tmp_path: Path) -> None:
    words = ["history", "run", f"--database={server.url}", "--isolation=repeatable-read", "--seed=1"]
    history = tmp_path / "a.jsonl"
    command = [sys.executable, "-c", "from grader.cli import main; main()", *words, "--json", f"--history={history}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (1, "")
    told = json.loads(done.stdout)
    assert told["crossings"]["write skew"]["found"] == ["G2-item"]
    assert "snapshot-isolation" in told["nothing_against"]
    assert len(history.read_text().splitlines()) == 2 * sum(told["transactions"].values())
