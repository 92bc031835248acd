"""Plain lines know the same kinds of cards and the same commands as the full screen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from grader.quiz import editor, store
from grader.quiz.deck import DeckError
from grader.quiz.plan import Wanted

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def reviews() -> list[tuple[str, int]]:
    with store.opened() as progress:
        return [(card, rating) for card, rating, _ in progress.reviews()]


KINDS = {
    "qa": (["", "3"], ["Nothing about rank 1"], 3),
    "cloze": (["", "2"], ["A ring has [...] rounds", "2(N-1)"], 2),
    "number": (["650 MB", ""], ["Your answer in MB", "Not 650 MB: it is 700 MB.", "Enter: 1"], 1),
    "choice": (["x", ""], ["Type numbers from 1 to 3", "Halving and doubling", "The right answer is"], 1),
    "order": (["1 2 3", ""], ["Cut the tensor", "Not right: the right order is"], 1),
    "bug": (["2", ""], ["1  def shift(x):", "Right: line 2.", "Enter: 3"], 3),
    "diagram": (["", "4"], ["Picture: Four ranks on a circle", "Four, one a rank."], 4),
}


@pytest.mark.parametrize(("kind", "typed", "shown", "rating"), [(kind, *rest) for kind, rest in KINDS.items()])
def test_each_kind_is_asked(seven: Path, run: Any, kind: str, typed: list[str], shown: list[str], rating: int) -> None:
    if kind == "choice":
        typed = ["x", "", ""]  # no answer; do not know; as suggested
    _, told = run(seven, typed, wanted=Wanted(kinds=(kind,)))
    for words in shown:
        assert words in told
    assert [each for _, each in reviews()][:1] == [rating]


def test_undo_asks_the_card_again(decks: Any, run: Any) -> None:
    shown = run(decks(d06=["a", "b"]), ["", "1", "u", "", "4", "u", "u", "", "3", "", "3"])[1]
    assert "The answer to a is undone." in shown
    assert "There is nothing to undo." in shown
    assert reviews() == [("a", 3), ("b", 3)]
    assert "Answered 2: 2 new" in shown


def test_undo_reaches_an_earlier_session(decks: Any, run: Any) -> None:
    folder = decks(d06=["a", "b"])
    run(folder, ["", "3"])
    shown = run(folder, ["u", "", "4", "q"])[1]
    assert shown.index("Question b?") < shown.index("The answer to a is undone.") < shown.index("Question a?")
    assert reviews() == [("a", 4)]


def test_undo_leaves_what_other_decks_were_answered(decks: Any, run: Any) -> None:
    folder = decks(d06=["a"], d07=["b"])
    run(folder, ["", "4"], deck="06")
    assert "your last answer was to a, which is in another deck" in run(folder, ["u"], deck="07")[1]
    assert reviews() == [("a", 4)]


@pytest.mark.parametrize(("command", "back"), [("b", ["a", "b"]), ("s", ["b"])])
def test_bury_and_suspend(decks: Any, run: Any, command: str, back: list[str]) -> None:
    folder = decks(d06=["a", "b"])
    first = run(folder, [command, "q"])[1]
    assert "Question b?" in first
    assert "Question a?" not in run(folder, ["q"])[1]
    tomorrow = run(folder, ["", "4"] * 2, now=NOON + DAY)[1]
    assert [card for card in ("a", "b") if f"Question {card}?" in tomorrow] == back


def test_the_number_of_new_cards_a_day_counts_over_sessions_and_is_remembered(decks: Any, run: Any) -> None:
    folder = decks(d06=["a", "b", "c", "d"])
    run(folder, ["n 2", "", "4", "q"], new=None)
    assert "Question c?" not in run(folder, ["", "4"] * 3, new=None)[1]
    assert reviews() == [("a", 4), ("b", 4)]
    assert "Question c?" in run(folder, ["q"], new=3)[1]  # for one session
    assert "Nothing is due." in run(folder, [], new=None)[1]
    assert "Question c?" in run(folder, ["q"], new=None, now=NOON + DAY)[1]


def test_what_became_due_meanwhile_is_asked_at_the_end(decks: Any, run: Any) -> None:
    with store.opened() as progress:
        progress.answer("b", 3, NOON - timedelta(minutes=9))
    times = iter([NOON] * 4)

    def typed() -> Any:
        yield ""
        with store.opened() as progress:
            progress.ask_soon(["b"], NOON)
        yield from ["4", "", "4"]

    shown = run(decks(d06=["a", "b"]), typed())[1]
    assert shown.index("Question a?") < shown.index("Question b?")
    assert next(times)


def test_what_went_wrong_in_an_interview_comes_first(decks: Any, run: Any) -> None:
    with store.opened() as progress:
        progress.ask_soon(["c"], NOON)
    shown = run(decks(d06=["a", "b", "c"]), ["", "4"], new=1)[1]
    assert "Question c?" in shown
    assert "Question a?" not in shown


def test_statistics_and_help(decks: Any, run: Any) -> None:
    shown = run(decks(d06=["a"]), ["t", "?", "q"])[1]
    assert "Due in the next 30 days" in shown
    assert "undo, even what an earlier session did" in shown


def test_trouble_with_the_database_is_told_and_the_card_stays(
    decks: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = DeckError("quiz.sqlite3: your progress cannot be read or written: database or disk is full")
    record, troubles = store.Store.record, [full]

    def once_full(*given: Any) -> Any:
        if troubles:
            raise troubles.pop()
        return record(*given)

    monkeypatch.setattr(store.Store, "record", once_full)
    assert "disk is full." in run(decks(d06=["a"]), ["", "3", "4"])[1]
    assert reviews() == [("a", 4)]


def test_edit(decks: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = decks(d06=["a", "b"])
    file, text = folder / "06.md", (folder / "06.md").read_text()
    edits = iter(
        [text.replace("Question a?", "Quite other?"), text.replace("## a", "## A"), text.replace("## a", "## z")]
    )
    monkeypatch.setattr(editor, "edit", lambda *_: file.write_text(next(edits)))
    shown = run(folder, ["e", "e", "e", "", "3"])[1]
    assert "Quite other?" in shown
    assert "06.md:6: 'A' is not an id for a card" in shown
    assert "the session continues with the cards as they were" in shown
    assert reviews() == [("b", 3)]  # a is gone, z is not in this session's queue


EDITORS = {
    "vim": ("vim", ["vim", "+7", "x.md"]),
    "with words": ("emacs -nw", ["emacs", "-nw", "+7", "x.md"]),
    "vs code": ("code", ["code", "--wait", "--goto", "x.md:7"]),
    "helix": ("/usr/bin/hx", ["/usr/bin/hx", "x.md:7"]),
}


@pytest.mark.parametrize(("wanted", "expected"), EDITORS.values(), ids=EDITORS.keys())
def test_editors_open_at_the_line(monkeypatch: pytest.MonkeyPatch, wanted: str, expected: list[str]) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", wanted)
    assert editor.command(Path("x.md"), 7) == expected


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("no-such-editor", "cannot be run"), ("false", "ended with status 1"), ("vim '", "No closing quotation")],
)
def test_an_editor_that_fails_is_one_sentence(
    decks: Any, run: Any, monkeypatch: pytest.MonkeyPatch, wanted: str, said: str
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", wanted)
    shown = run(decks(d06=["a"]), ["e", "", "3"])[1]
    assert said in shown
    assert reviews() == [("a", 3)]


def test_no_editor_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(editor.shutil, "which", lambda _: None)
    with pytest.raises(DeckError, match="EDITOR=nano"):
        editor.command(Path("x.md"), 1)


def test_topics_levels_and_kinds(seven: Path, run: Any) -> None:
    wanted = Wanted(topics=("ring-all-reduce",), levels=("senior", "principal"), kinds=("bug",))
    shown = run(seven, ["2", "3"], wanted=wanted)[1]
    assert reviews() == [("fault", 3)]
    assert "Answered 1: 1 new" in shown
