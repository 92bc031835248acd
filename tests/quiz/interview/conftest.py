"""A small course of its own: four questions, one round, and cards."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from grader.quiz.interview import session
from grader.quiz.interview.summary import Exercise, Reading
from grader.quiz.interview.task import FollowUp, Point, Question, Task

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WORDS = "word " * 45

ENTRY = """## {id}

### Answer

The answer to {id}. {words}

### Listen for

- mid 1: **First** point of {id}
- mid 1: Second point of {id}
- mid 1: Third point of {id}
- senior 3: Fourth point of {id}
- principal 1: Fifth point of {id}

### Follow-ups

- **What follows {id}?** This follows.
- **And then?** That.
"""
ROUND = """---
title: A small round
question: q-design
level: senior
topic: design
---

The interviewer opens.

## clarify: What for?
minutes: 2

Ask.

### Answer

One asks.

### Listen for

- mid 1: Asks
- senior 1: Listens
- senior 1: Waits
- principal 1: More

## estimate: How large?
minutes: 3

Work it out.

### Number: state
answer: 16
unit: TB
formula: 1e12 * 16 / 1e12

How many bytes for 1 T parameters of 16 bytes?

---

16 TB.

### Number: days
answer: 2
unit: days
formula: 172800 / 86400

How long are 172,800 s?

---

2 days.

### Number: share
answer: 50
unit: %
formula: 1 / 2 * 100

A half in per cent?

---

50 %.

### Number: links
answer: 3
unit: links
formula: 4 - 1

How many links has a chain of four?

---

3.

### Hint
cost: 1

Multiply.

### Answer

One works it out.

### Listen for

- mid 1: Units
- senior 1: Assumptions
- senior 1: Result
- principal 1: More

### Mistakes

- **"16 GB."** A thousand times too little.

## design: How?
minutes: 2

Design.

### Answer

One designs.

### Listen for

- mid 1: A
- senior 1: B
- senior 1: C
- principal 1: More

## failure: What if?
minutes: 2

Break it.

### Answer

One mends.

### Listen for

- mid 1: A
- senior 1: B
- senior 1: C
- principal 1: More

## wrap up: In short
minutes: 1

Sum up.

### Answer

One sums up.

### Listen for

- mid 1: A
- senior 1: B
- senior 1: C
- principal 1: More

## Sources

- The author, this year.
"""
QUESTIONS = (
    Question("q-easy", "mid", "basics", "An easy question?"),
    Question("q-other", "mid", "more", "Another question?"),
    Question("q-hard", "senior", "basics", "A hard question?"),
    Question("q-design", "senior", "design", "Design something."),
)
CARDS = """---
deck: "01"
title: Cards
---
""" + "".join(
    f"\n## {name}\nlevel: {level}\ntopic: {topic}\nkind: qa\n{asks}\nQuestion {name}?\n\n---\n\nAnswer.\n"
    for name, level, topic, asks in (
        ("own", "mid", "basics", "question: q-easy\n"),
        ("near", "senior", "basics", ""),
        ("far", "mid", "more", ""),
        ("drawn", "senior", "design", "question: q-design\n"),
    )
)  # fmt: skip


def task(name: str = "q-easy", level: str = "mid", topic: str = "basics", **more: Any) -> Task:
    """A task of three points and one follow-up, four minutes long."""
    fields: dict[str, Any] = {
        "title": topic, "area": "fundamentals", "minutes": 4, "prompt": f"Prompt of {name}?", "answer": "Model answer.",
        "points": tuple(Point(f"Point {each}", "mid") for each in "abc"),
        "follow_ups": (FollowUp("And then?", "Then this."),),
    }  # fmt: skip
    return Task(name, name, **{**fields, **more}, topic=topic, level=level)


def write_course(folder: Path) -> None:
    """The files of the small course."""
    entries = "".join("\n" + ENTRY.format(id=each.id, words=WORDS) for each in QUESTIONS)
    for name, text in {
        "interview/01-fundamentals.md": f"---\narea: fundamentals\ntitle: All\n---\n{entries}",
        "interview/rounds/small.md": ROUND,
        "cards/01-cards.md": CARDS,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def small_course(folder: Path) -> session.Course:
    """The small course, as the command line passes it in."""
    return session.Course(
        folder / "interview",
        folder / "cards",
        QUESTIONS,
        {"basics": "01", "more": "01", "design": "02", "silent": "03"},
        {"basics": Reading("01", "Why", "The basics", str(folder / "01-why.ipynb") + "#The-basics")},
        {"basics": Exercise("cost_model", str(folder / "cost_model.ipynb"))},
    )


@pytest.fixture
def course(tmp_path: Path) -> session.Course:
    """The small course, in this test's folder."""
    write_course(tmp_path / "course")
    return small_course(tmp_path / "course")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where this test's reports go."""
    return tmp_path / "reports"


Hold = Callable[..., tuple[int, str]]


@pytest.fixture
def hold(course: session.Course, out: Path) -> Hold:
    """Hold an interview in plain lines; what is typed runs out as at the end of a file. Each line takes ten seconds."""

    def run(typed: Iterable[str | type[BaseException]], level: str = "mid", **wanted: Any) -> tuple[int, str]:
        lines, shown, seconds = iter(typed), io.StringIO(), [0.0]

        def read(prompt: str) -> str:
            shown.write(prompt)
            for line in lines:
                seconds[0] += 10
                shown.write("\n")
                if isinstance(line, str):
                    return line
                raise line
            raise EOFError

        request = session.Request(level, **{"seed": 1, "out": out, "plain": True, **wanted})
        console = Console(file=shown, width=100)
        status = session.run(course, request, now=lambda: NOON, clock=lambda: seconds[0], read=read, console=console)
        return status, shown.getvalue()

    return run
