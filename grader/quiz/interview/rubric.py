"""Rubrics: the points that an interviewer listens for, at which level a candidate says each, and what it weighs.

    - mid 1: Names the two phases.
    - senior 2: **Counts** the bytes of each.
    - principal 3: Says when the whole plan is not worth it.

Points up to a question's own level count. Those above it are told, and weigh nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.quiz.deck import LEVELS
from grader.quiz.interview.task import PASSED, Point, counts
from grader.quiz.markdown import Item, Part, broken

_LEAST = 3
_POINT = re.compile(rf"({'|'.join(LEVELS)}) ([1-3]): (\S.*)", re.DOTALL)
_SAYS = {"mid": "A mid says", "senior": "A senior adds", "principal": "A principal adds"}


def read(part: Part) -> tuple[Point, ...]:
    """The points of a part, those of a mid first. BrokenError for a point without its level and weight."""
    points = map(_point, part.bullets(_LEAST))
    return tuple(sorted(points, key=lambda point: LEVELS.index(point.level)))


def _point(item: Item) -> Point:
    match = _POINT.fullmatch(item.text)
    if match is None:
        broken(
            item.line, "write a point as `- LEVEL WEIGHT: What one says`, with a weight of 1 to 3, as `- senior 2: ...`"
        )
    return Point(match[3].strip(), match[1], int(match[2]))


def fault(points: Sequence[Point], level: str) -> str:
    """What is wrong with the rubric of a question of this level; empty if nothing.

    Each level says something, and nobody passes without a point of the level that was asked.
    """
    missing = [each for each in LEVELS if not any(point.level == each for point in points)]
    if missing:
        return f"nothing that a {missing[0]} says is in the rubric"
    own = sum(point.weight for point in points if point.level == level)
    most = sum(point.weight for point in points if counts(point.level, level))
    if most - own >= PASSED * most:
        return f"the points of a {level} weigh {own} of {most}: one passes without any of them"
    return ""


def listed(points: Sequence[Point]) -> str:
    """A rubric as Markdown: what a mid says, what a senior adds, and what a principal adds, with weights."""
    blocks = []
    for level in LEVELS:
        lines = [f"- {point.text} ({point.weight})" for point in points if point.level == level]
        blocks += [f"*{_SAYS[level]}*", "\n".join(lines)] if lines else []
    return "\n\n".join(blocks)


def tagged(point: Point, level: str) -> str:
    """A point of a question of this `level` as one line: who says it, what it weighs, and what it is."""
    weight = f"{point.weight}" if counts(point.level, level) else "beyond this question's level"
    return f"*{point.level}, {weight}:* {point.text}"
