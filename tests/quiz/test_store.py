"""What is remembered, and when it is due: SQLite and FSRS."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.quiz import schema, store
from grader.quiz.deck import DeckError
from grader.quiz.schedule import AGAIN, EASY, GOOD, HARD, MAXIMUM_INTERVAL, recall, review

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def progress(database: Path) -> Iterator[store.Store]:
    with store.opened() as opened:
        yield opened


def test_what_was_known_better_comes_back_later() -> None:
    dues = [review(None, rating, NOON).due for rating in (AGAIN, HARD, GOOD, EASY)]
    assert NOON < dues[0] < dues[1] < dues[2] < dues[3]


def test_a_card_known_again_and_again_waits_longer_each_time() -> None:
    memory, waits = review(None, EASY, NOON), []
    for _ in range(4):
        waits.append(memory.due - memory.last_review)
        memory = review(memory, GOOD, memory.due)
    assert waits == sorted(set(waits))


def test_the_same_answers_give_the_same_days() -> None:
    assert len({review(review(None, EASY, NOON), GOOD, NOON + 60 * DAY).due for _ in range(20)}) == 1


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(-4000, 4000)), min_size=1, max_size=12))
def test_a_clock_that_jumps_never_makes_nonsense(answers: list[tuple[int, int]]) -> None:
    memory = None
    for rating, days in answers:
        before, now = memory, NOON + days * DAY
        memory = review(before, rating, now)
        assert memory.last_review == now
        assert timedelta(0) < memory.due - now <= timedelta(days=MAXIMUM_INTERVAL)
        assert recall(memory.fsrs) == memory


def test_a_clock_that_went_back_counts_as_no_time() -> None:
    memory, back = review(None, EASY, NOON), NOON - 1000 * DAY
    after = review(memory, GOOD, back)
    assert after.due - back == review(memory, GOOD, NOON).due - NOON
    assert after.last_review == back


def test_a_card_answered_while_the_clock_was_ahead_is_asked_and_not_lost() -> None:
    ahead = review(None, EASY, NOON + 4000 * DAY)
    assert ahead.is_due(NOON)
    assert review(ahead, GOOD, NOON).due < NOON + 30 * DAY


def test_a_clock_that_is_set_back_by_an_hour_brings_nothing_forward() -> None:
    assert not review(None, EASY, NOON).is_due(NOON - timedelta(hours=1))


def test_an_answer_is_kept_in_utc(progress: store.Store) -> None:
    tokyo = NOON.astimezone(timezone(timedelta(hours=9)))
    memory = progress.answer("a", GOOD, tokyo)
    assert progress.memories() == {"a": memory}
    assert progress.reviews() == [("a", GOOD, NOON)]
    assert "+00:00" in memory.fsrs
    assert "+09:00" not in memory.fsrs


def test_a_card_never_answered_has_no_memory(progress: store.Store) -> None:
    assert progress.memory("a") is None


def test_an_answer_builds_on_what_another_session_stored(progress: store.Store) -> None:
    with store.opened() as other:
        other.answer("a", EASY, NOON)
    assert progress.answer("a", GOOD, NOON + DAY) == review(review(None, EASY, NOON), GOOD, NOON + DAY)
    assert [rating for _, rating, _ in progress.reviews()] == [EASY, GOOD]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, RuntimeError])
def test_an_answer_that_is_interrupted_is_not_kept_by_half(
    progress: store.Store, monkeypatch: pytest.MonkeyPatch, interrupt: type[BaseException]
) -> None:
    class Interrupted:
        fsrs = "{}"

        @property
        def last_review(self) -> datetime:  # read between the two writes
            raise interrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "review", lambda *_: Interrupted())
        with pytest.raises(interrupt):
            progress.answer("a", GOOD, NOON)
    assert (progress.memories(), progress.reviews()) == ({}, [])
    assert progress.answer("a", GOOD, NOON) == progress.memory("a")  # and it goes on


def test_the_database_is_ahead_written_and_versioned(progress: store.Store, database: Path) -> None:
    with closing(sqlite3.connect(database)) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert raw.execute("PRAGMA user_version").fetchone() == (store.VERSION,)


def test_opening_again_keeps_everything(database: Path) -> None:
    for rating in (GOOD, AGAIN):
        with store.opened() as progress:
            progress.answer("a", rating, NOON)
    with store.opened() as progress:
        assert len(progress.reviews()) == 2


def test_a_switch_to_wal_waits_for_another_session(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite refuses the switch at once while another connection writes: the session asks again when that is done."""

    class Contended(sqlite3.Connection):
        refusals = 2
        asked: list[str] = []  # noqa: RUF012

        def execute(self, sql: str, *arguments: object) -> sqlite3.Cursor:
            self.asked.append(sql)
            if "journal_mode" in sql and Contended.refusals:
                Contended.refusals -= 1
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error
            return super().execute(sql, *arguments)  # type: ignore[arg-type]

    database.parent.mkdir()
    with closing(sqlite3.connect(database, isolation_level=None, factory=Contended)) as connection:
        schema.prepare(connection, database)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    switch, wait = "PRAGMA journal_mode = WAL", ["BEGIN IMMEDIATE", "COMMIT"]
    assert Contended.asked[:7] == [switch, *wait, switch, *wait, switch]


def _newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as raw:
        raw.execute("PRAGMA user_version = 99")


UNUSABLE = {
    "of another rankup": (_newer, "another rankup version"),
    "not a database": (lambda file: file.write_text("no database" * 100), "not a database"),
    "a folder": (lambda file: file.mkdir(), "unable to open"),
}


@pytest.mark.parametrize(("spoil", "words"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_progress_that_cannot_be_used_is_one_sentence(database: Path, spoil: object, words: str) -> None:
    database.parent.mkdir()
    spoil(database)  # type: ignore[operator]
    with pytest.raises(DeckError, match=rf"\A[^\n]*quiz\.sqlite3: [^\n]*{words}[^\n]*\Z"), store.opened():
        pass


def test_a_data_folder_that_is_a_file_is_one_sentence(database: Path) -> None:
    database.parent.write_text("")
    with pytest.raises(DeckError, match="your progress cannot be read or written"), store.opened():
        pass


def test_without_a_folder_of_ones_own_it_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANKUP_DATA")
    monkeypatch.setattr(schema.platformdirs, "user_data_dir", lambda name: f"/home/u/{name}")
    assert store.path() == Path("/home/u/rankup/quiz.sqlite3")
