"""All that is remembered comes together: on the terminal, as JSON and as a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import decks
import pytest

from grader import catalog, progress, reading
from grader.quiz.interview.task import Done, Interview, Ticked, to_json
from grader.quiz.store import opened
from grader.standing import gather, page, terminal
from grader.standing.gather import Asked, Cards
from grader.submission import BadRequest
from grader.verdict import CheckResult, Verdict

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def held(met: int) -> Interview:
    """An interview of one question on the ring, whose answer had so many of five points."""
    ticked = tuple(Ticked(f"point {number}", number < met) for number in range(5))
    done = Done("q-ring", "q-ring", "", "training", "ring-all-reduce", "senior", "", 6, 60, "", "rated", ticked)
    return Interview(f"key {met}", "senior", 30, 1, NOW.isoformat(), NOW.isoformat(), 1, done=(done,))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Progress of a learner who read some of chapter 06, tried the ring, answered two cards and held an interview."""
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path))
    notebook = catalog.chapter_notebook("06")
    assert notebook is not None
    for digest in reading.cells(notebook)[:3]:
        progress.record_cell("06", digest)
    progress.record_cell("06", "of a cell that is gone")
    for points in (12.0, 4.0):
        some, rest = CheckResult("some", "Some", points, points, "pass"), 20 - points
        others = CheckResult("others", "Others", 0, rest, "fail")
        progress.record(Verdict("ring_all_reduce", (some, others), 7, 1.0, ("sim",)))
    cards = next(deck for deck in decks.course() if deck.id == "06").cards
    with opened() as store:
        store.answer(cards[0].id, 1, NOW - timedelta(days=3))
        store.answer(cards[1].id, 4, NOW - timedelta(hours=1))
        for met in (4, 1):
            store.keep_interview(to_json(held(met)), NOW)
    return tmp_path


@pytest.mark.usefixtures("data")
def test_everything_is_there() -> None:
    standing = gather.gather(NOW)
    part = next(part for part in standing.parts if part.id == "06")
    assert part.run == 3 < part.cells
    ring = next(each for each in part.exercises if each.name == "ring_all_reduce")
    assert (ring.points, ring.max_points, ring.attempts, ring.done) == (12, 20, 2, False)
    assert "ring-all-reduce" in ring.topics
    assert (part.cards.seen, part.cards.due) == (2, 1)
    assert part.asked == Asked(1, 5), "what the last interview on a topic found is what counts"
    assert standing.last_interview == NOW
    assert standing.overdue_days == pytest.approx(3, abs=0.1)


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("put_aside", ["bury", "suspend"])
def test_a_card_that_the_quiz_would_not_ask_is_not_due(put_aside: str) -> None:
    card = next(deck for deck in decks.course() if deck.id == "06").cards[0].id
    with opened() as store:
        store.suspend(card) if put_aside == "suspend" else store.bury(card, NOW)
    standing = gather.gather(NOW)
    assert standing.due == 0
    assert standing.overdue_days == 0


def test_a_new_learner_stands_at_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path / "not" / "there"))
    standing = gather.gather(NOW)
    assert standing.points == standing.due == 0
    assert all(part.run == 0 and part.cards.seen == 0 for part in standing.parts)


@pytest.mark.usefixtures("data")
def test_the_page_says_what_the_json_says() -> None:
    standing = gather.gather(NOW)
    told, shown = json.loads(json.dumps(terminal.to_json(standing))), page.page(standing)
    assert told["points"] == 12
    assert told["cards_due"] == 1
    for part in told["chapters"]:
        assert part["title"].partition("'")[0] in shown
        for each in part["exercises"]:
            assert each["name"] in shown
    for step in told["next"]:
        assert step["command"] in shown
    assert "<script" not in shown


@pytest.mark.usefixtures("data")
def test_the_terminal_shows_it_in_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show(gather.gather(NOW))
    shown = capsys.readouterr().out
    assert "12/20 points" in shown
    assert "interviews 20%" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "ring_all_reduce" in shown
    assert "What to do next" in shown


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "progress.sqlite3").write_text("no database, but long enough to be looked at as one " * 20)
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path))
    with pytest.raises(BadRequest, match=r"progress\.sqlite3: your progress cannot be read or written"):
        gather.gather(NOW)


def test_no_cards_are_no_zero_division() -> None:
    assert gather.Part("01", "Why", False).read == Asked().share == Cards(0).seen == 0
