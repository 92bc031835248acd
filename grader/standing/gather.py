"""One view over what is remembered in different places: cells run, verdicts, cards answered, interviews held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from grader import progress
from grader.quiz.deck import DeckError
from grader.quiz.store import opened
from grader.standing.known import Known, Task, known
from grader.submission import BadRequest

if TYPE_CHECKING:
    from grader.quiz.interview.task import Interview


@dataclass(frozen=True)
class Practice:
    """An exercise, and the best verdict on it; `points` is None while it was never graded."""

    name: str
    title: str
    minutes: int
    max_points: float
    points: float | None = None
    attempts: int = 0
    topics: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return self.points is not None and self.points >= self.max_points


@dataclass(frozen=True)
class Cards:
    """The cards of a deck: how many there are, were ever answered, and are due."""

    total: int
    seen: int = 0
    due: int = 0


@dataclass(frozen=True)
class Asked:
    """What interviews asked of some topics: points of their rubrics that were met, of all."""

    met: float = 0.0
    points: float = 0.0

    @property
    def share(self) -> float:
        return self.met / self.points if self.points else 0.0

    def __add__(self, other: Asked) -> Asked:
        return Asked(self.met + other.met, self.points + other.points)


@dataclass(frozen=True)
class Part:
    """One chapter: `cells` are its code cells, `run` how many of them the learner ran."""

    id: str
    title: str
    written: bool
    cells: int = 0
    run: int = 0
    exercises: tuple[Practice, ...] = ()
    cards: Cards = Cards(0)
    asked: Asked = Asked()
    topics: Mapping[str, Asked] = field(default_factory=dict)

    @property
    def read(self) -> float:
        return self.run / self.cells if self.cells else 0.0


@dataclass(frozen=True)
class Standing:
    """Where the learner stands at `now` (UTC)."""

    parts: tuple[Part, ...]
    now: datetime
    last_interview: datetime | None = None
    overdue_days: float = 0.0  # of the card that has waited longest

    @property
    def points(self) -> float:
        return sum(each.points or 0 for part in self.parts for each in part.exercises)

    @property
    def max_points(self) -> float:
        return sum(each.max_points for part in self.parts for each in part.exercises)

    @property
    def due(self) -> int:
        return sum(part.cards.due for part in self.parts)


def gather(now: datetime | None = None) -> Standing:
    """Read all of it. Raises BadRequest if something that is remembered cannot be read."""
    now = now or datetime.now(UTC)
    course = _course()
    decks, waited, interviews = _cards(course, now)
    best, read = progress.best(), progress.read()
    practised = {topic: exercise for topic, _, exercise in course.topics}
    chapters = {topic: chapter for topic, chapter, _ in course.topics}
    asked = _asked(interviews)
    exercises: dict[str, list[Practice]] = {}
    order = {name: number for number, name in enumerate(dict.fromkeys(practised.values()))}
    # as the chapters' topics need them, and what no topic names at the end
    for found in sorted(course.exercises, key=lambda each: order.get(each.name, len(order))):
        exercises.setdefault(found.chapter, []).append(_practice(found, best.get(found.name), practised))
    parts = []
    for chapter in course.chapters:
        cells = chapter.cells or []
        done = read[chapter.id].digests if chapter.id in read else frozenset()
        topics_here = {topic: score for topic, score in asked.items() if chapters.get(topic) == chapter.id}
        parts.append(
            Part(chapter.id, chapter.title, chapter.cells is not None, len(cells), sum(cell in done for cell in cells),
                 tuple(exercises.get(chapter.id, ())), decks.get(chapter.id, Cards(0)),
                 sum(topics_here.values(), Asked()), topics_here)
        )  # fmt: skip
    last = max((datetime.fromisoformat(each.ended) for each in interviews), default=None)
    return Standing(tuple(parts), now, last, waited)


def _practice(found: Task, known: progress.Best | None, practised: Mapping[str, str | None]) -> Practice:
    topics = tuple(topic for topic, name in practised.items() if name == found.name)
    points, attempts = (known.points, known.attempts) if known else (None, 0)
    return Practice(found.name, found.title, found.minutes, found.max_points, points, attempts, topics)


def _course() -> Known:
    try:
        return known()
    except DeckError as error:
        raise BadRequest(str(error)) from None


def _cards(course: Known, now: datetime) -> tuple[dict[str, Cards], float, list[Interview]]:
    """The cards of each deck, the days that the longest waiting one has been due, and the interviews."""
    try:
        with opened() as store:
            memories, aside = store.memories(), store.set_aside(now)
            interviews = _interviews(store.interviews())
    except DeckError as error:
        raise BadRequest(str(error)) from None
    found, waits = {}, [0.0]
    for deck, cards in course.decks.items():
        seen = {card: memories[card] for card in cards if card in memories}
        due = [memory for card, memory in seen.items() if memory.is_due(now) and card not in aside]
        waits += [(now - memory.due).total_seconds() / 86_400 for memory in due]
        found[deck] = Cards(len(cards), len(seen), len(due))
    return found, max(waits), interviews


def _interviews(kept: Sequence[Mapping[str, Any]]) -> list[Interview]:
    if not kept:
        return []
    from grader.quiz.interview.task import interview_from  # and with it pydantic

    return [interview_from(each) for each in kept]


def _asked(interviews: Iterable[Interview]) -> dict[str, Asked]:
    """What was asked of each topic when it was last asked: what was mended since counts."""
    found: dict[str, Asked] = {}
    for interview in interviews:  # the oldest first
        now: dict[str, Asked] = {}
        for done in interview.done:
            if done.most:
                now[done.topic] = now.get(done.topic, Asked()) + Asked(done.earned, done.most)
        found |= now
    return found
