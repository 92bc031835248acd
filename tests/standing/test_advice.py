"""What to do next: the rules in their order, each with the fact it rests on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from grader.standing.advice import steps
from grader.standing.gather import Asked, Cards, Part, Practice, Standing

NOW = datetime(2026, 5, 4, tzinfo=UTC)
RING = Practice("ring", "The ring", 30, 20, topics=("ring-all-reduce",))
START = Part("00", "Start here", True, 10)
FIRST = Part("01", "Why", True, 10, 0, (RING,), Cards(30))
SECOND = Part("02", "CAP", True, 10, 0, (), Cards(30))
FRESH = Standing((START, FIRST, SECOND), NOW)


def read(part: Part, **more: object) -> Part:
    return replace(part, run=part.cells, **more)  # type: ignore[arg-type]


def standing(*parts: Part, **more: object) -> Standing:
    return replace(FRESH, parts=parts, **more)  # type: ignore[arg-type]


begun = replace(RING, points=12.0, attempts=3)
solved = replace(RING, points=20.0, attempts=4)
RING_2 = replace(RING, name="ring_2")
weak = {"ring-all-reduce": Asked(1, 5)}
CASES = {
    "at the start": (FRESH, ["rankup lab 00"], "the course begins here"),
    "a chapter begun": (standing(read(START), replace(FIRST, run=4)), ["rankup lab 01"], "4 of its 10 cells"),
    "a chapter read, its exercise not tried": (
        standing(START, read(FIRST)),
        ["rankup start ring", "rankup quiz 01"],
        "worth 20 points in about 30 minutes",
    ),
    "an exercise begun": (
        standing(START, read(FIRST, exercises=(begun,))),
        ["rankup grade ring", "rankup quiz 01"],
        "12 of its 20 points after 3 tries",
    ),
    "who has solved an exercise is not sent to the beginning": (
        standing(START, replace(FIRST, exercises=(solved, RING_2)), SECOND),
        ["rankup start ring_2", "rankup lab 01"],
        "it practices chapter 01",
    ),
    "and what comes before is read at last": (
        standing(START, read(FIRST), read(SECOND, exercises=(solved,), cards=Cards(1, 1))),
        ["rankup start ring", "rankup quiz 01", "rankup lab 00"],
        "it practices chapter 01",
    ),
    "a few cards due come after what was begun": (
        standing(replace(FIRST, run=4, cards=Cards(30, 9, 2))),
        ["rankup lab 01", "rankup quiz"],
        "4 of its 10 cells",
    ),
    "many cards due come first": (
        standing(replace(FIRST, run=4, cards=Cards(30, 9, 7)), overdue_days=3.2),
        ["rankup quiz", "rankup lab 01"],
        "7 cards are due, one of them for 3 days",
    ),
    "an interview that went badly, on a chapter not read": (
        standing(START, replace(FIRST, topics=weak)),
        ["rankup lab 01"],
        "earned 1 of 5 points",
    ),
    "an interview that went badly, on a chapter read": (
        standing(START, read(FIRST, topics=weak)),
        ["rankup start ring"],
        "earned 1 of 5 points",
    ),
    "an interview that went well says nothing": (
        standing(START, replace(FIRST, topics={"ring-all-reduce": Asked(4, 5)})),
        ["rankup lab 00"],
        "begins",
    ),
    "three chapters read and no interview held": (
        standing(read(START), read(FIRST, exercises=(solved,), cards=Cards(30, 30)), read(SECOND, cards=Cards(30, 30))),
        ["rankup interview --level mid"],
        "not held an interview yet",
    ),
    "an interview held yesterday": (
        standing(
            read(START), read(FIRST, exercises=(solved,), cards=Cards(30, 30)), read(SECOND, cards=Cards(30, 30)),
            last_interview=NOW - timedelta(days=1),
        ),
        ["rankup interview --level principal"],
        "everything else is done",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("stands", "commands", "why"), CASES.values(), ids=CASES.keys())
def test_what_comes_next(stands: Standing, commands: list[str], why: str) -> None:
    found = steps(stands)
    assert [step.command for step in found][: len(commands)] == commands
    assert why in found[0].why


@pytest.mark.parametrize("stands", [case[0] for case in CASES.values()], ids=CASES.keys())
def test_there_are_one_to_three_steps_and_none_twice(stands: Standing) -> None:
    commands = [step.command for step in steps(stands)]
    assert 1 <= len(commands) <= 3
    assert len(commands) == len(set(commands))
