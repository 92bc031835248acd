"""When a card is due next: a thin layer over FSRS (Ye, Su and Cao, KDD 2022), as the library `fsrs` implements it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import fsrs

AGAIN, HARD, GOOD, EASY = 1, 2, 3, 4

_SCHEDULER = fsrs.Scheduler(enable_fuzzing=False)


@dataclass(frozen=True)
class Memory:
    """What FSRS knows about one card that was answered before; times are UTC."""

    fsrs: str  # the library's own JSON, kept as it is
    due: datetime
    last_review: datetime


def recall(text: str) -> Memory:
    """The memory that was kept as FSRS's JSON."""
    card = fsrs.Card.from_json(text)
    return Memory(text, card.due, card.last_review)


def review(memory: Memory | None, rating: int, now: datetime) -> Memory:
    """The memory after an answer rated 1 (again) to 4 (easy); None if the card is new.

    `now` counts as no earlier than the last review: a clock that went back makes no negative intervals.
    """
    now = now.astimezone(UTC)
    card = fsrs.Card(card_id=0, due=now)
    if memory is not None:
        card = fsrs.Card.from_json(memory.fsrs)
        now = max(now, memory.last_review)
    card, _ = _SCHEDULER.review_card(card, fsrs.Rating(rating), now)
    return Memory(card.to_json(), card.due, card.last_review)
