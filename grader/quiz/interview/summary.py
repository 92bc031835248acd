"""What an interview comes to: scores by area and topic, against former ones, and what to do about it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from grader.quiz.deck import LEVELS, Card
from grader.quiz.interview.task import PASSED, Done, Interview, Task

_FORMER = 5  # interviews that an area's score is compared with


@dataclass(frozen=True)
class Reading:
    """The section of a chapter that teaches a topic; `link` is its file and anchor, or empty."""

    chapter: str
    title: str
    section: str = ""
    link: str = ""

    @property
    def heading(self) -> str:
        return f"chapter {self.chapter}, {self.section or self.title}"


@dataclass(frozen=True)
class Exercise:
    """The exercise that practises a topic, and its notebook."""

    name: str
    link: str = ""


@dataclass(frozen=True)
class Library:
    """What to read and to practise, by topic, all cards, and what a strong candidate says, by task."""

    readings: Mapping[str, Reading] = field(default_factory=dict)
    exercises: Mapping[str, Exercise] = field(default_factory=dict)
    cards: Sequence[Card] = ()
    answers: Mapping[str, Task] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """Points of one area or topic; `before` is the share earned in former interviews, None if there is none."""

    name: str
    earned: float
    most: float
    before: float | None = None

    @property
    def share(self) -> float:
        return self.earned / self.most if self.most else 0.0


@dataclass(frozen=True)
class Advice:
    """What to do about one topic that went wrong."""

    topic: str
    score: Score
    reading: Reading | None
    exercise: Exercise | None
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Summary:
    """All that a report says besides the answers themselves."""

    total: Score
    areas: tuple[Score, ...]
    topics: tuple[Score, ...]
    advice: tuple[Advice, ...]
    former: tuple[tuple[str, str, Score], ...]  # when, level and score of former interviews, oldest first
    follow_ups: tuple[float, int]  # points, and how many were reached
    seconds: float
    levels: tuple[Score, ...] = ()  # of what a mid, a senior and a principal says, how much was said

    @property
    def sounds(self) -> str:
        """The highest level up to which each has been reached, "" if not even the lowest."""
        reached = [score.name for score in itertools.takewhile(lambda score: score.share >= PASSED, self.levels)]
        return reached[-1] if reached else ""


def summarise(interview: Interview, former: Sequence[Interview], library: Library) -> Summary:
    """What an interview comes to, against the `former` ones of its level that have points (the oldest first)."""
    former = [each for each in former if each.level == interview.level and _most(each)]
    rated = [mark for done in interview.done for _, mark in done.reached]
    topics = _scores(interview.done, "topic", former)
    failed = [done for done in interview.done if done.failed]
    advice = [
        Advice(
            score.name, score, library.readings.get(score.name), library.exercises.get(score.name),
            tuple(to_repeat([done for done in failed if done.topic == score.name], library.cards)),
        )
        for score in sorted(topics, key=lambda score: score.share)
        if any(done.topic == score.name for done in failed)
    ]  # fmt: skip
    return Summary(
        _score("all", interview.done, _share(done for each in former[-_FORMER:] for done in each.done)),
        tuple(_scores(interview.done, "area", former)),
        tuple(topics),
        tuple(advice),
        tuple((each.started, each.level, _score("all", each.done)) for each in former[-_FORMER:]),
        (sum(rated), len(rated)),
        sum(done.seconds for done in interview.done),
        tuple(_levels(interview.done)),
    )


def to_repeat(failed: Iterable[Done], cards: Sequence[Card]) -> list[Card]:
    """The cards of the questions that went wrong; of one without cards of its own those of its topic and level."""
    found: dict[str, Card] = {}
    for done in failed:
        own = [card for card in cards if card.asks == done.question]
        near = own or [card for card in cards if card.topic == done.topic and card.level == done.level]
        found |= {card.id: card for card in near or [card for card in cards if card.topic == done.topic]}
    return list(found.values())


def _levels(done: Sequence[Done]) -> Iterable[Score]:
    ticked = [each for one in done if one.rating != "unrated" for each in one.ticked]
    for level in LEVELS:
        of_it = [each for each in ticked if each.level == level]
        if of_it:
            yield Score(level, sum(each.weight for each in of_it if each.had), sum(each.weight for each in of_it))


def _scores(done: Sequence[Done], by: str, former: Sequence[Interview]) -> list[Score]:
    names = dict.fromkeys(getattr(each, by) for each in done if each.most)
    return [
        _score(
            name,
            [each for each in done if getattr(each, by) == name],
            _share(one for each in former[-_FORMER:] for one in each.done if getattr(one, by) == name),
        )
        for name in names
    ]


def _score(name: str, done: Iterable[Done], before: float | None = None) -> Score:
    done = list(done)
    most = sum(each.most for each in done)
    return Score(name, sum(each.earned for each in done), most, before if most else None)


def _share(done: Iterable[Done]) -> float | None:
    score = _score("", done)
    return score.share if score.most else None


def _most(interview: Interview) -> float:
    return sum(each.most for each in interview.done)
