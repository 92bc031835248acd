"""What the learner remembers of each card: SQLite under the user's data folder, keyed by the card's id.

Every answer is one transaction, so that ending the process at any moment loses nothing that was answered. Two sessions
may run at once: an answer builds on what the database says at that moment, not on what a session read before. Cards
that are in no deck any more keep their progress.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader.quiz.schedule import Memory, due_by, recall, review
from grader.quiz.schema import VERSION, path, prepare, said, transaction

if TYPE_CHECKING:
    from grader.quiz import exchange

__all__ = ["NEW_A_DAY", "VERSION", "Answer", "Store", "local_day", "opened", "path"]

NEW_A_DAY = 10  # cards, unless the learner set another number


@dataclass(frozen=True)
class Answer:
    """One answer that is kept; `before` is None if the card was new."""

    id: int
    card: str
    rating: int
    before: Memory | None
    after: Memory


def local_day(now: datetime) -> date:
    """The day it is where the learner is."""
    return now.astimezone().date()


class Store:
    """An open database of progress. All methods raise DeckError if it cannot be used."""

    def __init__(self, connection: sqlite3.Connection, file: Path) -> None:
        self._connection, self._file = connection, file

    def memories(self) -> dict[str, Memory]:
        """What is known of every card that was ever answered, by card id."""
        return {card: self._recalled(text) for card, text in self._rows("SELECT card, fsrs FROM memory")}

    def memory(self, card: str) -> Memory | None:
        """What is known of one card, or None while it is new."""
        rows = self._rows("SELECT fsrs FROM memory WHERE card = ?", card)
        return self._recalled(rows[0][0]) if rows else None

    def answer(self, card: str, rating: int, now: datetime) -> Memory:
        """Keep an answer, and say what is known of the card now."""
        return self.record(card, rating, now).after

    def record(self, card: str, rating: int, now: datetime) -> Answer:
        """Keep an answer, and say what `undo` needs."""
        with self._writing():
            before = self.memory(card)
            after = review(before, rating, now)
            self._execute("INSERT OR REPLACE INTO memory VALUES (?, ?)", card, after.fsrs)
            self._execute("DELETE FROM mark WHERE card = ? AND kind = 'buried'", card)
            done = self._execute(
                "INSERT INTO review (card, rating, at, before) VALUES (?, ?, ?, ?)",
                *(card, rating, after.last_review.isoformat(), before.fsrs if before else ""),
            )
        assert done.lastrowid is not None
        return Answer(done.lastrowid, card, rating, before, after)

    def undo(self, answer: int | None = None) -> tuple[str, Memory | None] | None:
        """Take back an answer, the last one if left out: the card has exactly the memory that it had before.

        Returns the card's id and that memory (None: it is new again), or None if there is nothing to undo: no answer,
        one that the card was answered after, or one from before an import.
        """
        with self._writing():
            which = "id = ?" if answer is not None else "id = (SELECT MAX(id) FROM review) AND ? IS NULL"
            found = self._rows(f"SELECT id, card, before FROM review WHERE {which}", answer)
            if not found or found[0][2] is None:
                return None
            number, card, before = found[0]
            if self._rows("SELECT 1 FROM review WHERE card = ? AND id > ?", card, number):
                return None
            self._execute("DELETE FROM review WHERE id = ?", number)
            if before:
                self._execute("INSERT OR REPLACE INTO memory VALUES (?, ?)", card, before)
            else:
                self._execute("DELETE FROM memory WHERE card = ?", card)
        return card, self._recalled(before) if before else None

    def reviews(self) -> list[tuple[str, int, datetime]]:
        """Every answer ever given, in order: the card's id, the rating, when (UTC)."""
        rows = self._rows("SELECT card, rating, at FROM review ORDER BY id")
        return [(card, rating, datetime.fromisoformat(at).astimezone(UTC)) for card, rating, at in rows]

    def new_on(self, day: date) -> set[str]:
        """The cards that were seen for the first time on a local day, in whichever session."""
        first: dict[str, datetime] = {}
        for card, _, at in self.reviews():
            first[card] = min(at, first.get(card, at))
        return {card for card, at in first.items() if local_day(at) == day}

    def new_a_day(self) -> int:
        """How many new cards the learner wants a day."""
        rows = self._rows("SELECT value FROM setting WHERE name = 'new a day'")
        return int(rows[0][0]) if rows and rows[0][0].isdecimal() else NEW_A_DAY

    def set_new_a_day(self, cards: int) -> None:
        with self._writing():
            self._execute("INSERT OR REPLACE INTO setting VALUES ('new a day', ?)", str(cards))

    def bury(self, card: str, now: datetime) -> None:
        """Do not ask the card again before the next local day."""
        self._mark(card, "buried", local_day(now).isoformat())

    def suspend(self, card: str) -> None:
        """Do not ask the card again until it is unsuspended."""
        self._mark(card, "suspended")

    def unbury(self, card: str) -> None:
        self._unmark(card, "buried")

    def unsuspend(self, card: str) -> None:
        self._unmark(card, "suspended")

    def suspended(self) -> set[str]:
        """The ids of all suspended cards."""
        return self._marked("suspended")

    def set_aside(self, now: datetime) -> set[str]:
        """The ids of the cards that are not to be asked at `now`: suspended, or buried today."""
        today = local_day(now).isoformat()
        return self.suspended() | self._marked("buried", today)

    def soon(self) -> set[str]:
        """The ids of cards that are to be asked first among the new ones."""
        return self._marked("soon")

    def ask_soon(self, cards: Iterable[str], now: datetime) -> None:
        """Make cards due now, or first among the new ones if they were never seen."""
        with self._writing():
            for card in cards:
                memory = self.memory(card)
                if memory is None:
                    self._execute("INSERT OR REPLACE INTO mark VALUES (?, 'soon', '')", card)
                else:
                    self._execute("UPDATE memory SET fsrs = ? WHERE card = ?", due_by(memory, now).fsrs, card)

    def keep_interview(self, report: Mapping[str, Any], now: datetime) -> int:
        """Keep a mock interview's report, anything that JSON holds; returns its id."""
        text = json.dumps(dict(report))
        with self._writing():
            at = now.astimezone(UTC).isoformat()
            done = self._execute("INSERT INTO interview (at, report) VALUES (?, ?)", at, text)
        assert done.lastrowid is not None
        return done.lastrowid

    def interviews(self) -> list[dict[str, Any]]:
        """Every report, the oldest first, with its "id" and "at" (ISO 8601, UTC)."""
        rows = self._rows("SELECT id, at, report FROM interview ORDER BY at, id")
        return [{**json.loads(report), "id": number, "at": at} for number, at, report in rows]

    def export(self) -> dict[str, Any]:
        """All progress, as JSON holds it."""
        with said(self._file), transaction(self._connection):  # of one moment
            from grader.quiz import exchange  # and with it pydantic

            return exchange.export(self._connection)

    def merge(self, progress: exchange.Progress) -> None:
        """Unite other progress with this one. For each card the memory with the later last review wins."""
        with self._writing():
            from grader.quiz import exchange

            exchange.merge(self._connection, progress)

    def _recalled(self, text: str) -> Memory:
        with said(self._file):
            return recall(text)

    def _marked(self, kind: str, value: str = "") -> set[str]:
        return {row[0] for row in self._rows("SELECT card FROM mark WHERE kind = ? AND value = ?", kind, value)}

    def _mark(self, card: str, kind: str, value: str = "") -> None:
        with self._writing():
            self._execute("INSERT OR REPLACE INTO mark VALUES (?, ?, ?)", card, kind, value)

    def _unmark(self, card: str, kind: str) -> None:
        with self._writing():
            self._execute("DELETE FROM mark WHERE card = ? AND kind = ?", card, kind)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with said(self._file), transaction(self._connection):
            yield

    def _execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        return self._connection.execute(sql, values)

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with said(self._file):
            return self._execute(sql, *values).fetchall()


@contextmanager
def opened(file: Path | None = None) -> Iterator[Store]:
    """The learner's progress, made on first use. Raises DeckError if the database cannot be used."""
    file = file or path()
    with said(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(file, timeout=10, isolation_level=None)
    try:
        with said(file):
            prepare(connection, file)
        yield Store(connection, file)
    finally:
        connection.close()
