"""Progress as JSON: written whole, read strictly, and united with what is there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grader.quiz.deck import DeckError
from grader.quiz.schedule import RATINGS, recall
from grader.quiz.schema import VERSION
from grader.quiz.whole import write_whole

_WHAT = "rankup quiz progress"
_MARKS = ("buried", "suspended", "soon")


@dataclass(frozen=True)
class Progress:
    """Progress from a file, every part of it checked; times are ISO 8601, UTC."""

    memories: Mapping[str, str]  # card id -> FSRS's JSON
    reviews: tuple[tuple[str, int, str], ...]  # card id, rating, when
    marks: tuple[tuple[str, str, str], ...]  # card id, kind, value
    settings: Mapping[str, str]
    interviews: tuple[tuple[str, str], ...]  # when, the report's JSON


def export(connection: sqlite3.Connection) -> dict[str, Any]:
    """All progress, as JSON holds it."""

    def rows(sql: str) -> list[list[Any]]:
        return [list(row) for row in connection.execute(sql)]

    return {
        "what": _WHAT,
        "version": VERSION,
        "memories": {card: json.loads(text) for card, text in rows("SELECT card, fsrs FROM memory ORDER BY card")},
        "reviews": rows("SELECT card, rating, at FROM review ORDER BY id"),
        "marks": rows("SELECT card, kind, value FROM mark ORDER BY card, kind"),
        "settings": dict(rows("SELECT name, value FROM setting ORDER BY name")),
        "interviews": [[at, json.loads(text)] for at, text in rows("SELECT at, report FROM interview ORDER BY id")],
    }


def write(progress: Mapping[str, Any], file: Path) -> None:
    """Write the file whole or not at all. Raises DeckError."""
    write_whole(file, json.dumps(progress, indent=1) + "\n")


def read(file: Path) -> Progress:
    """Read what `write` wrote. Raises DeckError for anything else."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeckError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):  # ValueError: no JSON, or not UTF-8
        raise DeckError(f"{file}: this is no JSON; nothing was imported") from None
    if not isinstance(data, dict) or data.get("what") != _WHAT:
        raise DeckError(f"{file}: this is no progress that rankup exported; nothing was imported")
    if isinstance(data.get("version"), int) and data["version"] > VERSION:
        raise DeckError(f"{file}: written by a newer rankup; update rankup to import it")
    part = "memories"
    try:
        memories = {_id(card): json.dumps(fsrs) for card, fsrs in _dict(data["memories"]).items()}
        for text in memories.values():
            recall(text)
        part = "reviews"
        reviews = tuple((_id(card), _rating(rating), _time(at)) for card, rating, at in data["reviews"])
        part = "marks"
        marks = tuple((_id(card), _one_of(kind, _MARKS), _str(value)) for card, kind, value in data["marks"])
        part = "settings"
        settings = {_str(name): _str(value) for name, value in _dict(data["settings"]).items()}
        part = "interviews"
        interviews = tuple((_time(at), json.dumps(_dict(report))) for at, report in data["interviews"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise DeckError(f"{file}: its {part} are not as rankup exports them; nothing was imported") from None
    return Progress(memories, reviews, marks, settings, interviews)


def merge(connection: sqlite3.Connection, other: Progress) -> None:
    """Unite `other` with the database, in the transaction that is open.

    For each card the memory with the later last review wins; reviews and interviews that are there already are not
    kept twice; settings that are there stay. Answers from before cannot be undone any more: the memory that each was
    built on may be another machine's.
    """
    mine = dict(connection.execute("SELECT card, fsrs FROM memory").fetchall())
    later = {
        card: text
        for card, text in other.memories.items()
        if card not in mine or recall(mine[card]).last_review < recall(text).last_review
    }
    connection.executemany("INSERT OR REPLACE INTO memory VALUES (?, ?)", later.items())
    there = {(card, rating, _time(at)) for card, rating, at in _all(connection, "SELECT card, rating, at FROM review")}
    fresh = dict.fromkeys(row for row in other.reviews if row not in there)
    connection.executemany("INSERT INTO review (card, rating, at) VALUES (?, ?, ?)", fresh)
    if fresh or later:
        connection.execute("UPDATE review SET before = NULL")
    connection.executemany("INSERT OR IGNORE INTO mark VALUES (?, ?, ?)", other.marks)
    connection.executemany("INSERT OR IGNORE INTO setting VALUES (?, ?)", other.settings.items())
    kept = set(_all(connection, "SELECT at, report FROM interview"))
    fresh_interviews = dict.fromkeys(row for row in other.interviews if row not in kept)
    connection.executemany("INSERT INTO interview (at, report) VALUES (?, ?)", fresh_interviews)


def _all(connection: sqlite3.Connection, sql: str) -> list[Any]:
    return connection.execute(sql).fetchall()


def _id(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError
    return value


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _dict(value: object) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _one_of(value: object, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError
    return str(value)


def _rating(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value not in RATINGS:
        raise ValueError
    return value


def _time(value: object) -> str:
    """The time in one way of writing it, so that equal times are equal."""
    at = datetime.fromisoformat(_str(value))
    if at.tzinfo is None:
        raise ValueError
    return at.astimezone(UTC).isoformat()
