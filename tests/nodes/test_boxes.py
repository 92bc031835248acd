"""Worlds side by side in the same boxes: none sees anything of the others, whatever they break."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

import pytest
from often import often

from grader.grading import grade, only
from grader.lost import Lost
from grader.nodes.boxed import Code
from grader.nodes.boxes import Boxes, World
from grader.nodes.clients import Ask
from grader.nodes.plan import Plan, play
from grader.nodes.sim import cluster
from grader.ranks.engines import Engines
from grader.registry import find
from grader.submission import Submission

SOURCE = """
from grader.nodes import Node
import os
class S(Node):
    def on_start(self):
        self.count = self.disk.get("count", 0)
    def on_message(self, src, body):
        if body["type"] == "end":
            os._exit(3)
        if body["type"] == "loop":
            while True: pass
        if body["type"] == "rubbish":
            os.write(3, b"x" * 100)
        self.count += 1
        self.disk["count"] = self.count
        self.reply(body, {"type": "x", "value": [self.count, self.random.random()]})
"""


@pytest.fixture
def boxes(engines: Engines) -> Iterator[Boxes]:
    made = Boxes(engines.warm, Code(SOURCE, "mine.py", ("S",)), ())
    with contextlib.closing(made):
        yield made


def told(boxes: Boxes, seed: int, types: tuple[str, ...] = ("x",) * 30, places: tuple[int, ...] = (0,)) -> object:
    """All answers that a client of two nodes gets, or the kind of trouble."""
    asks = {f"c{node}": tuple(Ask(f"n{node}", {"type": kind}) for kind in types) for node in (1, 2)}
    try:
        played = play(Plan(cluster(2, "S"), asks, seed=seed, until=60), World(boxes, places))
    except Lost as lost:
        return lost.diagnosis.kind
    return [asked.answer for client in played.clients.values() for asked in client.done]


def test_worlds_side_by_side_come_out_as_alone(boxes: Boxes) -> None:
    alone = [told(boxes, seed) for seed in range(5)]
    assert list(boxes.together([partial(told, boxes, seed) for seed in range(5)])) == alone
    assert len({str(one) for one in alone}) == 5


@pytest.mark.parametrize("how", often(["end", "loop"], "end"))
def test_whose_box_was_broken_by_another_lives_on_in_a_new_one(boxes: Boxes, how: str) -> None:
    alone = [told(boxes, seed) for seed in range(3)]
    breaking = partial(told, boxes, 7, ("x",) * 8 + (how,))
    first, broken, *others = boxes.together(
        [partial(told, boxes, 0), breaking, partial(told, boxes, 1), partial(told, boxes, 2, places=(1, 2, 0))]
    )
    assert [first, *others] == alone
    assert broken in ("crash", "timeout")


def test_who_writes_rubbish_cannot_have_another_blamed_for_it(boxes: Boxes) -> None:
    found = boxes.together([partial(told, boxes, 0), partial(told, boxes, 7, ("x", "x", "rubbish"))])
    assert list(found) == ["sandbox_violation"] * 2


def test_after_three_broken_boxes_nobody_gets_another(boxes: Boxes) -> None:
    ends = [partial(told, boxes, seed, ("x",) * seed + ("end",)) for seed in range(1, 5)]
    *broken, right = boxes.together([*ends, partial(told, boxes, 9)])
    assert broken == ["crash"] * 4
    assert right == "crash", "fails closed"


def test_results_come_in_order_and_a_raise_ends_all(boxes: Boxes) -> None:
    ended: list[str] = []

    def fails() -> object:
        told(boxes, 1, ("x",) * 5)
        raise KeyboardInterrupt

    def waits() -> object:
        try:
            return told(boxes, 2)
        finally:
            ended.append("waits")

    found = boxes.together([lambda: "first", fails, waits])
    assert next(found) == "first"
    with pytest.raises(KeyboardInterrupt):
        next(found)
    assert ended == ["waits"]
    assert told(boxes, 3) != "crash", "the boxes are of use afterwards"


def test_a_check_says_alone_what_it_says_beside_others(engines: Engines) -> None:
    exercise = find("vector_clocks")
    handed_in = Submission("from grader.nodes import Node\nclass CausalNode(Node):\n    pass\n", "mine.py")
    whole = grade(exercise, handed_in, engines, 5)
    for check in whole.checks:
        (alone,) = grade(only(exercise, check.name), handed_in, engines, 5).checks
        assert (alone.status, alone.diagnosis, alone.diagram) == (check.status, check.diagnosis, check.diagram)


def test_works_begun_by_works_are_done_side_by_side_too(boxes: Boxes) -> None:
    alone = [told(boxes, seed) for seed in range(6)]

    def several(seeds: range) -> list[object]:
        return list(boxes.together([partial(told, boxes, seed) for seed in seeds]))

    found = list(boxes.together([partial(several, range(3)), partial(several, range(3, 6))]))
    assert [one for some in found for one in some] == alone


def test_what_nobody_waits_for_any_more_is_ended(boxes: Boxes) -> None:
    ended: list[int] = []

    def waits(seed: int) -> object:
        try:
            return told(boxes, seed)
        finally:
            ended.append(seed)

    def first_of_some() -> object:
        return next(boxes.together([partial(told, boxes, 0, ("x",) * 3), partial(waits, 1), partial(waits, 2)]))

    first, other = boxes.together([first_of_some, partial(told, boxes, 3)])
    assert (first, other) == (told(boxes, 0, ("x",) * 3), told(boxes, 3))
    assert ended == [1, 2]
