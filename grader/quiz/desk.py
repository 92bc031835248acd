"""What all of a quiz shares: the open progress, the decks, what is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.quiz import editor
from grader.quiz.deck import Card, Deck
from grader.quiz.plan import Wanted
from grader.quiz.sitting import Clock, Sitting
from grader.quiz.store import Store


@dataclass
class Desk:
    """The decks change when a card is edited, `wanted` and `new` when the learner chooses."""

    store: Store
    decks: list[Deck]
    cards_dir: Path
    wanted: Wanted
    new: int | None  # new cards a day for this session only; None: what the store remembers
    now: Clock

    def everything(self) -> list[Card]:
        return [card for deck in self.decks for card in deck.cards]

    def cards(self) -> list[Card]:
        return [card for card in self.everything() if self.wanted.accepts(card)]

    def new_a_day(self) -> int:
        return self.store.new_a_day() if self.new is None else self.new

    def set_new_a_day(self, cards: int) -> None:
        self.new = None
        self.store.set_new_a_day(cards)

    def sitting(self) -> Sitting:
        return Sitting(self.store, self.cards(), new_a_day=self.new, now=self.now, everything=self.everything())

    def edit(self, sitting: Sitting) -> None:
        """Open the card in turn in the editor, and read all cards again. Raises DeckError; the cards stay then."""
        assert sitting.turn is not None
        editor.edit(sitting.turn.card, self.decks)
        self.decks = editor.read_again(self.cards_dir)
        sitting.replace(self.everything(), self.cards())
