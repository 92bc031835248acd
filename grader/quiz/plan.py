"""Which cards are asked, and in which order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

from grader.quiz.deck import KINDS, LEVELS, Card, Deck, DeckError
from grader.quiz.schedule import Memory


@dataclass(frozen=True)
class Wanted:
    """What the learner wants to be asked; an empty part means all of it."""

    decks: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def accepts(self, card: Card) -> bool:
        pairs = ((card.deck, self.decks), (card.topic, self.topics), (card.level, self.levels), (card.kind, self.kinds))
        return all(not wanted or has in wanted for has, wanted in pairs)


@dataclass(frozen=True)
class Plan:
    """The cards to ask now: those that are due, then new ones."""

    due: tuple[Card, ...]
    new: tuple[Card, ...]

    @property
    def cards(self) -> tuple[Card, ...]:
        return self.due + self.new


def choose(wanted: Wanted, decks: Sequence[Deck]) -> list[Card]:
    """The cards of `decks` that are wanted, in their order. Raises DeckError for a name that nothing has."""
    there = [deck.id for deck in decks]
    for name in wanted.decks:
        if name not in there:
            raise DeckError(f"no deck is called {name!r}; choose from: {', '.join(there) or 'none yet'}")
    cards = [card for deck in decks for card in deck.cards]
    topics = {card.topic for card in cards}
    for name in wanted.topics:
        if name not in topics:
            raise DeckError(f"no card is about {name!r}; {_near(name, topics)}")
    for what, names, known in (("level", wanted.levels, LEVELS), ("kind", wanted.kinds, KINDS)):
        for name in names:
            if name not in known:
                raise DeckError(f"no {what} is called {name!r}; choose from: {', '.join(known)}")
    return [card for card in cards if wanted.accepts(card)]


def _near(name: str, topics: Collection[str]) -> str:
    near = get_close_matches(name, sorted(topics), cutoff=0.4)
    return f"similar topics: {', '.join(near)}" if near else "`rankup cards list` shows the topics"


def plan(
    cards: Sequence[Card],
    memories: Mapping[str, Memory],
    new: int,
    now: datetime,
    *,
    aside: Collection[str] = (),
    soon: Collection[str] = (),
) -> Plan:
    """Those due, the longest overdue first; then at most `new` unseen ones in the decks' order, those of `soon` first.

    Cards of `aside` are left out, and predictions that nobody has made, or that came true.
    """
    asked = [card for card in cards if card.id not in aside]
    due = [card for card in asked if card.id in memories and memories[card.id].is_due(now)]
    unseen = [card for card in asked if card.id not in memories and (not card.predict or card.id in soon)]
    unseen.sort(key=lambda card: card.id not in soon)
    return Plan(tuple(sorted(due, key=lambda card: memories[card.id].due)), tuple(unseen[: max(new, 0)]))
