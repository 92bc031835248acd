"""When a card comes back: a thin layer over FSRS (the `fsrs` package, version 6), and a session's order of cards.

Times are UTC and come from the caller. No fuzz: the same answers at the same times give the same dates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum

import fsrs

from grader.quiz.deck import Card

# One short step only: within a session what was not known comes back anyway, and nobody waits a minute for a card.
_STEPS = (timedelta(minutes=10),)
_FSRS = fsrs.Scheduler(learning_steps=_STEPS, relearning_steps=_STEPS, maximum_interval=365, enable_fuzzing=False)

CLOCK_SLACK = timedelta(days=1)


class Rating(IntEnum):
    """How well a card was known."""

    AGAIN = 1
    HARD = 2
    GOOD = 3
    EASY = 4


@dataclass(frozen=True)
class Memory:
    """What FSRS remembers of a card: state (1 learning, 2 review, 3 relearning), step, stability in days, difficulty."""

    state: int
    step: int | None
    stability: float
    difficulty: float
    due: datetime
    last_review: datetime


def review(memory: Memory | None, rating: Rating, at: datetime) -> Memory:
    """The memory after an answer at time `at`; `memory` is None for a card never answered before.

    Where the clock was set back, so that `at` is before the last review, no time has passed between the two. The new
    dates follow `at`, so one wrong clock spoils nothing for good.
    """
    at = at.astimezone(UTC)
    if memory is None:
        before = fsrs.Card(card_id=0, due=at)
    else:
        before = fsrs.Card(
            card_id=0,
            state=fsrs.State(memory.state),
            step=memory.step,
            stability=memory.stability,
            difficulty=memory.difficulty,
            due=memory.due,
            last_review=min(memory.last_review, at),
        )
    after, _ = _FSRS.review_card(before, fsrs.Rating(rating), at)
    return Memory(int(after.state), after.step, after.stability, after.difficulty, after.due, at)


def is_due(memory: Memory, now: datetime) -> bool:
    """Whether it is time. A card last answered more than a day in the future was answered by a wrong clock: it is."""
    return memory.due <= now or memory.last_review > now + CLOCK_SLACK


def plan(cards: Iterable[Card], memories: Mapping[str, Memory], now: datetime, new: int) -> list[Card]:
    """A session's cards: those that are due, the longest overdue first, then at most `new` unseen ones in deck order."""
    cards = list(cards)
    due = [card for card in cards if card.id in memories and is_due(memories[card.id], now)]
    unseen = [card for card in cards if card.id not in memories]
    return sorted(due, key=lambda card: (memories[card.id].due, card.id)) + unseen[: max(new, 0)]
