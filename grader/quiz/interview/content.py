"""The strict parser of course/interview/NN-area.md, which holds what a strong candidate says to each question:

    ---
    area: fundamentals
    title: Fundamentals
    ---

    ## q-cap

    ### Answer

    Markdown.

    ### Listen for

    - senior 2: One point, 3 or more of them; see `rubric`.

    ### Follow-ups

    - **A question?** Its answer. (2 or more of them)

The question's text, level and topic are in questions.yaml alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grader.quiz.deck import DeckError
from grader.quiz.interview import rubric
from grader.quiz.interview.task import MINUTES, FollowUp, Point, Question, Task
from grader.quiz.markdown import ID, Item, Keys, Part, broken, collect, every, opened, read, told

_PARTS = ("Answer", "Listen for", "Follow-ups")
_LEAST_WORDS, _LEAST_FOLLOW_UPS = 40, 2
_FOLLOW_UP = re.compile(r"\*\*(.+?)\*\*\s+(\S.*)", re.DOTALL)


class _Front(Keys):
    area: Literal["fundamentals", "mapreduce-spark", "training", "reliability", "design"]
    title: str


@dataclass(frozen=True)
class Entry:
    """What belongs to one question: the model answer, the rubric, and what is asked next. `where` is FILE:LINE."""

    question: str
    area: str
    answer: str
    points: tuple[Point, ...]
    follow_ups: tuple[FollowUp, ...]
    where: str


def load_folder(folder: Path) -> list[Entry]:
    """Every entry of a folder. Raises DeckError for broken files."""
    found, problems = load(folder)
    if problems:
        raise DeckError(*problems)
    return found


def load(folder: Path) -> tuple[list[Entry], list[str]]:
    """The entries of a folder that can be read, and what is wrong with the others."""
    files, problems = collect(folder, lambda path: parse(read(path), str(path)))
    first: dict[str, str] = {}
    for entry in (entry for found in files for entry in found):
        if (there := first.setdefault(entry.question, entry.where)) != entry.where:
            problems.append(f"{entry.where}: {entry.question!r} is also at {there}; a question has one answer")
    return [entry for found in files for entry in found], problems


def parse(text: str, file: str) -> list[Entry]:
    """Read one file; `file` is what errors call it. Raises DeckError, FILE:LINE and what is wrong there."""
    with told(file):
        about, body = opened(text, _Front)
        blocks = body.sections(2, "expected a question, `## ID`")
    return every(lambda block: _entry(block, about.area, file), blocks, file)


def _entry(block: Part, area: str, file: str) -> Entry:
    if not re.fullmatch(ID, block.name):
        broken(block.line, f"{block.name!r} is not an id: use lowercase letters, digits and single hyphens")
    parts = block.sections(3, f"{block.name!r} must begin with `### {_PARTS[0]}`")
    if [part.name for part in parts] != list(_PARTS):
        there = ", ".join(part.name for part in parts) or "none"
        broken(block.line, f"{block.name!r} needs the parts {', '.join(_PARTS)}, in this order; it has {there}")
    answer, points, follow_ups = parts
    if (words := len(answer.text.split())) < _LEAST_WORDS:
        broken(answer.line, f"the answer to {block.name!r} has {words} words, and needs at least {_LEAST_WORDS}")
    return Entry(
        block.name,
        area,
        answer.text,
        rubric.read(points),
        tuple(map(_follow_up, follow_ups.bullets(_LEAST_FOLLOW_UPS))),
        f"{file}:{block.line}",
    )


def _follow_up(item: Item) -> FollowUp:
    match = _FOLLOW_UP.fullmatch(item.text)
    if match is None:
        broken(item.line, "write a follow-up as `- **The question?** Its answer.`")
    return FollowUp(match[1].strip(), match[2].strip())


def task(question: Question, entry: Entry) -> Task:
    """What is asked in an interview."""
    return Task(
        question.id, question.id, question.topic, entry.area, question.topic, question.level,
        MINUTES[question.level], question.text, entry.answer, entry.points, entry.follow_ups,
    )  # fmt: skip
