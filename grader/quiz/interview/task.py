"""What is asked in an interview, and what became of it: plain data, and its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from grader.quiz.deck import LEVELS, Number

MINUTES = {"mid": 4, "senior": 6, "principal": 8}  # a question's length, by its level
ALOUD = 1.5  # minutes of a question that is answered aloud, whatever its level
PASSED = 0.6  # of the points; what is below it went wrong


@dataclass(frozen=True)
class Question:
    """One question of course/questions.yaml."""

    id: str
    level: str
    topic: str
    text: str


@dataclass(frozen=True)
class Point:
    """One point of a rubric: what one says (Markdown), the level at which a candidate says it, and its weight."""

    text: str
    level: str
    weight: int = 1


class Ticked(NamedTuple):
    """A point, and whether the answer had it. Interviews kept before points had levels have none."""

    point: str
    had: bool
    level: str = ""
    weight: int = 1


def counts(level: str, asked: str) -> bool:
    """Whether points of a level count for a question of the level `asked`."""
    return not level or LEVELS.index(level) <= LEVELS.index(asked)


@dataclass(frozen=True)
class FollowUp:
    """What the interviewer asks next, and its answer; both Markdown."""

    question: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class Estimate(Number):
    """A number to be worked out on paper."""

    id: str
    question: str
    explanation: str
    line: int = 0  # of its file


@dataclass(frozen=True)
class Hint:
    """Help that costs points."""

    text: str
    cost: float


@dataclass(frozen=True)
class Task:
    """One thing that is asked and rated: a question, or a stage of a design round (`round` is then its name)."""

    id: str
    question: str  # the id of its interview question
    title: str
    area: str
    topic: str
    level: str
    minutes: float
    prompt: str
    answer: str
    points: tuple[Point, ...]
    follow_ups: tuple[FollowUp, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    hints: tuple[Hint, ...] = ()
    mistakes: tuple[str, ...] = ()
    round: str = ""
    spoken: bool = False  # answered aloud, and not written down


def aloud(task: Task) -> Task:
    """A question as a drill: its answer is spoken, and nothing follows it."""
    return replace(task, minutes=ALOUD, follow_ups=(), spoken=True)


@dataclass(frozen=True)
class Guess:
    """What was typed for one estimate, in order, and what it earned: 1, 0.5 at the second try, or 0."""

    id: str
    question: str
    typed: tuple[str, ...]
    right: str
    earned: float


@dataclass(frozen=True)
class Done:
    """What became of one task. `rating` is rated, skipped, or unrated where the learner left before the rubric."""

    task: str
    question: str
    title: str
    area: str
    topic: str
    level: str
    prompt: str
    minutes: float
    seconds: float
    written: str
    rating: str
    ticked: tuple[Ticked, ...]
    guesses: tuple[Guess, ...] = ()
    follow_ups: tuple[tuple[str, float | None], ...] = ()  # each question, and 0, 0.5, 1, or None if not reached
    hint_cost: float = 0.0
    round: str = ""

    @property
    def most(self) -> float:
        """The points that there were: one for each number, and the rubric's by weight, where it was reached."""
        rubric = sum(each.weight for each in self.counted) if self.rating != "unrated" else 0
        return float(len(self.guesses) + rubric)

    @property
    def earned(self) -> float:
        """The points of the rubric and of the estimates, less what hints cost; never below 0."""
        ticked = sum(each.weight for each in self.counted if each.had) if self.rating == "rated" else 0
        return max(0.0, ticked + sum(each.earned for each in self.guesses) - self.hint_cost)

    @property
    def counted(self) -> list[Ticked]:
        """The points of the rubric that the question's level asks for."""
        return [each for each in self.ticked if counts(each.level, self.level)]

    @property
    def late(self) -> bool:
        return self.seconds > 60 * self.minutes

    @property
    def missed(self) -> list[str]:
        """The points of the rubric that count and that the answer did not have."""
        return [each.point for each in self.counted if not each.had] if self.rating != "unrated" else []

    @property
    def reached(self) -> list[tuple[str, float]]:
        """The follow-ups that were reached, and what each was rated."""
        return [(question, mark) for question, mark in self.follow_ups if mark is not None]

    @property
    def failed(self) -> bool:
        return self.most > 0 and self.earned < PASSED * self.most


@dataclass(frozen=True)
class Interview:
    """One interview: what was asked for, and what was done. `key` is its own for ever; times are ISO 8601, UTC."""

    key: str
    level: str
    minutes: float
    seed: int
    started: str
    ended: str
    planned: int
    topics: tuple[str, ...] = ()
    round: str = ""
    done: tuple[Done, ...] = field(default=())
    spoken: bool = False


_INTERVIEW = TypeAdapter(Interview)


def to_json(interview: Interview) -> dict[str, Any]:
    return asdict(interview)


def interview_from(data: Mapping[str, Any]) -> Interview:
    """The interview that `to_json` wrote down. Raises ValueError if it is none."""
    return _INTERVIEW.validate_python(data)
