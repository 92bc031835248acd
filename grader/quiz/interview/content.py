"""The strict parser of course/interview/NN-area.md, which holds what a strong candidate says to each question:

    ---
    area: fundamentals
    title: Fundamentals
    ---

    ## q-cap

    ### Answer

    Markdown.

    ### Listen for

    - One point, 3 or more of them.

    ### Follow-ups

    - **A question?** Its answer. (2 or more of them)

The question's text, level and topic are in questions.yaml alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from grader.quiz.deck import DeckError
from grader.quiz.interview import markdown
from grader.quiz.interview.markdown import Section
from grader.quiz.interview.task import MINUTES, FollowUp, Question, Task
from grader.quiz.lines import BrokenError, broken

AREAS = ("fundamentals", "mapreduce-spark", "training", "reliability", "design")
_PARTS = ("Answer", "Listen for", "Follow-ups")
_LEAST_WORDS, _LEAST_POINTS, _LEAST_FOLLOW_UPS = 40, 3, 2
_FOLLOW_UP = re.compile(r"\*\*(.+?)\*\*\s+(\S.*)", re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """What belongs to one question: the model answer, the rubric, and what is asked next. `where` is FILE:LINE."""

    question: str
    area: str
    answer: str
    points: tuple[str, ...]
    follow_ups: tuple[FollowUp, ...]
    where: str


def load_folder(folder: Path) -> list[Entry]:
    """Every entry of a folder. Raises DeckError for the first broken file; `problems` holds all there are."""
    found, problems = collect(folder)
    if problems:
        raise DeckError(*problems)
    return found


def collect(folder: Path) -> tuple[list[Entry], list[str]]:
    """The entries of a folder that can be read, and what is wrong with the others."""
    found: list[Entry] = []
    problems: list[str] = []
    for path in sorted(folder.glob("*.md")):
        try:
            found += parse(markdown.read(path), str(path))
        except DeckError as error:
            problems += error.problems
    first: dict[str, str] = {}
    for entry in found:
        if (there := first.setdefault(entry.question, entry.where)) != entry.where:
            problems.append(f"{entry.where}: {entry.question!r} is also at {there}; a question has one answer")
    return found, problems


def parse(text: str, file: str) -> list[Entry]:
    """Read one file; `file` is what errors call it. Raises DeckError, FILE:LINE and what is wrong there."""
    problems: list[str] = []
    found: list[Entry] = []
    try:
        about, body = markdown.front_matter(markdown.lines_of(text), ("area", "title"))
        if about["area"] not in AREAS:
            broken(1, f"there is no area {about['area']!r}; there are {', '.join(AREAS)}")
        before, blocks = markdown.sections(body, 2)
        for number, line in before:
            if line.strip():
                broken(number, "expected a question, `## ID`")
    except BrokenError as error:
        raise DeckError(f"{file}:{error.line}: {error.what}") from None
    for block in blocks:
        try:
            found.append(_entry(block, about["area"], file))
        except BrokenError as error:
            problems.append(f"{file}:{error.line}: {error.what}")
    if problems:
        raise DeckError(*problems)
    return found


def _entry(block: Section, area: str, file: str) -> Entry:
    if not markdown.is_id(block.name):
        broken(block.line, f"{block.name!r} is no id for a question: lowercase letters, digits and single hyphens")
    before, parts = markdown.sections(block.lines, 3)
    for number, line in before:
        if line.strip():
            broken(number, f"{block.name!r} begins with `### {_PARTS[0]}`")
    if [part.name for part in parts] != list(_PARTS):
        there = ", ".join(part.name for part in parts) or "none"
        broken(block.line, f"{block.name!r} has the parts {', '.join(_PARTS)}, in this order; here: {there}")
    answer, points, follow_ups = parts
    if (words := len(answer.text.split())) < _LEAST_WORDS:
        broken(answer.line, f"the answer to {block.name!r} has {words} words, of at least {_LEAST_WORDS}")
    return Entry(
        block.name,
        area,
        answer.text,
        tuple(text for _, text in markdown.items(points, _LEAST_POINTS)),
        tuple(_follow_up(*line) for line in markdown.items(follow_ups, _LEAST_FOLLOW_UPS)),
        f"{file}:{block.line}",
    )


def _follow_up(number: int, text: str) -> FollowUp:
    match = _FOLLOW_UP.fullmatch(text)
    if match is None:
        broken(number, "a follow-up is `- **The question?** Its answer.`")
    return FollowUp(match[1].strip(), match[2].strip())


def task(question: Question, entry: Entry) -> Task:
    """What is asked in an interview."""
    return Task(
        question.id, question.id, question.topic, entry.area, question.topic, question.level,
        MINUTES[question.level], question.text, entry.answer, entry.points, entry.follow_ups,
    )  # fmt: skip
