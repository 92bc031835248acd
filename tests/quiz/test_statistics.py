"""What is counted from the progress, and how it is drawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from grader.quiz import statistics, store
from grader.quiz.deck import Card
from grader.quiz.schedule import AGAIN, EASY, GOOD

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
CARDS = [
    Card(name, deck, "mid", "t", "qa", "?", "!") for deck, names in (("06", "abc"), ("07", "de")) for name in names
]


@pytest.fixture
def progress() -> Iterator[store.Store]:
    with store.opened() as opened:
        yield opened


def count(progress: store.Store, now: datetime = NOON) -> statistics.Statistics:
    return statistics.count(CARDS, progress, now)


def test_nothing_yet(progress: store.Store) -> None:
    counted = count(progress)
    assert sum(counted.forecast) == sum(counted.days) == counted.overdue == 0
    assert counted.young == counted.mature == statistics.Retained(0, 0)
    assert "0 in total, 0 today." in statistics.lines(counted)


def test_cards_are_due_on_their_days(progress: store.Store) -> None:
    progress.answer("a", EASY, NOON)  # in 8 days
    progress.answer("b", GOOD, NOON)  # in 10 minutes
    progress.answer("gone", EASY, NOON)  # in no deck any more
    counted = count(progress)
    assert {day: due for day, due in enumerate(counted.forecast) if due} == {0: 1, 8: 1}
    assert count(progress, NOON + 9 * DAY).forecast[0] == 2
    assert count(progress, NOON + 9 * DAY).overdue == 2
    progress.suspend("b")
    assert count(progress).forecast[0] == 0
    assert count(progress).suspended == 1


def test_retention_counts_answers_a_day_or_more_after_the_last(progress: store.Store) -> None:
    for rating, day in ((EASY, 0), (GOOD, 8), (AGAIN, 35), (GOOD, 35), (GOOD, 36)):
        progress.answer("a", rating, NOON + day * DAY)
    counted = count(progress, NOON + 36 * DAY)
    assert counted.young == statistics.Retained(2, 2)  # after 8 days and after 1; the same evening's does not count
    assert counted.mature == statistics.Retained(1, 0)  # after 27
    assert [counted.days[-1], counted.days[-2], sum(counted.days)] == [1, 2, 4]


def test_chapters_say_what_is_seen_known_and_due(progress: store.Store) -> None:
    progress.answer("a", EASY, NOON - 100 * DAY)
    progress.answer("b", EASY, NOON)
    assert count(progress).chapters == (statistics.Chapter("06", 3, 2, 1, 1), statistics.Chapter("07", 2, 0, 0, 0))


def test_a_clock_that_jumps_draws_too(progress: store.Store) -> None:
    progress.answer("a", EASY, NOON + 4000 * DAY)
    progress.answer("a", EASY, NOON)
    progress.answer("b", EASY, NOON - 4000 * DAY)
    assert statistics.lines(count(progress))


@pytest.mark.parametrize("width", [36, 56, 76, 100])
def test_lines_fit_and_bars_are_as_long_as_what_they_count(progress: store.Store, width: int) -> None:
    counted = dataclasses.replace(
        count(progress),
        forecast=tuple(range(29, -1, -1)),
        days=tuple(range(30)),
        young=statistics.Retained(9, 10),
        chapters=tuple(statistics.Chapter(f"chapter-{n}", 1000, 3, 2, 1) for n in range(3)),
    )
    drawn = statistics.lines(counted, width)
    assert max(len(line) for line in drawn if "(" not in line) <= max(width, 48)
    columns = next(line for line in drawn if line.startswith("29 │")).partition("│")[2]
    assert columns[0] == "█"
    bottom = next(line for line in drawn if line.startswith(" 0 │")).partition("│")[2]
    assert len(bottom) == 29  # every day with a card shows something
    assert next(line for line in drawn if line.startswith("chapte…")).endswith("." * 4)
