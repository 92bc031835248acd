"""Worlds side by side in the same boxes: none sees anything of the others, whatever they break."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from functools import partial

import pytest
from often import often

from grader.grading import grade, only
from grader.lost import Lost
from grader.nodes.boxed import Boxed, Code
from grader.nodes.boxes import Boxes, World
from grader.nodes.clients import Ask
from grader.nodes.life import Birth, Step
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
        self.reply(body, {"type": "x", "value": [self.count, self.random.random()], "more": body.get("more")})
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


@pytest.fixture
def box(engines: Engines) -> Iterator[Boxed]:
    made = Boxed(engines.warm, Code(SOURCE, "mine.py", ("S",)))
    with contextlib.closing(made):
        made.answers(made.post([turn("n1", ["start"], born=True), turn("n2", ["start"], born=True)]))
        yield made


def turn(node: str, what: list[object], born: bool = False) -> list[object]:
    return ["turn", "w", node, what, 0.0, Birth("S", node, ()).to_json() if born else None]


def message(node: str, kind: str, more: str = "") -> list[object]:
    return turn(node, ["message", "c1", json.dumps({"type": kind, "more": more})])


def test_a_process_that_ends_takes_back_no_answer_and_only_who_ended_it_is_blamed(box: Boxed) -> None:
    first = box.post([message("n1", "x"), message("n2", "x")])
    second = box.post([message("n1", "x"), message("n2", "end")])
    third = box.post([message("n1", "x")])
    assert len(box.answers(first)) == 2
    for _ in range(2):
        with pytest.raises(Lost, match="in a handler of n2"):
            box.answers(second)
    with pytest.raises(Lost):
        box.answers(third)
    assert (box.blamed(first), box.blamed(second), box.blamed(third)) == (None, 1, None)
    assert len(box.answers(first)) == 2


def test_what_is_asked_ahead_and_what_is_answered_may_both_be_long(box: Boxed) -> None:
    """More than sockets hold: neither side may wait for the other to read."""
    handed = [box.post([message(node, "echo", "x" * 2**19)]) for node in ("n1", "n2", "n1")]
    for posted in reversed(handed):
        (step,) = box.answers(posted)
        assert isinstance(step, Step)
        assert len(step.effects[-1][2]) > 2**19


def test_answers_do_not_depend_on_which_half_is_asked_first(boxes: Boxes) -> None:
    alone = [told(boxes, seed, ("x",) * (3 * seed + 1)) for seed in range(7)]
    assert list(boxes.together([partial(told, boxes, seed, ("x",) * (3 * seed + 1)) for seed in range(7)])) == alone
    assert not boxes._under_way


def test_a_world_that_is_ended_while_it_is_asked_is_not_asked_again(boxes: Boxes) -> None:
    """Its box breaks just then; nodes that live no more would break the next one, too."""
    alone = told(boxes, 3)

    def first_of_some() -> object:
        return next(boxes.together([partial(told, boxes, 0, ("x",)), *(partial(told, boxes, 1) for _ in range(4))]))

    found = boxes.together([first_of_some, partial(told, boxes, 7, ("x", "x", "x", "end")), partial(told, boxes, 3)])
    first, broken, other = found
    assert (first, broken, other) == (told(boxes, 0, ("x",)), "crash", alone)
