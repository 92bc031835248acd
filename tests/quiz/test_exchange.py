"""Progress exported and imported: whole, united, or refused with one sentence and nothing changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from grader.quiz import exchange, front, store, whole
from grader.quiz.deck import DeckError
from grader.quiz.schedule import AGAIN, EASY, GOOD

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def everything(file: Path) -> dict[str, Any]:
    with store.opened(file) as progress:
        return progress.export()


def machine(file: Path, *answers: tuple[str, int, int]) -> Path:
    """A database with answers: the card, the rating, days after noon."""
    with store.opened(file) as progress:
        for card, rating, days in answers:
            progress.answer(card, rating, NOON + days * DAY)
    return file


def merge(into: Path, source: Path, via: Path) -> None:
    exchange.write(everything(source), via)
    with store.opened(into) as progress:
        progress.merge(exchange.read(via))


def test_an_export_gives_everything_elsewhere(tmp_path: Path) -> None:
    here = machine(tmp_path / "a.sqlite3", ("a", GOOD, 0), ("b", EASY, 0), ("a", AGAIN, 1))
    with store.opened(here) as progress:
        progress.suspend("b")
        progress.bury("a", NOON)
        progress.ask_soon(["never"], NOON)
        progress.set_new_a_day(4)
        progress.keep_interview({"score": 0.5}, NOON)
    there = tmp_path / "b.sqlite3"
    merge(there, here, tmp_path / "progress.json")
    assert everything(there) == everything(here)
    merge(there, here, tmp_path / "progress.json")  # and a second time nothing is doubled
    assert everything(there) == everything(here)


def test_the_memory_that_was_reviewed_last_wins_and_reviews_are_united(tmp_path: Path) -> None:
    one = machine(tmp_path / "a.sqlite3", ("both", GOOD, 0), ("mine", GOOD, 0), ("both", GOOD, 5))
    two = machine(tmp_path / "b.sqlite3", ("both", GOOD, 0), ("both", AGAIN, 3), ("theirs", GOOD, 1))
    ones, twos = everything(one), everything(two)
    merge(one, two, tmp_path / "x.json")
    merge(two, one, tmp_path / "y.json")
    for united in (everything(one), everything(two)):
        assert united["memories"] == {**twos["memories"], **ones["memories"]}
        assert sorted(map(tuple, united["reviews"])) == sorted(
            {tuple(row) for row in ones["reviews"] + twos["reviews"]}
        )


def test_what_was_answered_before_an_import_is_not_undone(tmp_path: Path) -> None:
    one, two = machine(tmp_path / "a.sqlite3", ("a", GOOD, 0)), machine(tmp_path / "b.sqlite3", ("a", AGAIN, 1))
    merge(one, two, tmp_path / "x.json")
    with store.opened(one) as progress:
        assert progress.undo() is None
        progress.answer("a", GOOD, NOON + 2 * DAY)
        assert progress.undo() is not None
        assert progress.undo() is None


def test_what_stays_here_stays(tmp_path: Path) -> None:
    one, two = machine(tmp_path / "a.sqlite3"), machine(tmp_path / "b.sqlite3")
    for file, cards in ((one, 3), (two, 5)):
        with store.opened(file) as progress:
            progress.set_new_a_day(cards)
    merge(one, two, tmp_path / "x.json")
    with store.opened(one) as progress:
        assert progress.new_a_day() == 3


Spoil = Callable[[dict[str, Any]], Any]
BROKEN: dict[str, Spoil] = {
    "no list": lambda data: data.update(reviews=7),
    "no rating": lambda data: data["reviews"].append(["a", 5, NOON.isoformat()]),
    "a rating that is true": lambda data: data["reviews"].append(["a", True, NOON.isoformat()]),
    "no time": lambda data: data["reviews"].append(["a", 3, "yesterday"]),
    "a time without its zone": lambda data: data["reviews"].append(["a", 3, "2026-03-01T12:00:00"]),
    "too short a row": lambda data: data["reviews"].append(["a", 3]),
    "a part is missing": lambda data: data.pop("memories"),
    "a memory of nothing": lambda data: data["memories"].update(a={}),
    "a memory that is no number": lambda data: data["memories"]["a"].update(stability=float("nan")),
    "a memory for ever": lambda data: data["memories"]["a"].update(due="9999-01-01T00:00:00+00:00"),
    "an unknown mark": lambda data: data["marks"].append(["a", "hidden", ""]),
    "an interview without a report": lambda data: data["interviews"].append([NOON.isoformat(), 3]),
    "something else": lambda data: data.update(what="a cake"),
    "a newer version": lambda data: data.update(version=99),
}


@pytest.mark.parametrize("spoil", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_broken_is_one_sentence_and_changes_nothing(tmp_path: Path, database: Path, spoil: Spoil) -> None:
    data = everything(machine(database, ("a", GOOD, 0)))
    spoil(data)
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(data))
    before = everything(database)
    with pytest.raises(DeckError, match=r"\A[^\n]*broken\.json: [^\n]*\Z"):
        front.import_(file)
    assert everything(database) == before


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"[" * 100_000, b"null"])
def test_what_is_no_export_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.json"
    file.write_bytes(content)
    with pytest.raises(DeckError, match=r"\A[^\n]*broken\.json: this is not [^\n]*\Z"):
        exchange.read(file)


def test_an_export_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "out" / "progress.json"
    file.parent.mkdir()
    front.export(file)
    old = file.read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(whole.os, "fsync", full)
        with pytest.raises(DeckError, match=r"progress\.json: cannot be written: No space left"):
            front.export(file)
    assert file.read_text() == old
    assert [each.name for each in file.parent.iterdir()] == ["progress.json"]
    front.export(file)
    assert json.loads(file.read_text())["what"] == "rankup quiz progress"
