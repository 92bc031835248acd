"""A year of reviews by simulated learners: retention near the target, nothing lost, sane intervals.

Time does not pass here; the learner remembers by FSRS's own forgetting curve (Ye, Su and Cao, KDD 2022; the curve
of `fsrs.Scheduler.get_card_retrievability`), or forgets twice as fast.
"""

from __future__ import annotations

import math
import random
import sqlite3
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from grader.quiz import schema
from grader.quiz.deck import Card
from grader.quiz.plan import plan
from grader.quiz.schedule import AGAIN, EASY, GOOD, HARD, MAXIMUM_INTERVAL, RETENTION, Memory, retrievability
from grader.quiz.store import Store

START = datetime(2026, 1, 1, 18, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass
class Year:
    """What came of it."""

    reviews: int = 0
    asked: list[bool] = field(default_factory=list)  # of each answer a day or more after the last: was it recalled?
    latest: timedelta = timedelta(0)  # the longest that a due card waited for its turn
    memories: dict[str, Memory] = field(default_factory=dict)
    days: int = 0


def learn(reviews: int, forgetting: float, seed: int) -> tuple[Year, Store]:
    """Every evening all that is due and 0 to 8 new cards; the learner recalls with probability R(t * forgetting)."""
    drawn, year = random.Random(seed), Year()
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.prepare(connection, Path(":memory:"))
    store = Store(connection, Path(":memory:"))
    cards = [Card(f"card-{number}", "d", "mid", "t", "qa", "?", "!") for number in range(3000)]
    while year.reviews < reviews:
        now = START + year.days * DAY + timedelta(minutes=drawn.randrange(180))
        planned = plan(cards, year.memories, drawn.randrange(9), now).cards
        queue = [(now, card.id) for card in planned]
        while queue:  # what is to be seen again within the hour is asked in the same session
            at, card = min(queue)
            queue.remove((at, card))
            now = max(now, at) + timedelta(seconds=drawn.randrange(5, 60))
            before = year.memories.get(card)
            recalled = before is not None
            if before is not None:
                elapsed = (now - before.last_review) * forgetting
                recalled = drawn.random() < retrievability(before, before.last_review + elapsed)
                if before.due - before.last_review >= DAY:
                    year.asked.append(recalled)
                    year.latest = max(year.latest, now - before.due)
            seen_first = before is None
            rating = drawn.choices((HARD, GOOD, EASY), (10, 80, 10))[0] if recalled or seen_first else AGAIN
            after = year.memories[card] = store.answer(card, rating, now)
            year.reviews += 1
            wait = after.due - now
            assert timedelta(0) < wait <= MAXIMUM_INTERVAL * DAY
            assert math.isfinite(retrievability(after, after.due))
            if wait < timedelta(hours=1):
                queue.append((after.due, card))
        year.days += 1
    return year, store


@pytest.mark.heavy
@pytest.mark.parametrize(("forgetting", "seed"), [(1.0, 1), (2.0, 3), pytest.param(1.0, 2, marks=pytest.mark.heavy)])
def test_ten_thousand_reviews_over_a_year(forgetting: float, seed: int) -> None:
    year, store = learn(10_000, forgetting, seed)
    assert 250 <= year.days <= 500
    assert store.memories() == year.memories  # no card lost
    assert len(store.reviews()) == year.reviews
    assert year.latest < 2 * DAY  # each came when it was due: the same evening, or the next
    end = START + year.days * DAY
    assert all(memory.last_review <= end < memory.due + 2 * DAY for memory in year.memories.values())
    retained = sum(year.asked) / len(year.asked)
    assert len(year.asked) > 3000
    if forgetting == 1.0:
        assert abs(retained - RETENTION) < 0.03
    else:
        assert 0.75 < retained < RETENTION - 0.02  # worse, and yet asked often enough to know most
