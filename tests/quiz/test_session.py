"""A session in this process: what is asked, in which order, and what is said at the end."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from grader.quiz import front, store
from grader.quiz.deck import DeckError
from grader.quiz.plan import Wanted

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def asked(shown: str) -> list[str]:
    return re.findall(r"Question (\S+)\?", shown)


def reviews() -> list[tuple[str, int]]:
    with store.opened() as progress:
        return [(card, rating) for card, rating, _ in progress.reviews()]


def answer(*cards: str, at: datetime = NOON, rating: int = 4) -> None:
    with store.opened() as progress:
        for card in cards:
            progress.answer(card, rating, at)


def test_a_session_asks_shows_rates_and_keeps(decks: Any, run: Any) -> None:
    status, shown = run(decks(d06=["a", "b"]), ["", "3", "", "4"])
    assert (status, reviews()) == (0, [("a", 3), ("b", 4)])
    order = ["1 of 2", "Question a?", "Enter shows", "Answer a.", "1 again", "2 of 2", "Question b?", "Answer b."]
    assert sorted(order, key=shown.index) == order
    assert "Answered 2: 2 new, 0 seen before." in shown
    assert "At the first try 2 right and 0 wrong, in 1 min." in shown
    assert "Due: 1 within the hour, 1 later; the next in 10 minutes. Tomorrow: 0." in shown


def test_due_cards_come_first_the_longest_overdue_before_all(decks: Any, run: Any) -> None:
    folder = decks(d06=["new", "a", "b", "c"])
    answer("b", at=NOON - 300 * DAY)
    answer("a", at=NOON - 200 * DAY)
    answer("c", at=NOON)
    assert asked(run(folder, ["", "4"] * 3)[1]) == ["b", "a", "new"]


@pytest.mark.parametrize(("new", "expected"), [(0, []), (2, ["a", "b"]), (9, ["a", "b", "c"])])
def test_at_most_so_many_new_cards(decks: Any, run: Any, new: int, expected: list[str]) -> None:
    assert asked(run(decks(d06=["a", "b", "c"]), ["", "4"] * 3, new=new)[1]) == expected


def test_again_brings_the_card_back_after_the_others(decks: Any, run: Any) -> None:
    _, shown = run(decks(d06=["a", "b"]), ["", "1", "", "4", "", "1", "", "4"])
    assert asked(shown) == ["a", "b", "a", "a"]
    assert re.findall(r"\d of \d", shown) == ["1 of 2", "2 of 3", "3 of 3", "4 of 4"]
    assert "Answered 2: 2 new, 0 seen before.\nAt the first try 1 right and 1 wrong" in shown


def test_what_is_half_learnt_is_asked_ahead_of_time_when_nothing_else_is_left(decks: Any, run: Any) -> None:
    _, shown = run(decks(d06=["a", "b"]), ["", "3", "", "3", "", "3", "", "3"])
    assert asked(shown) == ["a", "b", "a", "b"]  # and then both are learnt
    assert shown.count("(mid, ahead of time)") == 2


def test_days_in_a_row(decks: Any, run: Any) -> None:
    for days in (5, 2, 1):
        answer("b", at=NOON - days * DAY)
    assert "Days in a row: 2." in run(decks(d06=["a"]), ["q"])[1]  # today is not over
    assert "Days in a row: 3." in run(decks(d06=["a"]), ["", "4"])[1]


def test_retained_counts_the_first_answer_to_cards_seen_before(decks: Any, run: Any) -> None:
    folder = decks(d06=["a", "b", "c"])
    answer("a", "b", at=NOON - 300 * DAY)
    shown = run(folder, ["", "1", "", "2", "", "3", "", "3"])[1]
    assert "Answered 3: 1 new, 2 seen before, 1 of them retained." in shown


ENDS = {
    "q at the question": ["", "3", "q", "3"],
    "q at the rating": ["", "3", "", "Q", "3"],
    "the end of the file": ["", "3"],
    "Ctrl-C at the question": ["", "3", KeyboardInterrupt],
    "Ctrl-C at the rating": ["", "3", "", KeyboardInterrupt],
}


@pytest.mark.parametrize("typed", ENDS.values(), ids=ENDS.keys())
def test_a_session_that_ends_early_keeps_what_was_answered(decks: Any, run: Any, typed: list[Any]) -> None:
    status, shown = run(decks(d06=["a", "b"]), typed)
    assert (status, reviews()) == (0, [("a", 3)])
    assert "Answered 1: 1 new" in shown
    assert "Not seen yet: 1." in shown


def test_only_1_to_4_is_a_rating_and_enter_is_good(decks: Any, run: Any) -> None:
    undecodable = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")
    shown = run(decks(d06=["a"]), ["", "5", "good", undecodable, ""])[1]
    assert shown.count("Type 1, 2, 3 or 4.") == 3
    assert reviews() == [("a", 3)]


def test_nothing_due_says_when_the_next_card_is_and_why_no_other(decks: Any, run: Any) -> None:
    folder = decks(d06=["a", "b"])
    answer("a")
    shown = run(folder, [], new=0)[1]
    assert shown == (
        "Nothing is due.\nDue: 1 later; the next in 8 days. Tomorrow: 0.\nNot seen yet: 1.\n"
        "Today's new cards are used up (at most 0 a day). For more: rankup quiz --new 10.\n"
    )


@pytest.mark.parametrize(("days", "words"), [(0, "in 8 days"), (7, "in 25 hours"), (8, "now")])
def test_how_long_until_the_next(decks: Any, run: Any, days: int, words: str) -> None:
    folder = decks(d06=["a"])
    answer("a")
    now = NOON + days * DAY - (timedelta(hours=1) if days == 7 else timedelta(0))
    assert f"; the next {words}." in run(folder, [], new=0, now=now)[1]


def test_one_deck_or_all(decks: Any, run: Any) -> None:
    folder = decks(d07=["b"], d06=["a"])
    assert asked(run(folder, ["", "4"], deck="07")[1]) == ["b"]
    assert asked(run(folder, ["", "4"] * 2)[1]) == ["a"]


@pytest.mark.parametrize(
    ("cards", "deck", "words"),
    [({"d06": ["a"], "d07": []}, "99", "no deck is called '99'; choose from: 06, 07"), ({}, "99", "from: none yet")],
)
def test_an_unknown_deck_names_those_there_are(decks: Any, run: Any, cards: Any, deck: str, words: str) -> None:
    with pytest.raises(DeckError, match=words):
        run(decks(**cards), [], deck=deck)


def test_no_folder_of_cards_is_one_sentence(tmp_path: Path, run: Any) -> None:
    with pytest.raises(DeckError, match="nowhere: no such folder of cards"):
        run(tmp_path / "nowhere", [])


def test_a_card_whose_text_changed_keeps_its_progress(decks: Any, run: Any) -> None:
    folder = decks(d06=["a"])
    run(folder, ["", "4"])
    file = folder / "06.md"
    file.write_text(file.read_text().replace("Question a?", "Wholly other?").replace("level: mid", "level: senior"))
    assert "Nothing is due." in run(folder, [])[1]
    shown = run(folder, ["", "3"], now=NOON + 30 * DAY)[1]
    assert "Wholly other?" in shown
    assert "Answered 1: 0 new, 1 seen before, 1 of them retained." in shown


def test_a_card_that_another_session_answered_meanwhile_is_not_asked(decks: Any, run: Any) -> None:
    def typed() -> Any:
        yield ""
        answer("b")
        yield from ["4", "", "4"]

    assert asked(run(decks(d06=["a", "b", "c"]), typed())[1]) == ["a", "c"]
    assert reviews() == [("b", 4), ("a", 4), ("c", 4)]


def test_a_clock_that_went_back_shows_and_keeps(decks: Any, run: Any) -> None:
    folder = decks(d06=["a", "b"])
    answer("a")
    status, shown = run(folder, ["", "1", "", "3"], now=NOON - 1000 * DAY)
    assert (status, asked(shown)) == (0, ["a", "b", "a"])  # a, answered in what is the future now, is not lost


NUMBERS = {
    "right": (["8.1"], "Right: it is 8 GiB."),
    "with its unit": (["8 GiB"], "Right: it is 8 GiB."),
    "wrong": (["9"], "Not 9: it is 8 GiB."),
    "not known": ([""], "It is 8 GiB."),
    "no number at first": (["eight", "inf", "8e0"], "Right: it is 8 GiB."),
}


@pytest.mark.parametrize(("typed", "words"), NUMBERS.values(), ids=NUMBERS.keys())
def test_a_number_is_checked_before_the_answer(decks: Any, run: Any, typed: list[str], words: str) -> None:
    file = decks(d06=["a"]) / "06.md"
    file.write_text(file.read_text().replace("kind: qa", "kind: number\nanswer: 8\nunit: GiB\nformula: 8"))
    shown = run(file.parent, [*typed, "3"])[1]
    assert shown.index("Your answer in GiB") < shown.index(words) < shown.index("Answer a.")
    assert shown.count("That is not a number") == len(typed) - 1
    assert reviews() == [("a", 3)]


def test_what_is_hidden_shows_only_in_the_answer(decks: Any, run: Any) -> None:
    file = decks(d06=["a"]) / "06.md"
    file.write_text(file.read_text().replace("kind: qa", "kind: cloze").replace("a?", "the {{ring}}"))
    shown = run(file.parent, ["", "4"])[1]
    question, answer = shown.split("Enter shows the answer")
    assert "[...]" in question
    assert "ring" not in question
    assert "Question the ring" in answer


def test_a_topic_is_no_markup(decks: Any, run: Any) -> None:
    file = decks(d06=["a"]) / "06.md"
    file.write_text(file.read_text().replace("topic: t", "topic: [red]x[/]"))
    assert "[red]x[/]" in run(file.parent, [])[1]


def test_a_standard_input_that_is_closed_ends_the_session(decks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert front.quiz(Wanted(), 10, decks(d06=["a"]), in_lines=True) == 0


def test_a_terminal_that_is_gone_ends_the_session(decks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_: str) -> str:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("builtins.input", lost)
    assert front.quiz(Wanted(), 10, decks(d06=["a"]), in_lines=True) == 0
