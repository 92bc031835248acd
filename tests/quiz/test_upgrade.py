"""A database of an older rankup is brought up to date, one of a newer is refused."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from grader.quiz import schema, store
from grader.quiz.deck import DeckError

KEPT = Path(__file__).parent / "kept" / "version-1.sqlite3"  # 33 answers to 5 cards, by rankup's version 1
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def old(database: Path) -> Path:
    database.parent.mkdir()
    shutil.copy(KEPT, database)
    return database


def raw(file: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(sql).fetchall()


def test_version_1_is_upgraded_in_place_and_keeps_all(old: Path) -> None:
    memories = dict(raw(old, "SELECT card, fsrs FROM memory"))
    reviews = raw(old, "SELECT card, rating, at FROM review ORDER BY id")
    assert raw(old, "PRAGMA user_version") == [(1,)]
    for _ in range(2):  # the second time there is nothing to do
        with store.opened() as progress:
            assert {card: memory.fsrs for card, memory in progress.memories().items()} == memories
            assert [(card, rating, at.isoformat()) for card, rating, at in progress.reviews()] == reviews
            assert progress.interviews() == []
    assert raw(old, "PRAGMA user_version") == [(store.VERSION,)]
    assert raw(old, "PRAGMA integrity_check") == [("ok",)]


def test_answers_from_version_1_can_be_undone(old: Path) -> None:
    with store.opened() as progress:
        last = progress.reviews()[-1]
        undone = progress.undo()
        assert undone is not None
        card, memory = undone
        assert card == last[0]
        assert progress.memory(card) == memory
        assert progress.record(card, last[1], last[2]).after == progress.memory(card)
        while progress.undo():
            pass
        assert (progress.memories(), progress.reviews()) == ({}, [])


def test_a_memory_that_its_reviews_do_not_explain_is_kept_and_not_undone(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("DELETE FROM review WHERE id = 1")
    card = "ring-bytes"
    with store.opened() as progress:
        memory = progress.memory(card)
        assert memory is not None
        mine = [number for number, name in raw(old, "SELECT id, card FROM review") if name == card]
        assert progress.undo(mine[-1]) is None  # type: ignore[arg-type]
        assert progress.memory(card) == memory


def test_an_upgrade_that_is_interrupted_leaves_version_1(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = raw(old, "SELECT * FROM review")
    monkeypatch.setattr(schema, "_SINCE_2", ("CREATE TABLE nonsense",))
    with pytest.raises(DeckError, match="the progress cannot be used"), store.opened():
        pass
    assert raw(old, "PRAGMA user_version") == [(1,)]
    assert raw(old, "SELECT * FROM review") == before


def test_two_sessions_may_meet_at_an_upgrade(old: Path) -> None:
    with store.opened() as one, store.opened() as other:
        one.answer("ring-bytes", 3, NOON)
        assert other.reviews() == one.reviews()
