"""What is wrong with the interview's content, held against the questions and the syllabus."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from grader.quiz.formula import disagreement
from grader.quiz.interview import content, rounds
from grader.quiz.interview.task import Question


def problems(folder: Path, questions: Sequence[Question], topics: Collection[str]) -> list[str]:
    """One sentence for each problem of course/interview; none if all is well.

    Every question has one entry, and nothing else has; rounds ask questions and topics that there are.
    """
    entries, found = content.load(folder)
    asked = {question.id for question in questions}
    found += [
        f"{entry.where}: {entry.question!r} is not an interview question"
        for entry in entries
        if entry.question not in asked
    ]
    answered = {entry.question for entry in entries}
    found += [f"{folder}: question {each.id!r} has no answer" for each in questions if each.id not in answered]
    designs, broken = rounds.load(folder / "rounds")
    found += broken
    for design in designs:
        found += [
            f"{design.file}:1: {each!r} is not an interview question" for each in design.questions if each not in asked
        ]
        found += [
            f"{design.file}:{each.line}: {each.id!r}: {wrong}"
            for stage in design.stages
            for each in stage.estimates
            if (wrong := disagreement(each))
        ]
        if design.topic not in topics:
            found.append(f"{design.file}:1: {design.topic!r} is not a topic of the syllabus")
    return found
