"""The decks of a folder, read from its files; and the learner's own, which stand beside the course's.

The learner's are in `cards` in the folder of the progress. A card there that has the id of one of the course's stands
in its place: that is how a card of the course is edited.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from grader.quiz.deck import Card, Deck, DeckError
from grader.quiz.markdown import collect, read
from grader.quiz.parser import parse
from grader.quiz.schema import path
from grader.quiz.whole import write_whole

_FIRST = """\
---
deck: "{name}"
title: My cards
---

## {name}-first
level: mid
topic: my-own
kind: qa

Write a question here. Which other kinds are there?

---

cloze, number, choice, order, bug and diagram. Our decks show how each is written: `rankup cards list --kind cloze`.
"""


def load_folder(folder: Path) -> list[Deck]:
    """Every deck of a folder, by id. Raises DeckError for broken files, or an id that two decks use."""
    decks, problems = load(folder)
    if problems := problems or duplicates(decks):
        raise DeckError(*problems)
    return sorted(decks, key=lambda deck: deck.id)


def own() -> Path:
    """The folder of the learner's own decks; it need not be there."""
    return path().parent / "cards"


def load_all(folder: Path) -> list[Deck]:
    """Every deck of a folder and of the learner's, by id. Raises DeckError as `load_folder` does."""
    return beside(load_folder(folder), load_folder(own()) if own().is_dir() else [])


def beside(ours: Sequence[Deck], mine: Sequence[Deck]) -> list[Deck]:
    """The learner's cards of decks and cards that we have in their places, and what only the learner has after them."""
    cards = {card.id: card for deck in mine for card in deck.cards}
    known = {card.id for deck in ours for card in deck.cards}
    more = {deck.id: tuple(card for card in deck.cards if card.id not in known) for deck in mine}
    found = {deck.id: deck for deck in mine} | {deck.id: deck for deck in ours}
    for deck in ours:
        here = tuple(replace(cards.get(card.id, card), deck=deck.id) for card in deck.cards)
        found[deck.id] = replace(deck, cards=(*here, *more.pop(deck.id, ())))
    for name, rest in more.items():
        found[name] = replace(found[name], cards=rest)
    return [found[name] for name in sorted(found)]


def picture(card: Card, folder: Path) -> Path:
    """The file of a diagram: by its deck, or else in `folder`, for a copy. Raises DeckError if it is not there."""
    if not card.picture:
        raise DeckError(f"card {card.id!r} has no picture")
    found = [each for each in (Path(card.file).parent / card.picture, folder / card.picture) if each.is_file()]
    if not found:
        raise DeckError(f"{folder / card.picture}: no such picture")
    return found[0]


def chosen(folder: Path, deck: str | None) -> list[Deck]:
    """The deck of that id, or every deck if it is None. Raises DeckError, also if there is none."""
    decks = load_all(folder)
    if deck is not None and deck not in {each.id for each in decks}:
        there = ", ".join(each.id for each in decks) or "none yet"
        raise DeckError(f"no deck is called {deck!r}; choose from: {there}")
    return [each for each in decks if deck in (None, each.id)]


def load(folder: Path) -> tuple[list[Deck], list[str]]:
    """The decks of a folder that can be read, and what is wrong with the others. Raises DeckError without a folder."""
    if not folder.is_dir():
        raise DeckError(f"{folder}: no such folder of cards")
    return collect(folder, lambda file: parse(read(file), str(file)))


def duplicates(decks: Iterable[Deck]) -> list[str]:
    """What is wrong about ids that are used twice: of decks, and of cards across decks."""
    found: list[str] = []
    seen_decks: dict[str, str] = {}
    seen_cards: dict[str, str] = {}
    for deck in decks:
        if (first := seen_decks.setdefault(deck.id, deck.file)) != deck.file:
            found.append(f"{deck.file}:1: deck {deck.id!r} is also in {first}; an id is for one deck")
        for card in deck.cards:
            here = f"{deck.file}:{card.line}"
            if (first := seen_cards.setdefault(card.id, here)) != here:
                found.append(f"{here}: card {card.id!r} is also at {first}; an id is for one card")
    return found


def begin(name: str) -> Path:
    """Begin a deck of the learner's own, with a card to be changed; returns its file. Raises DeckError."""
    file = own() / f"{name}.md"
    text = _FIRST.format(name=name)
    parse(text, str(file))  # says what is wrong with the name
    if file.exists():
        raise DeckError(f"{file}: there is such a deck already; edit it")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeckError(f"{file}: cannot be written: {error.strerror}") from None
    write_whole(file, text)
    return file
