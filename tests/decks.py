"""The course's decks, read once for all tests of a worker: reading them takes most of a second."""

from __future__ import annotations

from functools import cache

from grader import catalog
from grader.quiz.deck import Card, Deck
from grader.quiz.folder import load_folder


@cache
def course() -> list[Deck]:
    """Every deck, by id."""
    return load_folder(catalog.cards())


@cache
def cards() -> list[Card]:
    """Every card, by deck."""
    return [card for deck in course() for card in deck.cards]
