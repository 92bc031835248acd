"""The decks of a folder, read from its files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from grader.quiz.deck import Deck, DeckError
from grader.quiz.parser import parse


def load_folder(folder: Path) -> list[Deck]:
    """Every deck of a folder, by id. Raises DeckError for a broken file, or an id that two decks use."""
    decks = [load_file(path) for path in files(folder)]
    if twice := duplicates(decks):
        raise DeckError(*twice)
    return sorted(decks, key=lambda deck: deck.id)


def chosen(folder: Path, deck: str | None) -> list[Deck]:
    """The deck of that id, or every deck if it is None. Raises DeckError, also if there is none."""
    decks = load_folder(folder)
    if deck is not None and deck not in {each.id for each in decks}:
        there = ", ".join(each.id for each in decks) or "none yet"
        raise DeckError(f"no deck is called {deck!r}; there are: {there}")
    return [each for each in decks if deck in (None, each.id)]


def files(folder: Path) -> list[Path]:
    """The decks' files. Raises DeckError if there is no such folder."""
    if not folder.is_dir():
        raise DeckError(f"{folder}: no such folder of cards")
    return sorted(folder.glob("*.md"))


def load_file(path: Path) -> Deck:
    """The deck of one file. Raises DeckError, with FILE:LINE and what is wrong there."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DeckError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return parse(data.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DeckError(f"{path}:{line}: not UTF-8, byte 0x{data[error.start]:02x}") from None


def duplicates(decks: Iterable[Deck]) -> list[str]:
    """What is wrong about ids that are used twice: of decks, and of cards across decks."""
    found: list[str] = []
    seen_decks: dict[str, str] = {}
    seen_cards: dict[str, str] = {}
    for deck in decks:
        if (first := seen_decks.setdefault(deck.id, deck.file)) != deck.file:
            found.append(f"{deck.file}:1: deck {deck.id!r} is also {first}")
        for card in deck.cards:
            here = f"{deck.file}:{card.line}"
            if (first := seen_cards.setdefault(card.id, here)) != here:
                found.append(f"{here}: card {card.id!r} is also at {first}; an id is for one card")
    return found
