"""What the learner has done: verdicts and cells of chapters that were run, in SQLite under the user's data folder."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import platformdirs

from grader.submission import BadRequest
from grader.verdict import Verdict

_TABLES = (
    "CREATE TABLE IF NOT EXISTS verdict (exercise TEXT, points REAL, max_points REAL, seed INTEGER, at TEXT)",
    "CREATE TABLE IF NOT EXISTS failed (exercise TEXT, name TEXT, PRIMARY KEY (exercise, name))",
    "CREATE TABLE IF NOT EXISTS cause (exercise TEXT PRIMARY KEY, cause TEXT, times INTEGER)",
    "CREATE TABLE IF NOT EXISTS hint (exercise TEXT PRIMARY KEY, given INTEGER)",
    "CREATE TABLE IF NOT EXISTS full (exercise TEXT PRIMARY KEY, report TEXT, at TEXT)",
    "CREATE TABLE IF NOT EXISTS cell (chapter TEXT, digest TEXT, at TEXT, PRIMARY KEY (chapter, digest))",
    "CREATE TABLE IF NOT EXISTS prediction (card TEXT PRIMARY KEY, chapter TEXT, true INTEGER, at TEXT)",
)

# The steps from one version of the database to the next; its user_version counts those made. Steps are only added.
_STEPS = (
    # the interview was chapter 15 and is chapter 20: what was run of it goes along; a later chapter 15 begins unread
    (
        "UPDATE OR IGNORE cell SET chapter = '20' WHERE chapter = '15'",
        "DELETE FROM cell WHERE chapter = '15'",
        "UPDATE prediction SET chapter = '20' WHERE chapter = '15'",
    ),
)

_CAUSE = "SELECT cause, times FROM cause WHERE exercise = ?"


@dataclass(frozen=True)
class Best:
    """The best verdict so far, how often the exercise was graded, and when last (UTC)."""

    points: float
    max_points: float
    attempts: int
    last: datetime


@dataclass(frozen=True)
class Read:
    """What was run of a chapter: the digests of its cells, and when last (UTC)."""

    digests: frozenset[str]
    last: datetime


def data_folder() -> Path:
    """Where progress is kept: $RANKUP_DATA, or the user's data folder."""
    return Path(os.environ.get("RANKUP_DATA") or platformdirs.user_data_dir("rankup"))


@contextmanager
def _database() -> Iterator[sqlite3.Connection]:
    """The database, made on first use. Raises BadRequest if it cannot be used."""
    file = data_folder() / "progress.sqlite3"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(file, timeout=10)
        try:
            with connection:
                for table in _TABLES:
                    connection.execute(table)
                _bring_up_to_date(connection)
                yield connection
        finally:
            connection.close()
    except (OSError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or error
        told = f"{file}: your progress cannot be read or written: {why}"
        raise BadRequest(f"{told}. RANKUP_DATA can name another folder") from None


def _bring_up_to_date(database: sqlite3.Connection) -> None:
    """Make the steps that a database of an older rankup has not seen, each once."""
    (made,) = database.execute("PRAGMA user_version").fetchone()
    if made >= len(_STEPS):
        return
    if not database.in_transaction:
        database.execute("BEGIN IMMEDIATE")  # of two programs that begin at once the second finds it done
        (made,) = database.execute("PRAGMA user_version").fetchone()
    for step in _STEPS[made:]:
        for statement in step:
            database.execute(statement)
    database.execute(f"PRAGMA user_version = {max(made, len(_STEPS))}")


def record_checks(verdict: Verdict, again: bool = False) -> None:
    """Remember which of the checks that were graded now failed, and how often in a row the first did for the same;
    not how often where the same program was graded `again`."""
    names = [(verdict.exercise, check.name) for check in verdict.checks]
    failed = [(verdict.exercise, check.name) for check in verdict.checks if check.status != "pass"]
    with _database() as database:
        database.executemany("DELETE FROM failed WHERE exercise = ? AND name = ?", names)
        database.executemany("INSERT INTO failed VALUES (?, ?)", failed)
        if again:
            return
        cause, before = _cause(verdict), database.execute(_CAUSE, (verdict.exercise,)).fetchone()
        times = before[1] + 1 if before and before[0] == cause else 1
        database.execute("INSERT OR REPLACE INTO cause VALUES (?, ?, ?)", (verdict.exercise, cause, times))


def _cause(verdict: Verdict) -> str:
    """What went wrong first: "deadlock in sum"; nothing where all is right."""
    first = verdict.first_failure
    return f"{first.diagnosis.kind} in {first.name}" if first and first.diagnosis else ""


def cause(exercise: str) -> tuple[str, int]:
    """What went wrong first, "deadlock in sum", and how often in a row; nothing and 0 where all was right."""
    with _database() as database:
        row = database.execute(_CAUSE, (exercise,)).fetchone()
    return (row[0], int(row[1])) if row and row[0] else ("", 0)


def hints_given(exercise: str) -> int:
    """How many of an exercise's hints were shown."""
    with _database() as database:
        row = database.execute("SELECT given FROM hint WHERE exercise = ?", (exercise,)).fetchone()
    return int(row[0]) if row else 0


def record_hint(exercise: str, given: int) -> None:
    """Remember that so many of its hints were shown."""
    with _database() as database:
        database.execute("INSERT OR REPLACE INTO hint VALUES (?, ?)", (exercise, given))


def failed(exercise: str) -> frozenset[str]:
    """The checks that failed when they were graded last."""
    with _database() as database:
        rows = database.execute("SELECT name FROM failed WHERE exercise = ?", (exercise,)).fetchall()
    return frozenset(name for (name,) in rows)


def record(verdict: Verdict) -> None:
    """Remember a verdict; the last with full marks whole, with the pictures that it has."""
    now = datetime.now(UTC).isoformat()
    row = (verdict.exercise, verdict.points, verdict.max_points, verdict.seed, now)
    with _database() as database:
        database.execute("INSERT INTO verdict VALUES (?, ?, ?, ?, ?)", row)
        if verdict.passed:
            whole = (verdict.exercise, verdict.report_json(), now)
            database.execute("INSERT OR REPLACE INTO full VALUES (?, ?, ?)", whole)


def full(exercise: str) -> tuple[Verdict, datetime] | None:
    """The last verdict with full marks, and when that was (UTC)."""
    with _database() as database:
        row = database.execute("SELECT report, at FROM full WHERE exercise = ?", (exercise,)).fetchone()
    try:
        return (Verdict.from_report(row[0]), datetime.fromisoformat(row[1])) if row else None
    except (KeyError, TypeError, ValueError):  # of another version
        return None


def best() -> dict[str, Best]:
    """The best verdict of each exercise that was ever graded."""
    asked = "SELECT exercise, max(points), max_points, count(*), max(at) FROM verdict GROUP BY exercise"
    with _database() as database:
        rows = database.execute(asked).fetchall()
    return {name: Best(points, most, count, datetime.fromisoformat(at)) for name, points, most, count, at in rows}


def record_cell(chapter: str, digest: str) -> None:
    """Remember that a cell of a chapter was run."""
    with _database() as database:
        database.execute(
            "INSERT OR REPLACE INTO cell VALUES (?, ?, ?)", (chapter, digest, datetime.now(UTC).isoformat())
        )


def read() -> dict[str, Read]:
    """What was run of each chapter."""
    with _database() as database:
        rows = database.execute("SELECT chapter, digest, at FROM cell").fetchall()
    found: dict[str, Read] = {}
    for chapter, digest, at in rows:
        when = datetime.fromisoformat(at)
        before = found.get(chapter, Read(frozenset(), when))
        found[chapter] = Read(before.digests | {digest}, max(before.last, when))
    return found


def record_prediction(card: str, chapter: str, true: bool) -> None:
    """Remember whether what the learner predicted came true, the last time they did."""
    row = (card, chapter, true, datetime.now(UTC).isoformat())
    with _database() as database:
        database.execute("INSERT OR REPLACE INTO prediction VALUES (?, ?, ?, ?)", row)


def predictions() -> dict[str, tuple[int, int]]:
    """By chapter, how many predictions were made, and how many came true."""
    asked = "SELECT chapter, count(*), sum(true) FROM prediction GROUP BY chapter"
    with _database() as database:
        return {chapter: (made, true) for chapter, made, true in database.execute(asked)}
