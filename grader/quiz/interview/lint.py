"""What is wrong with the interview's content, held against the questions and the syllabus."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from grader.quiz.formula import disagreement
from grader.quiz.interview import content, rounds, rubric
from grader.quiz.interview.task import Question


def problems(folder: Path, questions: Sequence[Question], topics: Collection[str]) -> list[str]:
    """One sentence for each problem of course/interview; none if all is well.

    Every question has one entry, and nothing else has; rounds ask questions and topics that there are; rubrics tell the
    levels apart.
    """
    entries, found = content.load(folder)
    asked = {question.id for question in questions}
    found += [
        f"{entry.where}: {entry.question!r} is not an interview question"
        for entry in entries
        if entry.question not in asked
    ]
    levels = {question.id: question.level for question in questions}
    found += [
        f"{entry.where}: {entry.question!r}: {fault}"
        for entry in entries
        if entry.question in levels and (fault := rubric.fault(entry.points, levels[entry.question]))
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
        found += [
            f"{design.file}:1: stage {stage.title!r}: {fault}"
            for stage in design.stages
            if (fault := rubric.fault(stage.points, stage.level))
        ]
        if design.topic not in topics:
            found.append(f"{design.file}:1: {design.topic!r} is not a topic of the syllabus")
    return found
