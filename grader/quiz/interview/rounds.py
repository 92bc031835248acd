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

    - One point of the rubric, 3 or more of them.

    ### Mistakes

    - **"What is often said."** Why it is wrong.

    ## Sources

    - Where quoted facts are from, by name; 1 or more.

A stage is headed by what it is (clarify, estimate, design, deep dive, failure, wrap up; in this order, first and last
always there) and a title. Its parts come in the order above; numbers, hints and mistakes may be left out. A round has
5 to 7 stages and 4 numbers or more, each of which its formula gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.quiz import formula
from grader.quiz.deck import LEVELS, DeckError, Number, as_number
from grader.quiz.interview import markdown, units
from grader.quiz.interview.markdown import Section
from grader.quiz.interview.task import Estimate, Hint, Task
from grader.quiz.lines import BrokenError, broken, is_rule, text_of

STAGES = ("clarify", "estimate", "design", "deep dive", "failure", "wrap up")
AREA = "design"
_LEAST_POINTS, _LEAST_NUMBERS, _FEWEST, _MOST = 3, 4, 5, 7
_TOLERANCE = 0.1


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
    """Every round of a folder, by name. Raises DeckError."""
    found, problems = collect(folder)
    if problems:
        raise DeckError(*problems)
    return found


def collect(folder: Path) -> tuple[list[Round], list[str]]:
    """The rounds of a folder that can be read, and what is wrong with the others."""
    found: list[Round] = []
    problems: list[str] = []
    for path in sorted(folder.glob("*.md")):
        try:
            found.append(parse(markdown.read(path), str(path), path.stem))
        except DeckError as error:
            problems += error.problems
    return found, problems


def parse(text: str, file: str, name: str) -> Round:
    """Read one round; `file` is what errors call it. Raises DeckError, FILE:LINE and what is wrong there."""
    try:
        return _round(text, file, name)
    except BrokenError as error:
        raise DeckError(f"{file}:{error.line}: {error.what}") from None


def _round(text: str, file: str, name: str) -> Round:
    about, body = markdown.front_matter(markdown.lines_of(text), ("title", "question", "level", "topic"), ("also",))
    if about["level"] not in LEVELS:
        broken(1, f"there is no level {about['level']!r}; there are {', '.join(LEVELS)}")
    opening, blocks = markdown.sections(body, 2)
    if not text_of(opening):
        broken(opening[0][0] if opening else 1, "a round begins with what the interviewer says first")
    if not blocks or blocks[-1].name != "Sources":
        broken(blocks[-1].line if blocks else 1, "a round ends with `## Sources`")
    stages = tuple(_stage(block, name, at, about) for at, block in enumerate(blocks[:-1], start=1))
    _in_order(blocks[:-1])
    if (numbers := sum(len(stage.estimates) for stage in stages)) < _LEAST_NUMBERS:
        broken(1, f"a round has {_LEAST_NUMBERS} numbers to work out or more, not {numbers}")
    ids = [estimate.id for stage in stages for estimate in stage.estimates]
    if twice := sorted({each for each in ids if ids.count(each) > 1}):
        broken(1, f"the number {twice[0]!r} is there twice")
    also = tuple(each.strip() for each in about.get("also", "").split(",") if each.strip())
    sources = tuple(item for _, item in markdown.items(blocks[-1], 1))
    return Round(
        name, about["title"], about["question"], also, about["level"], about["topic"], text_of(opening),
        stages, sources, file,
    )  # fmt: skip


def _in_order(blocks: list[Section]) -> None:
    kinds = [STAGES.index(_kind(block)[0]) for block in blocks]
    if not _FEWEST <= len(kinds) <= _MOST:
        broken(1, f"a round has {_FEWEST} to {_MOST} stages, not {len(kinds)}")
    if kinds != sorted(kinds) or kinds[0] != 0 or kinds[-1] != len(STAGES) - 1:
        broken(blocks[0].line, f"stages come in the order {', '.join(STAGES)}, the first and the last among them")


def _kind(block: Section) -> tuple[str, str]:
    kind, colon, title = block.name.partition(":")
    if kind not in STAGES or not colon or not title.strip():
        broken(block.line, f"a stage is headed `## KIND: Title`, and its kind is one of {', '.join(STAGES)}")
    return kind, title.strip()


def _stage(block: Section, name: str, at: int, about: dict[str, str]) -> Task:
    kind, title = _kind(block)
    before, parts = markdown.sections(block.lines, 3)
    keys, prompt = markdown.leading_fields(Section(block.line, block.name, before), ("minutes",))
    minutes = as_number(keys["minutes"])
    if minutes is None or minutes <= 0:
        broken(block.line, f"{keys['minutes']!r} is no number of minutes")
    if not text_of(prompt):
        broken(block.line, f"stage {block.name!r} has no prompt")
    numbers = [part for part in parts if part.name.startswith("Number: ")]
    hints = [part for part in parts if part.name == "Hint"]
    mistakes = [part for part in parts if part.name == "Mistakes"]
    wanted = [*(part.name for part in numbers), *["Hint"] * len(hints), "Answer", "Listen for"]
    if [part.name for part in parts] != wanted + ["Mistakes"] * bool(mistakes):
        broken(
            block.line, f"stage {block.name!r} has the parts Number: ID, Hint, Answer, Listen for, Mistakes, in order"
        )
    answer, points = parts[len(numbers) + len(hints) : len(numbers) + len(hints) + 2]
    if not answer.text:
        broken(answer.line, f"the answer of stage {block.name!r} is empty")
    return Task(
        f"{name}/{at}", about["question"], f"{kind.capitalize()}: {title}", AREA, about["topic"], about["level"],
        minutes, text_of(prompt), answer.text,
        tuple(item for _, item in markdown.items(points, _LEAST_POINTS)),
        estimates=tuple(_number(part) for part in numbers),
        hints=tuple(_hint(part) for part in hints),
        mistakes=tuple(item for part in mistakes for _, item in markdown.items(part, 1)),
        round=name,
    )  # fmt: skip


def _hint(part: Section) -> Hint:
    keys, rest = markdown.leading_fields(part, ("cost",))
    cost = as_number(keys["cost"])
    if cost is None or cost <= 0:
        broken(part.line, f"{keys['cost']!r} is no cost: a hint costs points")
    if not text_of(rest):
        broken(part.line, "this hint says nothing")
    return Hint(text_of(rest), cost)


def _number(part: Section) -> Estimate:
    name = part.name.removeprefix("Number: ").strip()
    if not markdown.is_id(name):
        broken(part.line, f"{name!r} is no id for a number: lowercase letters, digits and single hyphens")
    keys, rest = markdown.leading_fields(part, ("answer", "unit", "formula"), ("tolerance",))
    value, tolerance = as_number(keys["answer"]), as_number(keys.get("tolerance", str(_TOLERANCE)))
    if value is None:
        broken(part.line, f"{name!r} has answer {keys['answer']!r}, which is no number")
    if tolerance is None or not 0 < tolerance < 1:
        broken(part.line, f"{name!r} has tolerance {keys['tolerance']!r}, which is not between 0 and 1")
    rules = [index for index, (_, text) in enumerate(rest) if is_rule(text)]
    if len(rules) != 1:
        broken(part.line, f"{name!r} has a question, one line `---`, and how it is worked out")
    question, explanation = text_of(rest[: rules[0]]), text_of(rest[rules[0] + 1 :])
    if not question or not explanation:
        broken(part.line, f"{name!r} has an empty {'explanation' if question else 'question'}")
    try:
        units.quantity("1", keys["unit"])
    except ValueError as error:
        broken(part.line, f"{name!r}: {error}")
    number = Number(value, keys["unit"], tolerance, keys["formula"])
    if wrong := formula.disagreement(number, keys["answer"]):
        broken(part.line, f"{name!r}: {wrong}")
    return Estimate(name, question, value, keys["unit"], tolerance, keys["formula"], explanation)
