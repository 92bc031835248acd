"""Decks as Anki opens them: the `anki` package, which is Anki without its windows, imports what is exported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import decks
import pytest

from grader import catalog
from grader.quiz import apkg, html
from grader.quiz.deck import Deck, DeckError
from grader.quiz.parser import parse

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

CARD = "\n## {}\nlevel: senior\ntopic: ring\nkind: {}\n{}\n"
HEAD = '---\ndeck: "06"\ntitle: Rings :: and <trees>\n---\n'
SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><circle r="3"/></svg>'
KINDS = {
    "qa": CARD.format("a-qa", "qa", "question: q-ring\n\n| a | b |\n|---|---|\n| `x<y` | <b> |\n\n---\n\nA & B."),
    "cloze": CARD.format("a-cloze", "cloze", "\nA {{ring}} sends {{`2::(N-1)`}} chunks.\n\n---\n\nBecause."),
    "number": CARD.format("a-number", "number", "answer: 6\nunit: GB\nformula: 2 * 3\n\nHow much?\n\n---\n\n2 x 3."),
    "choice": CARD.format(
        "a-choice", "choice", "\nWhich?\n\n- [ ] one\n  Too few.\n- [x] `two`\n- [ ] three\n  Too many.\n\n---\n\nYes."
    ),
    "order": CARD.format("an-order", "order", "\nHow?\n\n---\n\n1. first\n2. second\n3. third\n\nSo."),
    "bug": CARD.format("a-bug", "bug", "line: 2\n\n```python\nif a < b:\n    c = 1\n```\n\n---\n\nNo."),
    "diagram": CARD.format("a-diagram", "diagram", "picture: pictures/p.svg\nalt: A run.\n\nWho?\n\n---\n\nRank 1."),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the pictures of the decks are."""
    (tmp_path / "cards" / "pictures").mkdir(parents=True)
    (tmp_path / "cards" / "pictures" / "p.svg").write_text(SVG)
    return tmp_path / "cards"


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Any]:
    """A new collection of Anki's."""
    from anki.collection import Collection

    opened = Collection(str(tmp_path / "collection.anki2"))
    yield opened
    opened.close()


def deck(*cards: str) -> Deck:
    return parse(HEAD + "".join(cards), "06.md")


def take_in(collection: Any, path: Path) -> Any:
    """Import as Anki's window does where nobody changes a setting; what it says it did."""
    from anki.collection import ImportAnkiPackageRequest

    options = collection._backend.get_import_anki_package_presets()
    return collection.import_anki_package(ImportAnkiPackageRequest(package_path=str(path), options=options)).log


def note_of(collection: Any, card: str) -> Any:
    (note,) = collection.find_notes(f"Id:{card}")
    return collection.get_note(note)


def test_every_kind_is_a_note_with_its_deck_tags_and_picture(tmp_path: Path, folder: Path, collection: Any) -> None:
    out = tmp_path / "out.apkg"
    assert apkg.export([deck(*KINDS.values())], folder, out) == len(KINDS)
    assert len(take_in(collection, out).new) == len(KINDS)
    assert collection.card_count() == collection.note_count() == len(KINDS)
    assert collection.decks.id_for_name("rankup::06 Rings : and <trees>")
    tags = {"level::senior", "topic::ring", "kind::qa", "chapter::06", "question::q-ring"}
    assert set(note_of(collection, "a-qa").tags) == tags
    assert Path(collection.media.dir(), "rankup-p.svg").read_text() == SVG
    assert collection.media.check().missing == []


SHOWN = {
    "a-qa": (["<td><code>x&lt;y</code></td>", "<td>&lt;b&gt;</td>"], ["A &amp; B."]),
    "a-cloze": (["[...]</span> sends"], ["ring</span> sends", "2&#58;&#58;(N-1)", "Because."]),
    "a-number": (["In GB, within 2 %."], ["6 GB", "2 x 3."]),
    "a-choice": (
        ["Which?", "<li>one</li>", "<li><code>two</code></li>"],
        ["Right:</strong> <code>two", "Too few."],
    ),
    "an-order": (["Put these in order", "<li>second</li>"], ["<ol>\n<li>first</li>", "So."]),
    "a-bug": (["1 </span> if a &lt; b:\n", "2 </span>     c = 1\n"], ["Line 2: <code>c = 1</code>"]),
    "a-diagram": (['<img src="rankup-p.svg" alt="A run.">'], ["Rank 1."]),
}


@pytest.mark.parametrize("card", SHOWN)
def test_anki_shows_both_sides(tmp_path: Path, folder: Path, collection: Any, card: str) -> None:
    apkg.export([deck(*KINDS.values())], folder, tmp_path / "out.apkg")
    take_in(collection, tmp_path / "out.apkg")
    shown = note_of(collection, card).cards()[0]
    question, answer = shown.question(), shown.answer()
    asked, told = SHOWN[card]
    assert all(each in question for each in asked), question
    assert all(each in answer for each in told), answer
    assert not any(each in question for each in told), question


def test_a_newer_package_updates_the_notes_and_keeps_the_reviews(tmp_path: Path, folder: Path, collection: Any) -> None:
    from anki.scheduler.v3 import CardAnswer

    first, second = tmp_path / "1.apkg", tmp_path / "2.apkg"
    apkg.export([deck(*KINDS.values())], folder, first, now=1_700_000_000)
    take_in(collection, first)
    collection.decks.select(collection.decks.id_for_name("rankup"))
    queued = collection.sched.get_queued_cards().cards[0]
    card = collection.get_card(queued.card.id)
    card.start_timer()
    answer = collection.sched.build_answer(card=card, states=queued.states, rating=CardAnswer.EASY)
    collection.sched.answer_card(answer)
    card.load()
    known = (card.due, card.ivl, card.reps, card.type)
    assert card.reps == 1

    changed = KINDS["qa"].replace("A & B.", "Another text.")
    apkg.export([deck(changed, *list(KINDS.values())[1:])], folder, second, now=1_700_009_000)
    log = take_in(collection, second)
    assert (len(log.new), collection.card_count(), collection.note_count()) == (0, len(KINDS), len(KINDS))
    assert "Another text." in note_of(collection, "a-qa")["Answer"]
    card.load()
    assert (card.due, card.ivl, card.reps, card.type) == known


def test_the_courses_cards_open_in_anki(tmp_path: Path, collection: Any) -> None:
    count = apkg.export(decks.course(), catalog.cards(), tmp_path / "course.apkg")
    log = take_in(collection, tmp_path / "course.apkg")
    assert count == collection.card_count() == len(log.new) == sum(len(each.cards) for each in decks.course())
    names = {each.name for each in collection.decks.all_names_and_ids()}
    assert {f"rankup::{each.id} {each.title}" for each in decks.course()} <= names
    assert collection.media.check().missing == []
    pictures = {html.picture_name(card) for each in decks.course() for card in each.cards if card.picture}
    assert pictures <= set(os.listdir(collection.media.dir()))


def test_the_steps_of_an_order_are_never_asked_in_order() -> None:
    for at in range(50):
        (card,) = deck(KINDS["order"].replace("an-order", f"order-{at}")).cards
        assert sorted(html.shuffled(card)) == sorted(card.steps)
        assert html.shuffled(card) != list(card.steps)


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path, folder: Path) -> None:
    out = tmp_path / "out.apkg"
    out.write_text("mine")
    (folder / "pictures" / "p.svg").unlink()
    with pytest.raises(DeckError, match=r"p\.svg: no such picture"):
        apkg.export([deck(KINDS["diagram"])], folder, out)
    assert out.read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cards", "out.apkg"]


def test_two_pictures_of_one_name_are_refused(tmp_path: Path, folder: Path) -> None:
    other = KINDS["diagram"].replace("a-diagram", "b").replace("pictures/p", "pictures/more/p")
    (folder / "pictures" / "more").mkdir()
    (folder / "pictures" / "more" / "p.svg").write_text("<svg/>")
    with pytest.raises(DeckError, match="another picture has the same name"):
        apkg.export([deck(KINDS["diagram"], other)], folder, tmp_path / "out.apkg")
