"""What the learner has answered: an SQLite file in the user's data folder.

Every answer is one transaction that reads the card's memory, moves it on and writes it and the review log. So a session
may be killed at any moment and another may run beside it: an answer is there as a whole, or not at all.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import platformdirs

from grader.quiz import schedule
from grader.quiz.schedule import Memory, Rating

FILE = "quiz.sqlite3"

# One entry a schema version, each a list of statements that lead there from the version before. Append, never edit.
MIGRATIONS = (
    (
        "CREATE TABLE memory (card TEXT PRIMARY KEY, state INTEGER NOT NULL, step INTEGER, stability REAL NOT NULL,"
        " difficulty REAL NOT NULL, due TEXT NOT NULL, last_review TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE review (number INTEGER PRIMARY KEY, card TEXT NOT NULL,"
        " rating INTEGER NOT NULL CHECK (rating BETWEEN 1 AND 4), at TEXT NOT NULL)",
    ),
)


class StoreError(Exception):
    """The progress cannot be read or written: one sentence."""


@dataclass(frozen=True)
class Review:
    """One line of the log: `card` was answered with `rating`, when the clock showed `at`."""

    card: str
    rating: Rating
    at: datetime


def data_folder() -> Path:
    """Where progress is kept: $RANKUP_DATA, or the user's data folder."""
    return Path(os.environ.get("RANKUP_DATA") or platformdirs.user_data_dir("rankup"))


class Store:
    """The progress in a folder, made there if it is new. Close it, or use it in a `with`. Its methods raise StoreError."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        with self._errors():
            folder.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self.path, timeout=10, isolation_level=None)
            try:
                # Two sessions that start together may both try this; SQLite refuses one at once, and the log is as
                # safe without it, so the one that came second goes on.
                with contextlib.suppress(sqlite3.OperationalError):
                    self._database.execute("PRAGMA journal_mode = WAL")
                self._database.execute("PRAGMA synchronous = FULL")
                self._migrate()
            except BaseException:
                self._database.close()
                raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def memories(self) -> dict[str, Memory]:
        """Card id -> memory, for every card ever answered."""
        with self._errors():
            return {row[0]: _memory(row[1:]) for row in self._database.execute("SELECT * FROM memory")}

    def memory(self, card: str) -> Memory | None:
        """The memory of one card; None if it was never answered."""
        with self._errors():
            row = self._database.execute("SELECT * FROM memory WHERE card = ?", (card,)).fetchone()
        return _memory(row[1:]) if row else None

    def reviews(self) -> list[Review]:
        """The log in the order in which the answers were stored, whatever the clock did."""
        with self._errors():
            rows = self._database.execute("SELECT card, rating, at FROM review ORDER BY number").fetchall()
        return [Review(card, Rating(rating), datetime.fromisoformat(at)) for card, rating, at in rows]

    def record(self, card: str, rating: Rating, at: datetime) -> Memory:
        """Store an answer. When this returns it is on disk; the new memory says when the card is due."""
        with self._errors(), self._transaction():
            memory = schedule.review(self.memory(card), rating, at)
            self._database.execute(
                "INSERT OR REPLACE INTO memory VALUES (?, ?, ?, ?, ?, ?, ?)",
                (card, memory.state, memory.step, memory.stability, memory.difficulty)
                + (_text(memory.due), _text(memory.last_review)),
            )
            self._database.execute(
                "INSERT INTO review (card, rating, at) VALUES (?, ?, ?)", (card, int(rating), _text(at))
            )
        return memory

    def _migrate(self) -> None:
        if self._version() < len(MIGRATIONS):
            with self._transaction():
                for statements in MIGRATIONS[self._version() :]:  # read again: another session may have been faster
                    for statement in statements:
                        self._database.execute(statement)
                self._database.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        if self._version() > len(MIGRATIONS):
            raise StoreError(f"{self.path} was written by a newer version of rankup: update this one")

    def _version(self) -> int:
        return int(self._database.execute("PRAGMA user_version").fetchone()[0])

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing, alone among the writers from the first read on."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        finally:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise StoreError(f"the progress in {self.path} cannot be used: {reason}") from None


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _memory(row: tuple[int, int | None, float, float, str, str]) -> Memory:
    *plain, due, last_review = row
    return Memory(*plain, datetime.fromisoformat(due), datetime.fromisoformat(last_review))  # type: ignore[arg-type]
