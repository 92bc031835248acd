"""The database of progress: its tables, transactions, and what is said of trouble."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from grader.quiz.deck import DeckError

VERSION = 2  # of the schema, in PRAGMA user_version

_SCHEMA = (
    "CREATE TABLE memory (card TEXT PRIMARY KEY, fsrs TEXT NOT NULL)",
    # `before` is the memory's FSRS JSON before the answer: "" if the card was new, NULL if nobody knows any more. Ids
    # are never used again (AUTOINCREMENT): no session can undo another's answer that got the id of an undone one.
    "CREATE TABLE review (id INTEGER PRIMARY KEY AUTOINCREMENT, card TEXT NOT NULL, rating INTEGER NOT NULL,"
    " at TEXT NOT NULL, before TEXT)",
    "CREATE INDEX review_card ON review (card)",
    # kinds of marks: buried (value: the local day), suspended, soon (first among the new cards)
    "CREATE TABLE mark (card TEXT NOT NULL, kind TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (card, kind))",
    "CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE interview (id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, report TEXT NOT NULL)",
    f"PRAGMA user_version = {VERSION}",
)


def path() -> Path:
    """Where the progress is kept: in $RANKUP_DATA, or the user's data folder."""
    return Path(os.environ.get("RANKUP_DATA") or platformdirs.user_data_dir("rankup")) / "quiz.sqlite3"


def prepare(connection: sqlite3.Connection, file: Path) -> None:
    """Make the tables, all or none. Raises DeckError for a database of another version."""
    _write_ahead(connection)
    with transaction(connection):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            what_to_do = "update rankup, or move the file away to start over"
            raise DeckError(f"{file}: made by another rankup version; {what_to_do}")
        for statement in () if version else _SCHEMA:
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
        with transaction(connection):  # here it does wait, until the other is done
            pass
    raise sqlite3.OperationalError("other sessions keep it locked")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of the block is kept, or nothing of it; other sessions' writes come before or after it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # an interrupt may come right after the commit
            connection.execute("ROLLBACK")
        raise


@contextmanager
def said(file: Path) -> Iterator[None]:
    """Turns what SQLite, the file system and unreadable memories raise into one sentence."""
    try:
        yield
    except (OSError, sqlite3.Error, ValueError) as error:
        told = f"{file}: your progress cannot be read or written: {getattr(error, 'strerror', None) or error}"
        raise DeckError(f"{told}. RANKUP_DATA can name another folder") from None
