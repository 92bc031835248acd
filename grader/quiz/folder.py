"""The decks of a folder, read from its files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from grader.quiz.deck import Deck, DeckError
from grader.quiz.markdown import collect, read
from grader.quiz.parser import parse


def load_folder(folder: Path) -> list[Deck]:
    """Every deck of a folder, by id. Raises DeckError for broken files, or an id that two decks use."""
    decks, problems = load(folder)
    if problems := problems or duplicates(decks):
        raise DeckError(*problems)
    return sorted(decks, key=lambda deck: deck.id)


def chosen(folder: Path, deck: str | None) -> list[Deck]:
    """The deck of that id, or every deck if it is None. Raises DeckError, also if there is none."""
    decks = load_folder(folder)
    if deck is not None and deck not in {each.id for each in decks}:
        there = ", ".join(each.id for each in decks) or "none yet"
        raise DeckError(f"no deck is called {deck!r}; choose from: {there}")
    return [each for each in decks if deck in (None, each.id)]


def load(folder: Path) -> tuple[list[Deck], list[str]]:
    """The decks of a folder that can be read, and what is wrong with the others. Raises DeckError without a folder."""
    if not folder.is_dir():
        raise DeckError(f"{folder}: no such folder of cards")
    return collect(folder, lambda path: parse(read(path), str(path)))


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
