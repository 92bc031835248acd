"""The strict parser of course/interview/rounds/NAME.md, a design round in stages:

    ---
    title: One trillion parameters
    question: q-design-1t
    also: q-checkpoint-storage        (optional: other questions that it answers, with commas)
    level: principal
    topic: design-1t-cluster
    ---

    What the interviewer says first.

    ## clarify: What is it for?
    minutes: 4

    The stage's prompt: what is to be done now.

    ### Number: state
    answer: 16
    unit: TB
    tolerance: 0.1                    (optional, relative; 0.1 if left out)
    formula: 1e12 * 16 / 1e12

    What is to be worked out, with every assumption.

    ---

    How it is worked out.

    ### Hint
    cost: 1

    What helps, and costs a point.

    ### Answer

    What a strong candidate asks and says here.

    ### Listen for

    - senior 2: One point of the rubric, 3 or more of them; see `rubric`.

    ### Mistakes

    - **"What is often said."** Why it is wrong.

    ## Sources

    - Where quoted facts are from, by name; 1 or more.

A stage is headed by what it is (clarify, estimate, design, deep dive, failure, wrap up; in this order, first and last
always there) and a title. Its parts come in the order above; numbers, hints and mistakes may be left out. A round has
5 to 7 stages and 4 numbers or more, each of which its formula gives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from grader.quiz.deck import DeckError
from grader.quiz.interview import rubric
from grader.quiz.interview.task import Estimate, Hint, Task
from grader.quiz.markdown import ID, Keys, Part, Written, broken, collect, opened, read, told

STAGES = ("clarify", "estimate", "design", "deep dive", "failure", "wrap up")
AREA = "design"
_LEAST_NUMBERS, _FEWEST, _MOST = 4, 5, 7


class _Front(Keys):
    title: str
    question: str
    also: str = ""
    level: Literal["mid", "senior", "principal"]
    topic: str


class _Stage(Keys):
    minutes: Annotated[float, Field(gt=0)]


class _Hint(Keys):
    cost: Annotated[float, Field(gt=0)]


class _Number(Keys):
    answer: Written
    unit: str
    formula: str
    tolerance: Annotated[float, Field(gt=0, lt=1)] = 0.1


@dataclass(frozen=True)
class Round:
    """A design round: what the interviewer says first, and its stages."""

    name: str
    title: str
    question: str
    also: tuple[str, ...]
    level: str
    topic: str
    opening: str
    stages: tuple[Task, ...]
    sources: tuple[str, ...]
    file: str

    @property
    def minutes(self) -> float:
        return sum(stage.minutes for stage in self.stages)

    @property
    def questions(self) -> tuple[str, ...]:
        return (self.question, *self.also)


def load_folder(folder: Path) -> list[Round]:
    """Every round of a folder, by name. Raises DeckError for broken files."""
    found, problems = load(folder)
    if problems:
        raise DeckError(*problems)
    return found


def load(folder: Path) -> tuple[list[Round], list[str]]:
    """The rounds of a folder that can be read, and what is wrong with the others."""
    return collect(folder, lambda path: parse(read(path), str(path), path.stem))


def parse(text: str, file: str, name: str) -> Round:
    """Read one round; `file` is what errors call it. Raises DeckError, FILE:LINE and what is wrong there."""
    with told(file):
        about, body = opened(text, _Front)
        opening, blocks = body.split(2)
        if not opening.text:
            broken(opening.start + 1, "a round must begin with what the interviewer says first")
        if not blocks or blocks[-1].name != "Sources":
            broken(blocks[-1].line if blocks else 1, "a round must end with `## Sources`")
        stages = tuple(_stage(block, name, at, about) for at, block in enumerate(blocks[:-1], start=1))
        _in_order(blocks[:-1])
        ids = [estimate.id for stage in stages for estimate in stage.estimates]
        if len(ids) < _LEAST_NUMBERS:
            broken(1, f"a round needs at least {_LEAST_NUMBERS} numbers to work out, not {len(ids)}")
        if twice := sorted({each for each in ids if ids.count(each) > 1}):
            broken(1, f"the number {twice[0]!r} is there twice")
        also = tuple(each.strip() for each in about.also.split(",") if each.strip())
        sources = tuple(item.text for item in blocks[-1].bullets(1))
    return Round(name, about.title, about.question, also, about.level, about.topic, opening.text, stages, sources, file)


def _in_order(blocks: list[Part]) -> None:
    kinds = [STAGES.index(_kind(block)[0]) for block in blocks]
    if not _FEWEST <= len(kinds) <= _MOST:
        broken(1, f"a round needs {_FEWEST} to {_MOST} stages, not {len(kinds)}")
    if kinds != sorted(kinds) or kinds[0] != 0 or kinds[-1] != len(STAGES) - 1:
        broken(blocks[0].line, f"stages must be in the order {', '.join(STAGES)}, with the first and the last")


def _kind(block: Part) -> tuple[str, str]:
    kind, colon, title = block.name.partition(":")
    if kind not in STAGES or not colon or not title.strip():
        broken(block.line, f"write a stage's heading as `## KIND: Title`; KIND is one of {', '.join(STAGES)}")
    return kind, title.strip()


def _stage(block: Part, name: str, at: int, about: _Front) -> Task:
    kind, title = _kind(block)
    before, parts = block.split(3)
    keys, prompt = before.keys(lambda _: _Stage, f"stage {block.name!r}")
    if not prompt.text:
        broken(block.line, f"stage {block.name!r} has no prompt")
    numbers = [part for part in parts if part.name.startswith("Number: ")]
    hints = [part for part in parts if part.name == "Hint"]
    mistakes = [part for part in parts if part.name == "Mistakes"]
    wanted = [*(part.name for part in numbers), *["Hint"] * len(hints), "Answer", "Listen for"]
    if [part.name for part in parts] != wanted + ["Mistakes"] * bool(mistakes):
        there = "Number: ID, Hint, Answer, Listen for, Mistakes"
        broken(block.line, f"stage {block.name!r} needs the parts {there}, in this order")
    answer, points = parts[len(numbers) + len(hints) : len(numbers) + len(hints) + 2]
    if not answer.text:
        broken(answer.line, f"the answer of stage {block.name!r} is empty")
    return Task(
        f"{name}/{at}", about.question, f"{kind.capitalize()}: {title}", AREA, about.topic, about.level,
        keys.minutes, prompt.text, answer.text,
        rubric.read(points),
        estimates=tuple(map(_number, numbers)),
        hints=tuple(map(_hint, hints)),
        mistakes=tuple(item.text for part in mistakes for item in part.bullets(1)),
        round=name,
    )  # fmt: skip


def _hint(part: Part) -> Hint:
    keys, rest = part.keys(lambda _: _Hint, "a hint")
    if not rest.text:
        broken(part.line, "this hint is empty")
    return Hint(rest.text, keys.cost)


def _number(part: Part) -> Estimate:
    name = part.name.removeprefix("Number: ").strip()
    if not re.fullmatch(ID, name):
        broken(part.line, f"{name!r} is not an id for a number: use lowercase letters, digits and single hyphens")
    keys, rest = part.keys(lambda _: _Number, repr(name))
    rules = rest.rules()
    if len(rules) != 1:
        broken(part.line, f"{name!r} needs a question, one line `---`, and how it is worked out")
    question, explanation = rest.until(rules[0]).text, rest.since(rules[0] + 1).text
    if not question or not explanation:
        broken(part.line, f"{name!r} has an empty {'explanation' if question else 'question'}")
    return Estimate(
        float(keys.answer), keys.unit, keys.tolerance, keys.formula, keys.answer,
        id=name, question=question, explanation=explanation, line=part.line,
    )  # fmt: skip
