"""What is wrong with the decks, all of it at once: for authors, and for a test."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from grader.quiz import deck as decks
from grader.quiz.deck import Card, DeckError


def problems(cards_dir: Path, topics: Mapping[str, Collection[str]], questions: Collection[str]) -> list[str]:
    """One sentence a problem; none if the decks are fit to be learnt from.

    `topics` says which levels each topic must have a card for, `questions` which interview questions must have one. Both
    are those of the chapters that have a deck: cards may name nothing else.
    """
    cards, found = _read(cards_dir)
    found += decks.duplicates(cards)
    for card in cards:
        if card.topic not in topics:
            found.append(f"{card.file}:{card.line}: card {card.id}: the syllabus has no topic {card.topic}")
        if card.question is not None and card.question not in questions:
            found.append(f"{card.file}:{card.line}: card {card.id}: no interview question is called {card.question}")
    there = {(card.topic, card.level) for card in cards}
    for topic, levels in topics.items():
        found += [f"topic {topic} has no card of level {level}" for level in levels if (topic, level) not in there]
    asked = {card.question for card in cards}
    found += [f"question {question} has no card" for question in questions if question not in asked]
    return found


def _read(cards_dir: Path) -> tuple[list[Card], list[str]]:
    """The cards of every deck that can be read, and why the others cannot."""
    cards: list[Card] = []
    found: list[str] = []
    try:
        files = decks.files(cards_dir)
    except DeckError as error:
        return [], [str(error)]
    for path in sorted(cards_dir.glob("*.md")):
        if path not in files.values() and path.name != "README.md":
            found.append(f"{path} is not called like 06-collectives.md, so nobody will see it")
    if not files:
        found.append(f"{cards_dir} has no decks")
    for path in files.values():
        try:
            cards.extend(decks.read(path).cards)
        except DeckError as error:
            found.append(str(error))
    return cards, found
