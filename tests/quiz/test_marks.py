"""Undo, bury, suspend, what is to be asked soon, new cards a day, and interviews."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from grader.quiz import store
from grader.quiz.schedule import AGAIN, EASY, GOOD

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def progress() -> Iterator[store.Store]:
    with store.opened() as opened:
        yield opened


def test_undo_gives_back_exactly_what_was_also_over_sessions(progress: store.Store) -> None:
    states = [({}, [])]
    for number, (card, rating) in enumerate([("a", GOOD), ("b", EASY), ("a", AGAIN), ("a", GOOD)]):
        progress.answer(card, rating, NOON + number * DAY)
        states.append((progress.memories(), progress.reviews()))
    for state in reversed(states[:-1]):
        with store.opened() as later:
            assert later.undo() is not None
        assert (progress.memories(), progress.reviews()) == state
    assert progress.undo() is None


def test_an_answer_that_another_followed_is_not_undone(progress: store.Store) -> None:
    mine = progress.record("a", GOOD, NOON)
    with store.opened() as other:
        theirs = other.record("a", EASY, NOON + DAY)
    assert progress.undo(mine.id) is None
    assert progress.memory("a") == theirs.after
    assert progress.undo(theirs.id) == ("a", mine.after)
    assert progress.undo(mine.id) == ("a", None)


def test_the_id_of_an_undone_answer_is_never_anothers(progress: store.Store) -> None:
    mine = progress.record("a", GOOD, NOON)
    with store.opened() as other:
        other.undo()
        other.record("b", GOOD, NOON)
    assert progress.undo(mine.id) is None
    assert set(progress.memories()) == {"b"}


def test_a_buried_card_is_back_the_next_local_day(progress: store.Store) -> None:
    midnight = NOON.astimezone().replace(hour=0, minute=0)
    progress.bury("a", midnight + timedelta(hours=23, minutes=59))
    assert progress.set_aside(midnight) == {"a"}
    assert progress.set_aside(midnight + DAY) == set()
    assert progress.set_aside(midnight - 1000 * DAY) == set()  # the clock went back: not lost for years
    progress.bury("a", NOON)
    progress.unbury("a")
    assert progress.set_aside(NOON) == set()


def test_a_suspended_card_is_set_aside_until_it_is_unsuspended(progress: store.Store) -> None:
    progress.suspend("a")
    assert progress.set_aside(NOON + 1000 * DAY) == progress.suspended() == {"a"}
    progress.unsuspend("a")
    assert progress.set_aside(NOON) == set()


def test_what_went_wrong_is_due_now_or_first_among_the_new(progress: store.Store) -> None:
    before = progress.answer("seen", EASY, NOON)
    progress.ask_soon(["seen", "never"], NOON + DAY)
    after = progress.memory("seen")
    assert after is not None
    assert (after.due, after.last_review) == (NOON + DAY, before.last_review)
    assert progress.soon() == {"never"}
    progress.ask_soon(["seen"], NOON + 2 * DAY)
    assert progress.memory("seen") == after  # it was due already


def test_new_cards_are_counted_over_all_sessions_of_the_day(progress: store.Store) -> None:
    day = store.local_day(NOON)
    progress.answer("old", GOOD, NOON - 2 * DAY)
    for card in ("a", "old", "a"):
        progress.answer(card, GOOD, NOON)
    with store.opened() as other:
        other.answer("b", GOOD, NOON)
    assert progress.new_on(day) == {"a", "b"}
    progress.undo()
    assert progress.new_on(day) == {"a"}


def test_the_number_of_new_cards_a_day_is_remembered(progress: store.Store) -> None:
    assert progress.new_a_day() == 10
    progress.set_new_a_day(3)
    with store.opened() as later:
        assert later.new_a_day() == 3


def test_interviews_are_kept_the_oldest_first(progress: store.Store) -> None:
    second = progress.keep_interview({"score": 0.5}, NOON + DAY)
    first = progress.keep_interview({"score": 0.25, "areas": {"training": [1, 2]}}, NOON)
    kept = progress.interviews()
    assert [each["id"] for each in kept] == [first, second]
    assert kept[0] == {"id": first, "at": NOON.isoformat(), "score": 0.25, "areas": {"training": [1, 2]}}
