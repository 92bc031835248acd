"""What is wrong with the cards of a folder, held against the syllabus and the questions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from grader.quiz import pictures
from grader.quiz.deck import Card, Deck, DeckError
from grader.quiz.folder import duplicates, load, picture
from grader.quiz.formula import disagreement


def problems(cards_dir: Path, topics: Mapping[str, Sequence[str]], questions: Collection[str]) -> list[str]:
    """One sentence for each problem; none if all is well.

    `topics` holds the levels that each topic of the syllabus needs a card for, `questions` the ids of the interview
    questions, each of which needs a card.
    """
    try:
        decks, found = load(cards_dir)
    except DeckError as error:
        return list(error.problems)
    unread = bool(found)
    found += duplicates(decks)
    for deck in decks:
        for card in deck.cards:
            found += [f"{deck.file}:{card.line}: card {card.id!r} {what}" for what in _of(card, topics, questions)]
    cards = [card for deck in decks for card in deck.cards]
    found += _of_pictures(decks, cards_dir)
    if not unread:  # what is missing may be there, in a deck that cannot be read
        found += _missing(cards, cards_dir, topics, questions)
        found += _unseen(cards, cards_dir)
    return found


def own_problems(own_dir: Path, cards_dir: Path) -> list[str]:
    """One sentence for each problem of the learner's own decks, which may be about anything; none without a folder."""
    decks, found = load(own_dir) if own_dir.is_dir() else ([], [])
    found += duplicates(decks)
    for card in (card for deck in decks for card in deck.cards):
        if card.number is not None and (wrong := disagreement(card.number)):
            found.append(f"{card.file}:{card.line}: card {card.id!r} has {wrong}")
        if card.picture:
            try:
                picture(card, cards_dir)
            except DeckError as error:
                found.append(f"{card.file}:{card.line}: {error}")
    return found


def _of(card: Card, topics: Mapping[str, Sequence[str]], questions: Collection[str]) -> Iterator[str]:
    if card.topic not in topics:
        yield f"is about {card.topic!r}, which is not a topic of the syllabus"
    elif card.level not in topics[card.topic]:
        yield f"has level {card.level}, but {card.topic!r} is not asked at this level"
    if card.asks is not None and card.asks not in questions:
        yield f"belongs to {card.asks!r}, which is not an interview question"
    if card.number is not None and (wrong := disagreement(card.number)):
        yield f"has {wrong}"


def _of_pictures(decks: Sequence[Deck], cards_dir: Path) -> Iterator[str]:
    shown = {card.picture for deck in decks for card in deck.cards if card.picture}
    faults = {picture: pictures.fault(cards_dir / picture) for picture in shown}
    for deck in decks:
        for card in deck.cards:
            if card.picture and (fault := faults[card.picture]):
                yield f"{deck.file}:{card.line}: card {card.id!r}: {cards_dir / card.picture} {fault}"


def _unseen(cards: Sequence[Card], cards_dir: Path) -> Iterator[str]:
    shown = {card.picture for card in cards}
    for path in sorted(cards_dir.rglob("*.svg")):
        if path.relative_to(cards_dir).as_posix() not in shown:
            yield f"{path}: no card shows this picture"


def _missing(
    cards: Sequence[Card], cards_dir: Path, topics: Mapping[str, Sequence[str]], questions: Collection[str]
) -> Iterator[str]:
    covered = {(card.topic, card.level) for card in cards}
    for topic, levels in topics.items():
        for level in levels:
            if (topic, level) not in covered:
                yield f"{cards_dir}: topic {topic!r} has no card of level {level}"
    asked = {card.asks for card in cards}
    for question in questions:
        if question not in asked:
            yield f"{cards_dir}: interview question {question!r} has no card"
