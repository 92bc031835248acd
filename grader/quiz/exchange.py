"""Progress as JSON: written whole, read strictly, and united with what is there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from grader.quiz.deck import DeckError
from grader.quiz.schedule import recall
from grader.quiz.schema import VERSION
from grader.quiz.whole import write_whole

_WHAT = "rankup quiz progress"


def _object(value: object) -> str:
    if not isinstance(value, dict):
        raise ValueError("no object")
    return json.dumps(value)


def _memory(value: object) -> str:
    recall(text := _object(value))
    return text


def _time(value: str) -> str:
    """The time in one way of writing it, so that equal times are equal."""
    at = datetime.fromisoformat(value)
    if at.tzinfo is None:
        raise ValueError("a time without its zone")
    return at.astimezone(UTC).isoformat()


Id = Annotated[str, Field(min_length=1)]
Time = Annotated[str, AfterValidator(_time)]


class Progress(BaseModel):
    """Progress from a file, every part of it checked; times are ISO 8601, UTC."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    what: Literal["rankup quiz progress"]
    version: Annotated[int, Field(le=VERSION)] = VERSION
    memories: dict[Id, Annotated[str, BeforeValidator(_memory)]]  # by card; then FSRS's JSON
    reviews: tuple[tuple[Id, Annotated[int, Field(ge=1, le=4)], Time], ...]  # card, rating, when
    marks: tuple[tuple[Id, Literal["buried", "suspended", "soon"], str], ...]  # card, kind, value
    settings: dict[str, str]
    interviews: tuple[tuple[Time, Annotated[str, BeforeValidator(_object)]], ...]  # when, the report


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
        return Progress.model_validate_json(file.read_bytes())
    except OSError as error:
        raise DeckError(f"{file}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
        part = fault["loc"][0] if fault["loc"] else "what"
        said = {"what": "this is not progress that rankup exported", "version": "written by a newer rankup"}.get(
            str(part), f"its {part} are not as rankup exports them"
        )
        if fault["type"] == "json_invalid":
            said = "this is not JSON"
        raise DeckError(f"{file}: {said}; nothing was imported") from None


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
