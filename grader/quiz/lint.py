"""What is wrong with the cards of a folder, held against the syllabus and the questions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from grader.quiz.deck import Deck, DeckError
from grader.quiz.folder import duplicates, files, load_file


def problems(
    cards_dir: Path,
    topics: Mapping[str, Sequence[str]],
    questions: Collection[str],
    *,
    chapters: Mapping[str, str] | None = None,
) -> list[str]:
    """One sentence for each problem; none if all is well.

    `topics` holds the levels that each topic of the syllabus needs a card for, `questions` the ids of the interview
    questions. `chapters` says which chapter, that is which deck, a topic belongs to: topics of chapters that have no
    deck yet need no cards. Without `chapters` every topic needs them.
    """
    found: list[str] = []
    decks: list[Deck] = []
    try:
        paths = files(cards_dir)
    except DeckError as error:
        return list(error.problems)
    for path in paths:
        try:
            decks.append(load_file(path))
        except DeckError as error:
            found += error.problems
    found += duplicates(decks)
    for deck in decks:
        for card in deck.cards:
            here = f"{deck.file}:{card.line}: card {card.id!r}"
            if card.topic not in topics:
                found.append(f"{here} is about {card.topic!r}, which is no topic of the syllabus")
            elif card.level not in topics[card.topic]:
                found.append(f"{here} is of level {card.level}, at which {card.topic!r} is not asked")
            if card.asks is not None and card.asks not in questions:
                found.append(f"{here} belongs to {card.asks!r}, which is no interview question")
    covered = {(card.topic, card.level) for deck in decks for card in deck.cards}
    written = {deck.id for deck in decks}
    for topic, levels in topics.items():
        if chapters is None or chapters.get(topic) in written:
            found += [
                f"{cards_dir}: topic {topic!r} has no card of level {level}"
                for level in levels
                if (topic, level) not in covered
            ]
    return found
