"""What the learner remembers of each card: SQLite under the user's data folder, keyed by the card's id.

Every answer is one transaction, so that ending the process at any moment loses nothing that was answered. Two sessions
may run at once: an answer builds on what the database says at that moment, not on what a session read before.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import platformdirs

from grader.quiz.deck import DeckError
from grader.quiz.schedule import Memory, recall, review

VERSION = 1  # of the schema, in PRAGMA user_version

_SCHEMA = (
    "CREATE TABLE memory (card TEXT PRIMARY KEY, fsrs TEXT NOT NULL)",
    "CREATE TABLE review (id INTEGER PRIMARY KEY, card TEXT NOT NULL, rating INTEGER NOT NULL, at TEXT NOT NULL)",
    f"PRAGMA user_version = {VERSION}",
)


def path() -> Path:
    """Where the progress is kept: in $RANKUP_DATA, or the user's data folder."""
    return Path(os.environ.get("RANKUP_DATA") or platformdirs.user_data_dir("rankup")) / "quiz.sqlite3"


class Store:
    """An open database of progress."""

    def __init__(self, connection: sqlite3.Connection, file: Path) -> None:
        self._connection, self._file = connection, file

    def memories(self) -> dict[str, Memory]:
        """What is known of every card that was ever answered, by card id."""
        with _said(self._file):
            rows = self._connection.execute("SELECT card, fsrs FROM memory").fetchall()
        return {card: recall(text) for card, text in rows}

    def memory(self, card: str) -> Memory | None:
        """What is known of one card, or None while it is new."""
        with _said(self._file):
            row = self._connection.execute("SELECT fsrs FROM memory WHERE card = ?", (card,)).fetchone()
        return recall(row[0]) if row else None

    def answer(self, card: str, rating: int, now: datetime) -> Memory:
        """Keep an answer, and say what is known of the card now."""
        with _said(self._file), _transaction(self._connection):
            after = review(self.memory(card), rating, now)
            self._connection.execute("INSERT OR REPLACE INTO memory VALUES (?, ?)", (card, after.fsrs))
            self._connection.execute(
                "INSERT INTO review (card, rating, at) VALUES (?, ?, ?)", (card, rating, after.last_review.isoformat())
            )
        return after

    def reviews(self) -> list[tuple[str, int, datetime]]:
        """Every answer ever given, in order: the card's id, the rating, when (UTC)."""
        with _said(self._file):
            rows = self._connection.execute("SELECT card, rating, at FROM review ORDER BY id").fetchall()
        return [(card, rating, datetime.fromisoformat(at).astimezone(UTC)) for card, rating, at in rows]


@contextmanager
def opened(file: Path | None = None) -> Iterator[Store]:
    """The learner's progress, made on first use. Raises DeckError if the database cannot be used."""
    file = file or path()
    with _said(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(file, timeout=10, isolation_level=None)
    try:
        with _said(file):
            _prepare(connection, file)
        yield Store(connection, file)
    finally:
        connection.close()


def _prepare(connection: sqlite3.Connection, file: Path) -> None:
    _write_ahead(connection)
    with _transaction(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise DeckError(f"{file}: written by a newer rankup; update rankup, or move the file away to start anew")
        if version == 0:
            for statement in _SCHEMA:
                connection.execute(statement)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite does not wait for the lock here, so another session's first moment can be in the way."""
    for _ in range(100):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
        with _transaction(connection):  # here it does wait, until the other is done
            pass
    raise sqlite3.OperationalError("other sessions keep it locked")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # an interrupt may come right after the commit
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _said(file: Path) -> Iterator[None]:
    """Turns what SQLite and the file system raise into one sentence."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise DeckError(f"{file}: the progress cannot be used: {error}") from None
