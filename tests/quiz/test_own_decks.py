"""Decks of the learner's own, and copies of ours that are edited."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from grader.quiz import apkg, editor, folder, front, lint
from grader.quiz.deck import Card, DeckError


def ids(folder_: Path) -> dict[str, list[str]]:
    return {deck.id: [card.id for card in deck.cards] for deck in folder.load_all(folder_)}


def write(name: str, deck: str, *cards: str, question: str = "Mine?") -> Path:
    file = folder.own() / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    texts = [f"## {card}\nlevel: mid\ntopic: t\nkind: qa\n\n{question}\n\n---\n\nYes.\n" for card in cards]
    file.write_text("\n".join([f'---\ndeck: "{deck}"\ntitle: Own\n---\n', *texts]))
    return file


def card(folder_: Path, name: str) -> Card:
    return next(card for deck in folder.load_all(folder_) for card in deck.cards if card.id == name)


@pytest.fixture
def edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An editor that replaces one text by another; it keeps the words that it was called with."""

    def into(old: str, new: str) -> Path:
        script, said = tmp_path / "edit", tmp_path / "said"
        script.write_text(f'#!/bin/sh\necho "$1" > {said}\nsed -i "s/{old}/{new}/" "$2"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("VISUAL", str(script))
        return said

    return into


def test_own_decks_stand_beside_ours_and_own_cards_in_the_place_of_ours(decks: Any) -> None:
    ours = decks(d06=["a", "b", "c"], d07=["d"])
    write("mine", "zz", "x", "d")
    write("06", "06", "b", "y")
    assert ids(ours) == {"06": ["a", "b", "c", "y"], "07": ["d"], "zz": ["x"]}
    assert [(card(ours, name).question, card(ours, name).deck) for name in ("a", "b", "d")] == [
        ("Question a?", "06"), ("Mine?", "06"), ("Mine?", "07"),
    ]  # fmt: skip


def test_own_decks_are_asked_exported_and_checked(decks: Any, run: Any, tmp_path: Path) -> None:
    ours = decks(d06=["a"])
    file = write("mine", "zz", "x")
    assert "Mine?" in run(ours, ["q"], deck="zz")[1]
    assert apkg.export(folder.chosen(ours, "zz"), ours, tmp_path / "x.apkg") == 1
    assert lint.own_problems(folder.own(), ours) == []
    file.write_text(file.read_text().replace("## x", "## X"))
    assert lint.own_problems(folder.own(), ours)[0].startswith(f"{file}:6: 'X' is not an id")
    with pytest.raises(DeckError, match="'X' is not an id"):
        run(ours, ["q"])


def test_our_card_is_edited_as_a_copy_of_the_learners_own(decks: Any, run: Any, edits: Any) -> None:
    ours = decks(d06=["a", "b", "c"])
    before = (ours / "06.md").read_text()
    said = edits("Question b?", "Quite other?")
    run(ours, ["", "4", "e", "q"])
    copy = folder.own() / "06.md"
    assert said.read_text() == f"+{copy.read_text().split(chr(10)).index('## b') + 1}\n"
    assert (ours / "06.md").read_text() == before
    assert ids(ours) == {"06": ["a", "b", "c"]}
    assert card(ours, "b").question == "Quite other?"
    edits("Quite other?", "Once more?")  # now it is theirs
    editor.edit(card(ours, "b"))
    edits("Question c?", "Third?")
    editor.edit(card(ours, "c"))
    assert [card(ours, name).question for name in ("a", "b", "c")] == ["Question a?", "Once more?", "Third?"]


def test_a_copy_that_was_not_changed_does_not_stay(decks: Any, edits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = decks(d06=["a", "b"])
    edits("nothing", "at all")
    editor.edit(card(ours, "a"))
    assert not (folder.own() / "06.md").exists()
    write("06", "06", "y")
    kept = (folder.own() / "06.md").read_text()
    monkeypatch.setenv("VISUAL", "false")
    with pytest.raises(DeckError, match="ended with status 1"):
        editor.edit(card(ours, "a"))
    assert (folder.own() / "06.md").read_text() == kept


def test_a_copy_that_an_edit_broke_is_opened_again(decks: Any, run: Any, edits: Any) -> None:
    ours = decks(d06=["a"])
    edits("level: mid", "level: low")
    seen = card(ours, "a")
    editor.edit(seen)
    with pytest.raises(DeckError, match="the session continues"):
        editor.read_again(ours)
    edits("level: low", "level: senior")
    editor.edit(seen)
    assert card(ours, "a").level == "senior"


def test_a_copied_diagram_finds_our_picture(seven: Path, edits: Any) -> None:
    diagram = next(card for deck in folder.load_all(seven) for card in deck.cards if card.picture)
    edits("level: ", "level:  ")
    editor.edit(diagram)
    copy = card(seven, diagram.id)
    assert Path(copy.file).parent == folder.own()
    assert folder.picture(copy, seven) == seven / diagram.picture


@pytest.mark.parametrize(("name", "said"), [("My Deck", "deck"), ("mine", "there is such a deck already")])
def test_a_deck_is_begun_once(tmp_path: Path, name: str, said: str) -> None:
    tmp_path.mkdir(exist_ok=True)
    file = folder.begin("mine")
    assert [card.deck for deck in folder.load_folder(folder.own()) for card in deck.cards] == ["mine"]
    with pytest.raises(DeckError, match=said):
        folder.begin(name)
    assert list(folder.own().iterdir()) == [file]


def test_an_export_replaces_an_earlier_export_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    front.export(file)
    front.export(file)
    file.write_text("precious")
    with pytest.raises(DeckError, match="no earlier export"):
        front.export(file)
    assert file.read_text() == "precious"
