"""The pages of the interview: questions by area, and design rounds, what is to be found out folded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from pathlib import Path

import yaml

from grader.quiz.interview import content, rounds, rubric
from grader.quiz.interview.rounds import Round
from grader.quiz.interview.task import Task


def pages(course: Path, topics: set[str]) -> dict[str, str]:
    """Every page of the interview, none where nothing is written of it; `topics` are those that can be linked to."""
    folder = course / "interview"
    areas = sorted(folder.glob("*.md"))
    if not areas:
        return {}
    asked = {entry["id"]: entry for entry in yaml.safe_load((course / "questions.yaml").read_text())["questions"]}
    found = {}
    listed = ["# Interview questions", "", "`rankup interview --level mid|senior|principal` asks them, with a timer, "
              "and says what to read next. Here they are to be read, with their answers folded.", ""]  # fmt: skip
    for path in areas:
        title = re.findall(r"^title: (.+)$", path.read_text(), flags=re.MULTILINE)[0]
        page, names = [f"# Interview: {title}", ""], []
        for entry in content.parse(path.read_text(), path.name):
            question = asked[entry.question]
            names.append(entry.question)
            page += [
                f"({entry.question})=",
                f"## {question['q']}",
                "",
                _about(question["level"], question["topic"], topics),
            ]
            follow_ups = (f"**{each.question}** {each.answer}" for each in entry.follow_ups)
            page += _folded("Answer", entry.answer)
            page += _folded("What an interviewer listens for", rubric.listed(entry.points))
            page += _folded("Follow-ups", _list(follow_ups))
        found[f"course/interview/{path.name}"] = "\n".join(page)
        listed += [
            f"## {title}",
            "",
            _list(f"[{asked[name]['q']}](#{name}) ({asked[name]['level']})" for name in names),
            "",
        ]
    designs = rounds.load_folder(folder / "rounds")
    if designs:
        rows = (f"[{each.title}](rounds/{each.name}.md), {each.minutes:g} minutes ({each.level})" for each in designs)
        listed += ["## Design rounds", "", _list(rows), ""]
    for each in designs:
        found[f"course/interview/rounds/{each.name}.md"] = _round(each, topics)
    entries = [*(path.stem for path in areas), *(f"rounds/{each.name}" for each in designs)]
    tree = ["```{toctree}", ":hidden:", "", *entries, "```", ""]
    found["course/interview/index.md"] = "\n".join([*listed, *tree])
    return found


def _about(level: str, topic: str, topics: set[str]) -> str:
    where = f"[{topic}](#topic-{topic})" if topic in topics else topic
    return f"**{level}** · {where}\n"


def _round(of: Round, topics: set[str]) -> str:
    page = [f"# Design round: {of.title}", "", _about(of.level, of.topic, topics), of.opening, ""]
    for stage in of.stages:
        page += [f"## {stage.title}", "", f"{stage.minutes:g} minutes", "", stage.prompt, "", *_stage(stage)]
    return "\n".join([*page, "## Sources", "", _list(of.sources), ""])


def _stage(stage: Task) -> Iterable[str]:
    for each in stage.estimates:
        yield from (each.question, "")
        yield from _folded("The number", f"**{each.value:g} {each.unit}**\n\n{each.explanation}")
    for hint in stage.hints:
        yield from _folded("A hint", hint.text)
    yield from _folded("Answer", stage.answer)
    yield from _folded("What an interviewer listens for", rubric.listed(stage.points))
    if stage.mistakes:
        yield from _folded("Often said", _list(stage.mistakes))


def _folded(title: str, text: str) -> list[str]:
    return [f"<details><summary>{escape(title)}</summary>", "", text.strip(), "", "</details>", ""]


def _list(entries: Iterable[str]) -> str:
    return "\n".join("- " + entry.strip().replace("\n", "\n  ") for entry in entries)
