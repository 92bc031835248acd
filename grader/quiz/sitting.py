"""One session, however it is shown: whose turn it is, what was answered, and how to take it back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from grader.quiz import asking, editor
from grader.quiz.deck import Card, Deck
from grader.quiz.plan import Plan, Wanted, plan
from grader.quiz.schedule import AGAIN, Memory, intervals
from grader.quiz.store import Answer, Store, local_day

Clock = Callable[[], datetime]


def clock() -> datetime:
    return datetime.now(UTC)


@dataclass
class Desk:
    """What all sittings share. The decks change when a card is edited, `wanted` and `new` when the learner chooses."""

    store: Store
    decks: list[Deck]
    cards_dir: Path
    wanted: Wanted
    new: int | None  # new cards a day for this session only; None: what the store remembers
    now: Clock

    def by_id(self) -> dict[str, Card]:
        """All cards there are."""
        return {card.id: card for deck in self.decks for card in deck.cards}

    def cards(self) -> list[Card]:
        return [card for deck in self.decks for card in deck.cards if self.wanted.accepts(card)]

    def new_a_day(self) -> int:
        return self.store.new_a_day() if self.new is None else self.new

    def set_new_a_day(self, cards: int) -> None:
        self.new = None
        self.store.set_new_a_day(cards)

    def planned(self) -> Plan:
        """What is to be asked as of now."""
        now, store = self.now(), self.store
        left, aside = self.new_left(), store.set_aside(now)
        return plan(self.cards(), store.memories(), left, now, aside=aside, soon=store.soon())

    def new_left(self) -> int:
        """How many new cards may still come today, over all sessions."""
        return max(0, self.new_a_day() - len(self.store.new_on(local_day(self.now()))))

    def more_new(self, cards: int) -> None:
        """Let so many more new cards come today, in this session only."""
        self.new = len(self.store.new_on(local_day(self.now()))) + cards


@dataclass(frozen=True)
class Turn:
    """A card that is asked, the order in which its options or steps are shown, its place in the session, and what is
    special: that it is new, or asked before it is due."""

    card: Card
    order: tuple[int, ...]
    place: int
    of: int
    special: str


@dataclass(frozen=True)
class _Aside:
    card: str
    how: Literal["buried", "suspended"]


class Sitting:
    """Asks the cards of a desk that are due, then new ones; every answer is kept at once."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._store = desk, desk.store
        self.turn: Turn | None = None
        self._seed = desk.now().isoformat()
        self._done: list[Answer | _Aside] = []
        self._shown = 0
        self._replan()
        self.planned_at_first, self.began = len(self._queue), desk.now()

    def set_new_a_day(self, cards: int) -> None:
        """Remember another number of new cards a day, and plan again."""
        self._desk.set_new_a_day(cards)
        self._replan()

    def _replan(self) -> None:
        self._known = self._store.memories()
        current = self.turn.card.id if self.turn else None
        self._queue = deque(card for card in self._desk.planned().cards if card.id != current)

    def next(self) -> Turn | None:
        """The next card's turn, or None when nothing is left. Cards that became due meanwhile come at the end, and then
        those that are half learnt and due soon."""
        self.turn = None
        for fill in (None, self._replan, self._look_ahead):
            if fill is not None:
                fill()
            while self._queue:
                card = self._queue.popleft()
                if self._is_to_be_asked(card):
                    self._shown += 1
                    return self._take(card)
        return None

    def _look_ahead(self) -> None:
        now = self._desk.now()
        aside = self._store.set_aside(now)
        ahead = [card for card in self._desk.cards() if card.id in self._known and card.id not in aside]
        ahead = [card for card in ahead if self._known[card.id].is_ahead(now)]
        self._queue = deque(sorted(ahead, key=lambda card: self._known[card.id].due))

    def _is_to_be_asked(self, card: Card) -> bool:
        memory = self._store.memory(card.id)
        if memory != self._known.get(card.id) or card.id in self._store.set_aside(self._desk.now()):
            return False  # another session dealt with it meanwhile
        return memory is not None or self._desk.new_left() > 0

    def _take(self, card: Card) -> Turn:
        times = sum(1 for done in self._done if done.card == card.id)
        order = asking.shuffled(card, f"{self._seed}/{times}")
        memory, of = self._known.get(card.id), self._shown + len(self._queue)
        ahead = memory is not None and not memory.is_due(self._desk.now())
        self.turn = Turn(card, order, self._shown, of, "new" if memory is None else "ahead of time" if ahead else "")
        return self.turn

    def intervals(self) -> dict[int, timedelta]:
        """How long the card in turn would wait after each rating."""
        assert self.turn is not None
        return intervals(self._store.memory(self.turn.card.id), self._desk.now())

    def rate(self, rating: int) -> Memory:
        """Keep the answer to the card in turn; one that was not known comes back after the others."""
        assert self.turn is not None
        card = self.turn.card
        answer = self._store.record(card.id, rating, self._desk.now())
        self._done.append(answer)
        self._known[card.id] = answer.after
        if rating == AGAIN:
            self._queue.append(card)
        return answer.after

    def bury(self) -> str:
        """Leave the card in turn out until the next local day."""
        return self._put_aside("buried")

    def suspend(self) -> str:
        """Leave the card in turn out until it is unsuspended."""
        return self._put_aside("suspended")

    def _put_aside(self, how: Literal["buried", "suspended"]) -> str:
        assert self.turn is not None
        card = self.turn.card.id
        self._done.append(_Aside(card, how))
        if how == "buried":
            self._store.bury(card, self._desk.now())
            return f"{card} is buried until tomorrow."
        self._store.suspend(card)
        return f"{card} is suspended. To bring it back: undo, or rankup quiz --unsuspend {card}."

    def undo(self) -> str:
        """Take back what was done last, here or in an earlier session; its card is in turn again. Says so."""
        last = self._done.pop() if self._done else None
        if last is None and (reviews := self._store.reviews()):
            card = reviews[-1][0]
            if card in self._desk.by_id() and card not in {each.id for each in self._desk.cards()}:
                return f"There is nothing to undo here: your last answer was to {card}, which is in another deck."
        if isinstance(last, _Aside):
            (self._store.unbury if last.how == "buried" else self._store.unsuspend)(last.card)
            return self._back(last.card, f"{last.card} is no longer {last.how}.")
        undone = self._store.undo(last.id if last else None)
        if undone is None:
            changed = "another session has changed your progress since"
            return f"The answer to {last.card} cannot be undone: {changed}." if last else "There is nothing to undo."
        card, memory = undone
        if memory is None:
            self._known.pop(card, None)
        else:
            self._known[card] = memory
        return self._back(card, f"The answer to {card} is undone.")

    def _back(self, name: str, said: str) -> str:
        card = self._desk.by_id().get(name)
        if card is None:
            return f"{said} The card is no longer in any deck."
        if self.turn is not None and self.turn.card.id != name:
            self._queue.appendleft(self.turn.card)
        self._queue = deque(each for each in self._queue if each.id != name)
        self._shown = max(1, self._shown - 1)
        self._take(card)
        return said

    def edit(self) -> None:
        """Open the card in turn in the editor, and take all cards' new texts. One that is gone is not asked any more.

        Raises DeckError; the cards stay then.
        """
        assert self.turn is not None
        editor.edit(self.turn.card)
        self._desk.decks = editor.read_again(self._desk.cards_dir)
        there = self._desk.by_id()
        self._queue = deque(there[card.id] for card in self._queue if card.id in there)
        if self.turn.card.id in there:
            self._take(there[self.turn.card.id])
        else:
            self.next()

    def answers(self) -> list[Answer]:
        """What was answered in this session and not undone, in order."""
        return [done for done in self._done if isinstance(done, Answer)]
