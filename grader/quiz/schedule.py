"""When a card is due next: a thin layer over FSRS (Ye, Su and Cao, KDD 2022), as the library `fsrs` implements it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import fsrs

AGAIN, HARD, GOOD, EASY = 1, 2, 3, 4
RATINGS = {AGAIN: "again", HARD: "hard", GOOD: "good", EASY: "easy"}
RETENTION = 0.9  # a card is due when FSRS expects it to be recalled with this probability
MAXIMUM_INTERVAL = 365  # days: what is asked in interviews is worth a look once a year
LEARN_AHEAD = timedelta(minutes=20)  # as in Anki
_LONGEST = timedelta(days=36500)  # of memories from elsewhere: FSRS's own limit

_SCHEDULER = fsrs.Scheduler(desired_retention=RETENTION, maximum_interval=MAXIMUM_INTERVAL, enable_fuzzing=False)


@dataclass(frozen=True)
class Memory:
    """What FSRS knows about one card that was answered before; times are UTC."""

    fsrs: str  # the library's own JSON, kept as it is
    due: datetime
    last_review: datetime

    def is_due(self, now: datetime) -> bool:
        """Whether the card is to be asked. A review more than a day ahead of `now` was kept while the clock was wrong:
        its due date says nothing, so the card is asked rather than lost."""
        return self.due <= now or self.last_review > now + timedelta(days=1)

    def is_ahead(self, now: datetime) -> bool:
        """Whether the card is half learnt and due so soon that it may be asked already, where nothing else is left."""
        soon = not self.is_due(now) and self.due <= now + LEARN_AHEAD
        return soon and fsrs.Card.from_json(self.fsrs).state is not fsrs.State.Review


def recall(text: str) -> Memory:
    """The memory that was kept as FSRS's JSON. Raises ValueError if it is none."""
    try:
        card = fsrs.Card.from_json(text)
        due, last = card.due.astimezone(UTC), card.last_review.astimezone(UTC)
        numbers = (card.stability, card.difficulty)
        sane = all(math.isfinite(value) and value > 0 for value in numbers) and due - last <= _LONGEST
        sane = sane and card.due.tzinfo is not None and card.last_review.tzinfo is not None
        stepped = (card.step is None) == (card.state is fsrs.State.Review) and card.step in (None, 0, 1, 2, 3)
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"no memory of a card: {error}") from None
    if not (sane and stepped):
        raise ValueError("no memory of a card: its numbers make no sense")
    return Memory(text, due, last)


def review(memory: Memory | None, rating: int, now: datetime) -> Memory:
    """The memory after an answer rated 1 (again) to 4 (easy); None if the card is new.

    The next interval counts from `now`. A clock that went back counts as no time since the last review: no interval
    is negative, and none reaches beyond the maximum from what the clock says today.
    """
    now = now.astimezone(UTC)
    card = fsrs.Card(card_id=0, due=now)
    if memory is not None:
        card = fsrs.Card.from_json(memory.fsrs)
        card.last_review = min(memory.last_review, now)
    card, _ = _SCHEDULER.review_card(card, fsrs.Rating(rating), now)
    return Memory(card.to_json(), card.due, card.last_review)


def intervals(memory: Memory | None, now: datetime) -> dict[int, timedelta]:
    """How long the card would wait after each rating."""
    return {rating: review(memory, rating, now).due - now for rating in RATINGS}


def due_by(memory: Memory, now: datetime) -> Memory:
    """The memory, due at `now` at the latest; what FSRS knows stays."""
    if memory.is_due(now):
        return memory
    card = fsrs.Card.from_json(memory.fsrs)
    card.due = now.astimezone(UTC)
    return recall(card.to_json())


def retrievability(memory: Memory, now: datetime) -> float:
    """The probability, by FSRS, that the card is recalled at `now`."""
    return float(_SCHEDULER.get_card_retrievability(fsrs.Card.from_json(memory.fsrs), now.astimezone(UTC)))
