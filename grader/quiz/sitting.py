"""One session, however it is shown: whose turn it is, what was answered, and how to take it back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from grader.quiz import asking
from grader.quiz.deck import Card
from grader.quiz.plan import Plan, plan
from grader.quiz.schedule import AGAIN, Memory, intervals
from grader.quiz.store import Answer, Store, local_day

Clock = Callable[[], datetime]


def clock() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Turn:
    """A card that is asked, the order in which its options or steps are shown, and its place in the session."""

    card: Card
    order: tuple[int, ...]
    place: int
    of: int
    new: bool


@dataclass(frozen=True)
class _Aside:
    card: str
    how: Literal["buried", "suspended"]


class Sitting:
    """Asks the cards that are due, then new ones; every answer is kept at once.

    `everything` holds all cards there are, for undoing what another session answered.
    """

    def __init__(
        self,
        store: Store,
        cards: Sequence[Card],
        *,
        new_a_day: int | None = None,
        now: Clock = clock,
        everything: Sequence[Card] = (),
        seed: str | None = None,
    ) -> None:
        self.store, self.cards, self.now = store, list(cards), now
        self.turn: Turn | None = None
        self._new_a_day = new_a_day
        self._all = {card.id: card for card in (*everything, *cards)}
        self._seed = now().isoformat() if seed is None else seed
        self._done: list[Answer | _Aside] = []
        self._shown = 0
        self._known = store.memories()
        self._queue = deque(self.planned().cards)
        self.planned_at_first = len(self._queue)

    def planned(self) -> Plan:
        """What is to be asked as of now."""
        return plan(
            self.cards,
            self.store.memories(),
            self._new_left(),
            self.now(),
            aside=self.store.set_aside(self.now()),
            soon=self.store.soon(),
        )

    def _new_left(self) -> int:
        """How many new cards may still come today, over all sessions."""
        most = self.store.new_a_day() if self._new_a_day is None else self._new_a_day
        return max(0, most - len(self.store.new_on(local_day(self.now()))))

    def set_new_a_day(self, cards: int) -> None:
        """Remember another number of new cards a day, and plan again."""
        self.store.set_new_a_day(cards)
        self._new_a_day = None
        self._replan()

    def _replan(self) -> None:
        self._known = self.store.memories()
        current = self.turn.card.id if self.turn else None
        self._queue = deque(card for card in self.planned().cards if card.id != current)

    def next(self) -> Turn | None:
        """The next card's turn, or None when nothing is left. Cards that became due meanwhile come at the end."""
        self.turn = None
        for _ in range(2):
            while self._queue:
                card = self._queue.popleft()
                if self._is_to_be_asked(card):
                    self._shown += 1
                    return self._take(card)
            self._replan()
        return None

    def _is_to_be_asked(self, card: Card) -> bool:
        memory = self.store.memory(card.id)
        if memory != self._known.get(card.id) or card.id in self.store.set_aside(self.now()):
            return False  # another session dealt with it meanwhile
        return memory is not None or self._new_left() > 0

    def _take(self, card: Card) -> Turn:
        times = sum(1 for done in self._done if done.card == card.id)
        order = asking.shuffled(card, f"{self._seed}/{times}")
        self.turn = Turn(card, order, self._shown, self._shown + len(self._queue), card.id not in self._known)
        return self.turn

    def intervals(self) -> dict[int, timedelta]:
        """How long the card in turn would wait after each rating."""
        assert self.turn is not None
        return intervals(self.store.memory(self.turn.card.id), self.now())

    def rate(self, rating: int) -> Memory:
        """Keep the answer to the card in turn; one that was not known comes back after the others."""
        assert self.turn is not None
        card = self.turn.card
        answer = self.store.record(card.id, rating, self.now())
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
            self.store.bury(card, self.now())
            return f"{card} is buried until tomorrow."
        self.store.suspend(card)
        return f"{card} is suspended; undo, or --unsuspend {card}, brings it back."

    def undo(self) -> str:
        """Take back what was done last, here or in an earlier session; its card is in turn again. Says so."""
        last = self._done.pop() if self._done else None
        if isinstance(last, _Aside):
            (self.store.unbury if last.how == "buried" else self.store.unsuspend)(last.card)
            return self._back(last.card, f"{last.card} is no longer {last.how}.")
        undone = self.store.undo(last.id if last else None)
        if undone is None:
            return f"{last.card} was answered since: that cannot be undone." if last else "There is nothing to undo."
        card, memory = undone
        if memory is None:
            self._known.pop(card, None)
        else:
            self._known[card] = memory
        return self._back(card, f"The answer to {card} is undone.")

    def _back(self, name: str, said: str) -> str:
        card = self._all.get(name)
        if card is None:
            return f"{said} The card is in no deck any more."
        if self.turn is not None and self.turn.card.id != name:
            self._queue.appendleft(self.turn.card)
        self._queue = deque(each for each in self._queue if each.id != name)
        self._shown = max(1, self._shown - 1)
        self._take(card)
        return said

    def replace(self, everything: Sequence[Card], cards: Sequence[Card]) -> None:
        """Take the cards' new texts, after they were edited. One that is gone is not asked any more."""
        self._all = {card.id: card for card in everything}
        self.cards = list(cards)
        self._queue = deque(self._all[card.id] for card in self._queue if card.id in self._all)
        if self.turn is not None:
            card = self._all.get(self.turn.card.id)
            if card is None:
                self.next()
            else:
                self._take(card)

    def answers(self) -> list[Answer]:
        """What was answered in this session and not undone, in order."""
        return [done for done in self._done if isinstance(done, Answer)]
