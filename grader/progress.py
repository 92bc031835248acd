"""What the learner has reached in the exercises: the best verdict of each, in SQLite under the user's data folder."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import platformdirs

from grader.verdict import Verdict


@dataclass(frozen=True)
class Best:
    """The best verdict so far, and how often the exercise was graded."""

    points: float
    max_points: float
    attempts: int


def data_folder() -> Path:
    """Where progress is kept: $RANKUP_DATA, or the user's data folder."""
    return Path(os.environ.get("RANKUP_DATA") or platformdirs.user_data_dir("rankup"))


@contextmanager
def _database() -> Iterator[sqlite3.Connection]:
    folder = data_folder()
    folder.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(folder / "progress.sqlite3", timeout=10)
    try:
        with connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS verdict "
                "(exercise TEXT, points REAL, max_points REAL, seed INTEGER, at TEXT)"
            )
            yield connection
    finally:
        connection.close()


def record(verdict: Verdict) -> None:
    """Remember a verdict."""
    row = (verdict.exercise, verdict.points, verdict.max_points, verdict.seed, datetime.now(UTC).isoformat())
    with _database() as database:
        database.execute("INSERT INTO verdict VALUES (?, ?, ?, ?, ?)", row)


def best() -> dict[str, Best]:
    """The best verdict of each exercise that was ever graded."""
    with _database() as database:
        rows = database.execute("SELECT exercise, max(points), max_points, count(*) FROM verdict GROUP BY exercise")
        return {name: Best(points, most, attempts) for name, points, most, attempts in rows}
