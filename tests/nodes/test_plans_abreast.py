"""Plans of a check are carried out side by side, and judged in their order; the first check is done before others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from grader.lost import Lost
from grader.nodes import bench
from grader.nodes.boxes import Boxes
from grader.nodes.plan import Plan
from grader.verdict import Diagnosis
from grader.worlds.nodes import _Clusters

PLANS = [Plan((), {}, seed=seed) for seed in range(5)]


def test_plans_that_were_drawn_come_before_what_the_next_raises() -> None:
    def drawn() -> Iterator[Plan]:
        yield from PLANS
        raise Lost(Diagnosis("crash", "a pilot"))

    found = bench._batches(drawn(), 3)
    assert [next(found), next(found)] == [PLANS[:3], PLANS[3:]]
    with pytest.raises(Lost):
        next(found)
    assert list(bench._batches(iter(PLANS), 5)) == [PLANS]


def test_the_first_check_is_done_before_the_others_begin() -> None:
    boxes = Boxes(None, None, ())  # type: ignore[arg-type]  # none is asked for anything
    clusters = _Clusters.__new__(_Clusters)
    clusters._bench = boxes  # type: ignore[assignment]
    begun: list[int] = []
    results = clusters.together([partial(begun.append, number) for number in range(3)])
    next(results)
    assert begun == [0]
    assert len(list(results)) == 2
    assert begun == [0, 1, 2]


class _Answering(Boxes):
    """Answers whatever is asked, without a box."""

    def _posted(self, requests: Sequence[Any], asking: Sequence[Any] = ()) -> Any:
        return SimpleNamespace(requests=requests, asking=list(asking), forget=lambda _: None)

    def _answers(self, asked: Any) -> list[Any]:
        return [[] for _ in asked.requests]


@pytest.mark.parametrize("raises", [False, True])
def test_what_is_wrong_is_made_smaller_when_the_searches_before_it_are_done(raises: bool) -> None:
    boxes, done = _Answering(None, None, ()), list[str]()  # type: ignore[arg-type]

    def first() -> None:
        for _ in range(3):
            boxes.ask(None, [])  # type: ignore[arg-type]
        done.append("the first is done")
        if raises:
            raise Lost(Diagnosis("wrong_result", "the first is wrong"))

    def second() -> None:
        done.append("the second is wrong")
        boxes.wait_for_those_before()
        done.append("it is made smaller")

    with pytest.raises(Lost) if raises else nullcontext():
        list(boxes.together([first, second], waiting=True))
    assert done == ["the second is wrong", "the first is done", *(["it is made smaller"] * (not raises))]
